"""Credentials that agents ask for: what waits until a human adds one, and what ends the waiting.

An agent names a service of the policy and nothing else: which host a value is typed for, the policy says. A request is
answered by adding the credential, which an approver signs, or by a no, which needs no signature. Nothing here holds,
sees or takes a value.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from broker.approvals.answers import AnswerRefused
from broker.approvals.prompts import Prompts
from broker.approvals.want import Want
from broker.contract.reasons import ApprovalState
from broker.contract.wire import JsonObject, JsonValue
from broker.core import approval
from broker.core.approval import Happening
from broker.core.events import AuditEvent, EventName
from broker.core.refusals import Refusal
from broker.ports import AuditLog, AuditUnwritable, Clock

EXPIRES_S = 600.0  # a human has to fetch the value from somewhere first
SETTLED_KEPT = 50
_WORDS = {ApprovalState.APPROVED: "provided", ApprovalState.DENIED: "declined"}
_DECISIONS = {Happening.APPROVED: "provided", Happening.DENIED: "deny"}


@dataclass(slots=True, kw_only=True, eq=False)
class WaitingWant:
    """A request for a credential and what becomes of it."""

    id: str
    want: Want
    created_at_ms: int
    settled: asyncio.Future[Happening]
    state: ApprovalState = ApprovalState.PENDING
    ended_by: Happening | None = None
    reason: str | None = None
    joined: int = 1
    seen: bool = False

    @property
    def word(self) -> str:
        """Its state as agents and lists are told."""
        return _WORDS.get(self.state, self.state.value)


class Wants:
    """Holds them. Shares the budgets of prompts with the cards: whoever floods one way floods the other."""

    def __init__(
        self,
        *,
        audit: AuditLog,
        clock: Clock,
        prompts: Prompts,
        present: Callable[[], bool],
        changed: Callable[[str, str], None],
        waits: Callable[[str], None],
        mute: Callable[[str, str], object],
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._prompts = prompts
        self._present = present
        self._changed = changed
        self._waits = waits
        self._mute = mute
        self._all: OrderedDict[str, WaitingWant] = OrderedDict()

    async def ask(self, want: Want) -> Refusal | None:
        """Wait until a human adds the credential; None once they did."""
        if want.session.muted:
            return approval.muted("muted")
        waiting = self._same(want)
        if waiting is None:
            refused = self._not_to_be_asked(want)
            if refused is not None:
                return refused
            waiting = self._put(want)
        else:
            waiting.joined += 1
            self._changed(waiting.id, waiting.word)
        self._waits(want.correlation_id)
        try:
            async with asyncio.timeout(EXPIRES_S):
                await asyncio.shield(waiting.settled)
        except TimeoutError:
            self._settle(waiting, Happening.EXPIRED)
        happening = waiting.ended_by or Happening.EXPIRED
        if happening is Happening.APPROVED:
            return None
        return approval.refusal(happening, reason=waiting.reason, approver=waiting.seen)

    def provided(self, credential: str) -> int:
        """A human added the credential; returns how many requests that answers."""
        return sum(
            self._settle(waiting, Happening.APPROVED)
            for waiting in list(self._all.values())
            if waiting.want.credential == credential
        )

    def decline(self, want_id: str, reason: str | None) -> WaitingWant:
        """A human's no. Raises AnswerRefused where there is nothing to answer any more."""
        waiting = self.known(want_id)
        if waiting.state is not ApprovalState.PENDING:
            raise AnswerRefused("settled", f"This request is settled already: {waiting.word}.")
        waiting.reason = reason
        self._prompts.deny(waiting.want)
        self._settle(waiting, Happening.DENIED)
        return waiting

    def void(self, happening: Happening, *, session_id: str | None = None) -> int:
        """End what waits, of one session or of all; returns how many."""
        return sum(
            self._settle(waiting, happening)
            for waiting in list(self._all.values())
            if session_id in {None, waiting.want.session.id}
        )

    def withdraw(self, correlation_id: str) -> bool:
        for waiting in list(self._all.values()):
            if waiting.want.correlation_id == correlation_id:
                return self._settle(waiting, Happening.WITHDRAWN)
        return False

    def known(self, want_id: str) -> WaitingWant:
        waiting = self._all.get(want_id)
        if waiting is None:
            raise AnswerRefused("unknown", "There is no such request. See: doorward approvals list")
        waiting.seen = True
        return waiting

    def listing(self) -> list[JsonObject]:
        """Names that the policy knows, and states; nothing that an agent wrote."""
        return [row(waiting) for waiting in self._all.values()]

    def _same(self, want: Want) -> WaitingWant | None:
        for waiting in self._all.values():
            other = waiting.want
            is_same = (other.session.id, other.service.name) == (want.session.id, want.service.name)
            if is_same and waiting.state is ApprovalState.PENDING:
                return waiting
        return None

    def _not_to_be_asked(self, want: Want) -> Refusal | None:
        denial, now_s = self._prompts.denied_recently(want), self._clock.monotonic_s()
        if denial is not None:
            return approval.denied_recently(ago_s=int(now_s - denial.at_s), again_s=ceil(denial.until_s - now_s))
        over = self._prompts.count(want)
        if over is None:
            return None
        if over.shared:
            return approval.crowded(over.limit)
        self._mute(want.session.id, over.limit)
        return approval.muted(over.limit)

    def _put(self, want: Want) -> WaitingWant:
        waiting = WaitingWant(
            id="cr_" + secrets.token_hex(6),
            want=want,
            created_at_ms=self._clock.now_ms(),
            settled=asyncio.get_running_loop().create_future(),
            seen=self._present(),
        )
        self._audit.post(self._event(EventName.APPROVAL_REQUESTED, waiting, {"service": want.service.name}))
        self._all[waiting.id] = waiting
        ended = [key for key, one in self._all.items() if one.state is not ApprovalState.PENDING]
        for key in ended[: max(0, len(ended) - SETTLED_KEPT)]:
            del self._all[key]
        self._changed(waiting.id, waiting.word)
        return waiting

    def _settle(self, waiting: WaitingWant, happening: Happening) -> bool:
        state = approval.after(waiting.state, happening)
        if state is None:
            return False
        waiting.state, waiting.ended_by = state, happening
        waiting.seen = waiting.seen or self._present()
        with suppress(AuditUnwritable):  # nothing is sent by it, and what takes away happens all the same
            fields: JsonObject = {"decision": _DECISIONS.get(happening, happening.value), "reason": waiting.reason}
            self._audit.post(self._event(EventName.APPROVAL_DECIDED, waiting, fields))
        if not waiting.settled.done():
            waiting.settled.set_result(happening)
        self._changed(waiting.id, waiting.word)
        return True

    def _event(self, name: EventName, waiting: WaitingWant, fields: JsonObject) -> AuditEvent:
        want = waiting.want
        return AuditEvent(
            name=name,
            at_ms=self._clock.now_ms(),
            correlation_id=want.correlation_id,
            session_id=want.session.id,
            fields={"approval_id": waiting.id, "credential": want.credential, **fields},
        )


def row(waiting: WaitingWant) -> dict[str, JsonValue]:
    want = waiting.want
    return {
        "id": waiting.id,
        "state": waiting.word,
        "service": want.service.name,
        "credential": want.credential,
        "agent": want.caller.agent,
        "created_at_ms": waiting.created_at_ms,
        "expires_at_ms": waiting.created_at_ms + int(EXPIRES_S * 1000),
        "joined": waiting.joined,
    }


def whole(waiting: WaitingWant) -> dict[str, JsonValue]:
    """With the agent's own words, and with where the policy has the value bound: nothing of that is the agent's."""
    want = waiting.want
    places: list[JsonValue] = list(want.service.places)
    return {**row(waiting), "purpose": want.purpose, "origins": places, "is_ssh": want.service.ssh is not None}

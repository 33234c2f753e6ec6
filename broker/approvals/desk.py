"""The desk: cards that wait for a human, who they are shown to, and what settles them.

Joins identical requests of one session. How often a human is asked is kept by prompts.py, what an answer must say is
checked by answers.py, and what a card shows is drawn by core/card.py.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from math import ceil

from broker.approvals.answers import Answer, AnswerRefused, Served, Verify, answered, check_approval
from broker.approvals.past import Past
from broker.approvals.prompts import Prompts
from broker.approvals.waiting import Waiting, card_of, group_of, is_spoken_for, row
from broker.approvals.wants import Wants
from broker.contract.reasons import ApprovalState
from broker.contract.wire import JsonObject
from broker.core import approval
from broker.core.approval import Happening
from broker.core.card import card_digest
from broker.core.events import AuditEvent, EventName
from broker.core.grants import Grant
from broker.ports import Approved, AuditLog, AuditUnwritable, Chosen, Clock, Declined, Joined, Question

SETTLED_KEPT = 200
REFUSED_RECORDED = 50  # answers to one card that did not count; whoever goes on with it makes no log grow


class Desk:
    """Holds cards, and in `wants` the credentials that agents ask for; what ends the ones ends the others.

    `present` tells whether an approver is connected; `changed` is called with a card's id and state.

    `waits` is called with the id of each request that a human is asked about, and of no other.
    """

    def __init__(
        self,
        *,
        audit: AuditLog,
        clock: Clock,
        log_id: str,
        verify: Verify,
        present: Callable[[], bool],
        changed: Callable[[str, str], None],
        waits: Callable[[str], None] = lambda _: None,
        wanted: Callable[[str, str], None] = lambda _, __: None,
        mute: Callable[[str, str], object],
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._log_id = log_id
        self._verify = verify
        self._present = present
        self._changed = changed
        self._waits = waits
        self._mute = mute
        self._cards: OrderedDict[str, Waiting] = OrderedDict()
        self._prompts = Prompts(monotonic_s=clock.monotonic_s)
        self._past = Past(self._prompts)
        self.wants = Wants(
            audit=audit,
            clock=clock,
            prompts=self._prompts,
            present=present,
            changed=wanted,
            waits=waits,
            mute=mute,
        )

    async def ask(self, question: Question) -> Approved | Chosen | Declined | Joined:
        """Put the question before a human and wait, at most until the card expires."""
        refused = self._not_to_be_asked(question)
        if refused is not None:
            return refused
        same = self._same(question)
        if same is not None:
            same.joined += 1
            self._changed(same.id, same.state.value)
            self._waits(question.correlation_id)
            return Joined(leader=same.question.correlation_id)
        waiting = self._put(question)
        try:
            async with asyncio.timeout(question.ask.rule.expires_s):
                await asyncio.shield(waiting.settled)
        except TimeoutError:
            waiting.overdue = True
            if not self._settle(waiting, Happening.EXPIRED):
                await waiting.settled  # an answer came in time and is being recorded
        return self._outcome(waiting)

    def served(self, card_id: str, viewer: Hashable) -> tuple[Waiting, Served]:
        """Show a card to a control session; its arming starts with the first time."""
        waiting = self._known(card_id)
        waiting.approver_seen = True
        shown = waiting.served.get(viewer)
        if shown is None:
            shown = waiting.served[viewer] = Served(nonce=secrets.token_hex(16), at_s=self._clock.monotonic_s())
        return waiting, shown

    async def answer(self, card_id: str, answer: Answer, viewer: Hashable) -> Waiting:
        """Settle a card by a human's answer, durably. Raises AnswerRefused, and records that it did.

        The first good answer takes the card at once; whoever waits for it goes on when the answer is on record. A yes
        that can't be recorded does not count, a no does all the same.
        """
        waiting = self._known(card_id)
        try:
            key_id = self._check(waiting, answer, viewer)
        except AnswerRefused as refused:
            waiting.refused += 1
            if waiting.refused <= REFUSED_RECORDED:
                self._post(EventName.APPROVAL_REFUSED, waiting, {"code": refused.code})
            raise
        yes = answer.decision == "approve"
        happening = answered(answer)
        waiting.state = approval.after(waiting.state, happening) or waiting.state
        waiting.reason, waiting.scope, waiting.choice = answer.reason, answer.scope, answer.choice
        try:
            await self._record(waiting, answer, key_id=key_id)
        except BaseException:
            self._reopen(waiting) if yes else self._close(waiting, Happening.DENIED)
            raise
        self._close(waiting, happening)
        return waiting

    def _check(self, waiting: Waiting, answer: Answer, viewer: Hashable) -> str | None:
        if waiting.state is not ApprovalState.PENDING:
            raise AnswerRefused("settled", f"This card is settled already: {waiting.state.value}.")
        if answer.decision == "deny":
            return None
        return check_approval(
            answer,
            waiting.card,
            digest=waiting.digest,
            policy_digest=waiting.question.policy.digest,
            served=waiting.served.get(viewer),
            now_s=self._clock.monotonic_s(),
            now_ms=self._clock.now_ms(),
            verify=self._verify,
        )

    def void(self, happening: Happening, *, session_id: str | None = None, credential: str | None = None) -> int:
        """End every waiting card, or those of one session or credential; returns how many."""
        ended = 0
        if happening is Happening.LOCKED:
            self._past.forget()
        if credential is None:
            self.wants.void(happening, session_id=session_id)
        elif happening is Happening.CREDENTIAL_CHANGED:
            self.wants.provided(credential)  # nothing waits for one that was there before
        for waiting in list(self._cards.values()):
            question = waiting.question
            if session_id is not None and question.session.id != session_id:
                continue
            if credential is not None and question.frozen.service.credential != credential:
                continue
            ended += self._settle(waiting, happening)
        return ended

    def granted(self, held: Iterable[Grant]) -> None:
        """Let the cards go that these grants speak for by now, the oldest first, as many as they have uses left.

        What a yes for the session covers is not asked once more only because it was there before the yes.
        """
        for grant in held:
            left = grant.max_uses - grant.used
            for waiting in self.waiting():
                if left > 0 and is_spoken_for(waiting, grant, now_ms=self._clock.now_ms()):
                    waiting.choice = approval.GRANTED
                    left -= self._settle(waiting, Happening.SUPERSEDED)

    def withdraw(self, correlation_id: str) -> bool:
        for waiting in list(self._cards.values()):
            if waiting.question.correlation_id == correlation_id:
                return self._settle(waiting, Happening.WITHDRAWN)
        return self.wants.withdraw(correlation_id)

    def listing(self, state: str | None = None) -> list[JsonObject]:
        """Cards as a list shows them, oldest first: names and states, no bodies."""
        cards = self._cards.values()
        sizes = Counter(waiting.group for waiting in cards if waiting.state is ApprovalState.PENDING)
        return [
            row(waiting, group_size=sizes[waiting.group]) for waiting in cards if state in {None, waiting.state.value}
        ]

    def waiting(self) -> list[Waiting]:
        """Cards that wait for a human, oldest first."""
        return [waiting for waiting in self._cards.values() if waiting.state is ApprovalState.PENDING]

    @property
    def pending(self) -> int:
        return sum(waiting.state is ApprovalState.PENDING for waiting in self._cards.values())

    def waiting_sessions(self) -> list[str]:
        """The session behind each card that waits."""
        return [one.question.session.id for one in self._cards.values() if one.state is ApprovalState.PENDING]

    def _known(self, card_id: str) -> Waiting:
        waiting = self._cards.get(card_id)
        if waiting is None:
            raise AnswerRefused("unknown", "There is no such approval. See: doorward approvals list")
        return waiting

    def _same(self, question: Question) -> Waiting | None:
        for waiting in self._cards.values():
            other = waiting.question
            if (
                waiting.state is ApprovalState.PENDING
                and other.session.id == question.session.id
                and other.frozen.digest == question.frozen.digest
                and other.policy.digest == question.policy.digest
                and len(other.doubts) == len(question.doubts)
                and other.proof == question.proof
            ):
                return waiting
        return None

    def _put(self, question: Question) -> Waiting:
        card_id = "ap_" + secrets.token_hex(6)
        now_ms = self._clock.now_ms()
        before = self._past.before(question, now_ms=now_ms)
        card = card_of(question, card_id=card_id, log_id=self._log_id, now_ms=now_ms, before=before)
        waiting = Waiting(
            id=card_id,
            card=card,
            digest=card_digest(card),
            question=question,
            group=group_of(question),
            settled=asyncio.get_running_loop().create_future(),
            approver_seen=self._present(),
        )
        self._audit.post(
            self._event(
                EventName.APPROVAL_REQUESTED,
                waiting,
                {"card": waiting.digest, "request": question.frozen.digest, "rule": question.ask.rule.id},
            )
        )
        self._cards[card_id] = waiting
        self._forget_settled()
        self._changed(card_id, waiting.state.value)
        self._waits(question.correlation_id)
        return waiting

    async def _record(self, waiting: Waiting, answer: Answer, *, key_id: str | None) -> None:
        await self._audit.append(
            self._event(
                EventName.APPROVAL_DECIDED,
                waiting,
                {
                    "decision": answer.decision,
                    "scope": answer.scope,
                    "choice": answer.choice,
                    "reason": answer.reason,
                    "card": waiting.digest,
                    "key": key_id,
                    "statement": None if key_id is None else answer.statement,
                    "signature": answer.signature.hex() if key_id and answer.signature else None,
                },
            )
        )

    def _settle(self, waiting: Waiting, happening: Happening) -> bool:
        """End a card by anything but a human's answer. False where it is settled already."""
        state = approval.after(waiting.state, happening)
        if state is None:
            return False
        waiting.state = state
        self._close(waiting, happening)
        self._post(EventName.APPROVAL_DECIDED, waiting, {"decision": happening.value})
        return True

    def _reopen(self, waiting: Waiting) -> None:
        """The answer that took the card did not count after all."""
        waiting.state, waiting.choice = ApprovalState.PENDING, None
        if waiting.overdue:
            self._settle(waiting, Happening.EXPIRED)

    def _close(self, waiting: Waiting, happening: Happening) -> None:
        """Tell whoever waits, and everybody who looks."""
        waiting.ended_by = happening
        waiting.approver_seen = waiting.approver_seen or self._present()
        if happening is Happening.DENIED:
            self._prompts.deny(waiting.question)
        if happening is Happening.APPROVED:
            self._past.approve(waiting.question, scope=waiting.scope, at_ms=self._clock.now_ms())
        if not waiting.settled.done():
            waiting.settled.set_result(happening)
        self._changed(waiting.id, waiting.state.value)

    def _outcome(self, waiting: Waiting) -> Approved | Chosen | Declined:
        happening = waiting.ended_by or Happening.EXPIRED
        if happening is Happening.SUPERSEDED and waiting.choice is not None:
            return Chosen(approval_id=waiting.id, choice=waiting.choice)
        if happening is Happening.APPROVED:
            return Approved(approval_id=waiting.id, scope=waiting.scope)
        refusal = approval.refusal(
            happening,
            reason=waiting.reason,
            per_call=waiting.question.ask.per_call,
            approver=waiting.approver_seen,
        )
        return Declined(refusal=refusal, expired=happening is not Happening.DENIED)

    def _not_to_be_asked(self, question: Question) -> Declined | None:
        if question.session.muted:
            return Declined(refusal=approval.muted("muted"), expired=False)
        denial, now_s = self._prompts.denied_recently(question), self._clock.monotonic_s()
        if denial is not None:
            ago_s, again_s = int(now_s - denial.at_s), ceil(denial.until_s - now_s)
            return Declined(refusal=approval.denied_recently(ago_s=ago_s, again_s=again_s), expired=False)
        if self._same(question) is not None:
            return None
        limits = question.policy.limits
        mine = sum(
            waiting.state is ApprovalState.PENDING and waiting.question.session.id == question.session.id
            for waiting in self._cards.values()
        )
        if mine >= limits.pending_cards:
            return self._muted(question, f"{mine} cards wait already")
        over = self._prompts.count(question)
        if over is not None and over.shared:  # whoever used it up, this one may be innocent
            return Declined(refusal=approval.crowded(over.limit), expired=True)
        return None if over is None else self._muted(question, over.limit)

    def _muted(self, question: Question, limit: str) -> Declined:
        self._mute(question.session.id, limit)
        return Declined(refusal=approval.muted(limit), expired=False)

    def _forget_settled(self) -> None:
        settled = [key for key, waiting in self._cards.items() if waiting.state is not ApprovalState.PENDING]
        for key in settled[: max(0, len(settled) - SETTLED_KEPT)]:
            del self._cards[key]

    def _post(self, name: EventName, waiting: Waiting, fields: JsonObject) -> None:
        with suppress(AuditUnwritable):  # what takes away happens all the same, and nothing is sent then
            self._audit.post(self._event(name, waiting, fields))

    def _event(self, name: EventName, waiting: Waiting, fields: JsonObject) -> AuditEvent:
        return AuditEvent(
            name=name,
            at_ms=self._clock.now_ms(),
            correlation_id=waiting.question.correlation_id,
            session_id=waiting.question.session.id,
            fields={"approval_id": waiting.id, **fields},
        )

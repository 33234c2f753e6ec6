"""Reconciling: an outcome in doubt is settled by the declared read-back, or stays in doubt and says so.

The read-back is a request like any other: it passes every gate and has a trail of its own. Its answer decides only
by the match that the operation declares; "none found" proves absence only where the answer is known to be complete.
Whoever is refused because of a doubt may have it read back; what was answered to its maker stays the maker's.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry, VaultState, WarningCode
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject, JsonValue
from broker.core import records, refusals, reply
from broker.core.events import AuditEvent, EventName
from broker.core.identity import Caller
from broker.core.ledger import Attempt, AttemptState
from broker.core.policy.model import KEY_NAME, ReadBack
from broker.core.predicate import AnswerView, PredicateError, answer_view, compile_selection, selected
from broker.core.refusals import Refusal
from broker.core.reply import Frame, Result, Unrecorded
from broker.core.resolve import HttpAsk
from broker.core.ssh.recall import look_ups, recalled
from broker.core.ssh.resolve import LookUpAsk
from broker.core.xml_tree import XmlError, tree_of
from broker.operations.ledger import LedgerError, LedgerStore
from broker.operations.ssh_look_up import proof_of
from broker.ports import AuditLog, AuditUnwritable, Clock, PolicySource

NOT_BEFORE_MAX_S = 30
UNDER_WAY = "It is still under way, so there is nothing to settle yet. Ask for its result."
GATES = frozenset(
    {
        Category.VAULT_LOCKED,
        Category.BROKER_UNAVAILABLE,
        Category.SESSION_DENIED,
        Category.CALL_DENIED,
        Category.APPROVAL_TIMEOUT,
        Category.APPROVAL_PENDING,
    }
)
_ARGUMENT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One reconcile: its own id, the attempt in doubt, and on whose behalf."""

    correlation_id: str
    caller: Caller
    attempt: Attempt
    gate: GateReport

    @property
    def frame(self) -> Frame:
        return Frame(
            correlation_id=self.correlation_id,
            operation=self.attempt.operation,
            effect=Effect.WRITE,  # nothing else is ever in doubt
            previous_correlation_id=self.attempt.correlation_id,
        )


ReadAgain = Callable[[HttpAsk | LookUpAsk, str], Awaitable[JsonObject]]
"""Performs the read-back as a request of the caller's, and returns its envelope."""


class Reconciler:
    """Settles attempts in doubt. `perform` is the pipeline on the caller's behalf."""

    def __init__(self, *, ledger: LedgerStore, policies: PolicySource, audit: AuditLog, clock: Clock) -> None:
        self._ledger = ledger
        self._policies = policies
        self._audit = audit
        self._clock = clock

    async def attempt(self, correlation_id: str, *, anchor_id: str | None) -> Attempt | None:
        """The attempt, for the anchor that made it (None: for a human)."""
        found = await self._ledger.by_id(correlation_id)
        if found is None or anchor_id not in {None, found.anchor_id}:
            return None
        return found

    async def reconcilable(self, correlation_id: str, *, anchor_id: str | None) -> Attempt | None:
        """Likewise, and for everybody what is or was in doubt, without the answer that its maker got."""
        found = await self.attempt(correlation_id, anchor_id=None)
        if found is None or anchor_id in {None, found.anchor_id}:
            return found
        if found.state not in {AttemptState.IN_DOUBT, AttemptState.SETTLED}:
            return None
        return replace(found, envelope=None if found.envelope is None else {**found.envelope, "http": None})

    async def settle(self, errand: Errand, read_again: ReadAgain) -> Result | Unrecorded:
        """Read back and judge. The answer has an envelope of its own."""
        try:
            return await self._settle(errand, read_again)
        except AuditUnwritable:
            told = reply.unrecorded(errand.frame, errand.gate, dispatched=False).to_json()
            is_read = errand.frame.effect is Effect.READ  # a change that nobody could look up is as unknown as before
            return Unrecorded(envelope=told if is_read else {**told, "remote_effect": RemoteEffect.UNKNOWN.value})
        except Exception:  # a fault of our own: the trail still gets its end, and our caller tells the agent
            with suppress(AuditUnwritable):
                await self._audit.append(self._event(EventName.ACTION_RESULT, errand, records.BROKEN))
            raise

    async def _settle(self, errand: Errand, read_again: ReadAgain) -> Result:
        attempt = errand.attempt
        try:
            if attempt.state is not AttemptState.IN_DOUBT:
                return await self._told_already(errand)
            by = {"agent": errand.caller.agent, "anchor": errand.caller.anchor.id}
            self._post(EventName.RECONCILE_STARTED, errand, by)
            if recalled(attempt.args) is not None:
                envelope = await self._look_up(errand, read_again)
            else:
                read_back = self._declared(attempt)
                if read_back is None:
                    return await self._refuse(errand, _nothing_can(attempt))
                envelope = await self._judge(errand, read_back, read_again)
            return await self._told_already(errand) if envelope is None else await self._end(errand, envelope)
        except LedgerError:
            if not self._ledger.is_sealed:
                raise
            gate = replace(errand.gate, vault=VaultState.LOCKED)
            return await self._refuse(replace(errand, gate=gate), _locked_meanwhile())

    async def _refuse(self, errand: Errand, refusal: Refusal) -> Result:
        return await self._end(errand, reply.refused(errand.frame, refusal, errand.gate).to_json())

    async def _told_already(self, errand: Errand) -> Result:
        attempt = errand.attempt
        settlement = await self._ledger.settlement(attempt.correlation_id)
        if attempt.state is AttemptState.RUNNING:
            frame = Frame(correlation_id=errand.correlation_id, previous_correlation_id=attempt.correlation_id)
            return await self._end(
                errand, reply.refused(frame, refusals.still_running(UNDER_WAY), errand.gate).to_json()
            )
        envelope = settlement or attempt.envelope or reply.crashed(attempt)
        receipt = await self._audit.append(
            self._event(EventName.ACTION_RESULT, errand, {"recorded": attempt.correlation_id})
        )
        return reply.replayed(envelope, receipt)

    async def _look_up(self, errand: Errand, read_again: ReadAgain) -> JsonObject | None:
        """What the host itself says of an SSH attempt; None where somebody else settled it meanwhile."""
        attempt = errand.attempt
        ways = look_ups(
            self._policies.current(),
            attempt.args,
            service=attempt.service,
            operation=attempt.operation.removeprefix(f"{attempt.service}."),
            correlation_id=attempt.correlation_id,
        )
        told = reply.refused(errand.frame, _nothing_can(attempt), errand.gate).to_json()
        for way in ways:
            answer = await read_again(way, attempt.correlation_id)
            if Category(str(answer["category"])) in GATES:
                return _not_read(errand, answer)
            proof = proof_of(way, attempt, answer)
            told = {**proof.envelope, **_about(errand)}
            if proof.settles:
                return told if await self._settled(errand, settled_fields(told), told) else None
        return told

    async def _judge(self, errand: Errand, read_back: ReadBack, read_again: ReadAgain) -> JsonObject | None:
        """What the read-back proves; None where somebody else settled it meanwhile."""
        attempt = errand.attempt
        await self._not_before(attempt, read_back)
        answer = await read_again(
            HttpAsk(
                service=attempt.service,
                operation=read_back.operation,
                args={name: _filled(value, attempt) for name, value in read_back.args.items()},
            ),
            attempt.correlation_id,
        )
        category = Category(str(answer["category"]))
        if category not in {Category.SUCCESS, Category.PARTIAL}:
            return _not_read(errand, answer)
        found = _matches(read_back, attempt, answer)
        envelope = reply.reconciled(
            errand.frame,
            errand.gate,
            matches=found,
            complete=category is Category.SUCCESS and _complete(answer),
            code=_former_code(attempt),
            one_proves=read_back.one_proves,
            none_proves=read_back.none_proves,
        )
        told = {**envelope.to_json(), "gate": answer["gate"]}
        if envelope.category is not Category.OUTCOME_UNKNOWN:
            return told if await self._settled(errand, reply.audit_fields(envelope), told) else None
        return told

    async def _settled(self, errand: Errand, fields: JsonObject, told: JsonObject) -> bool:
        """Put it on record, then into the ledger. False where it is not in doubt any more."""
        target = errand.attempt.correlation_id
        async with self._ledger.settling:
            now = await self._ledger.by_id(target)
            if now is None or now.state is not AttemptState.IN_DOUBT:
                return False
            await self._audit.append(self._event(EventName.RECONCILE_SETTLED, errand, {"of": target, **fields}))
            return await self._ledger.settle(target, told)

    async def _not_before(self, attempt: Attempt, read_back: ReadBack) -> None:
        """Give an index of the provider's the declared time to catch up."""
        age_ms = self._clock.now_ms() - attempt.started_at_ms
        left_s = min(NOT_BEFORE_MAX_S, read_back.not_before_s) - age_ms / 1000
        if left_s > 0:
            await asyncio.sleep(left_s)

    def _declared(self, attempt: Attempt) -> ReadBack | None:
        service = self._policies.current().services.get(attempt.service)
        if service is None:
            return None
        operation = service.operations.get(attempt.operation.removeprefix(f"{attempt.service}."))
        return None if operation is None else operation.reconcile

    async def _end(self, errand: Errand, envelope: JsonObject) -> Result:
        fields = {name: envelope[name] for name in ("status", "category", "code", "retry", "remote_effect")}
        receipt = await self._audit.append(
            self._event(
                EventName.ACTION_RESULT, errand, {**fields, "previous_correlation_id": errand.attempt.correlation_id}
            )
        )
        return Result(envelope=envelope, receipt=receipt)

    def _post(self, name: EventName, errand: Errand, fields: JsonObject) -> None:
        self._audit.post(self._event(name, errand, {"of": errand.attempt.correlation_id, **fields}))

    def _event(self, name: EventName, errand: Errand, fields: JsonObject) -> AuditEvent:
        return AuditEvent(name=name, at_ms=self._clock.now_ms(), correlation_id=errand.correlation_id, fields=fields)


def settled_fields(envelope: JsonObject) -> JsonObject:
    """What the record of a settlement says of an envelope that another request brought."""
    names = ("status", "category", "code", "retry", "remote_effect", "operation", "effect", "gate")
    return {name: envelope[name] for name in names}


def _about(errand: Errand) -> JsonObject:
    """What makes an envelope one of this errand."""
    return {
        "correlation_id": errand.correlation_id,
        "previous_correlation_id": errand.attempt.correlation_id,
        "operation": errand.attempt.operation,
    }


def settled_by_human(attempt: Attempt, *, correlation_id: str, applied: bool) -> JsonObject:
    """What a later question about the attempt is told after a human's signed word."""
    frame = Frame(
        correlation_id=correlation_id,
        operation=attempt.operation,
        effect=Effect.WRITE,
        previous_correlation_id=attempt.correlation_id,
    )
    envelope = reply.reconciled(frame, GateReport(), matches=1 if applied else 0, complete=True, code="unrecorded")
    message = f"A human settled it: the change was {'applied' if applied else 'not applied'}."
    return {**envelope.to_json(), "message": message}


def _filled(value: JsonValue, attempt: Attempt) -> JsonValue:
    """Fill `{argument}` from the attempt's own arguments; a value that is one argument keeps its type."""
    if not isinstance(value, str):
        return value
    known = _known(attempt)
    whole = _ARGUMENT.fullmatch(value)
    if whole is not None:
        return known.get(whole[1])
    return _ARGUMENT.sub(lambda name: str(known.get(name[1], "")), value)


def _known(attempt: Attempt) -> dict[str, JsonValue]:
    """The arguments, and the key under which it went out. An argument of that name is the agent's own."""
    own: dict[str, JsonValue] = {} if attempt.idempotency_key is None else {KEY_NAME: attempt.idempotency_key}
    return {**own, **attempt.args}


def _matches(read_back: ReadBack, attempt: Attempt, answer: JsonObject) -> int | None:
    """How many objects of the answer are ours; None where that can't be told."""
    http = answer["http"]
    view = _view_of(http) if isinstance(http, Mapping) else None
    if view is None:
        return None
    try:
        found = selected(compile_selection(read_back.match, _known(attempt)), view)
    except PredicateError:
        return None
    return None if found is None else len(found)


def _view_of(http: JsonObject) -> AnswerView | None:
    """The answer as predicates see it: JSON, or a text that is a document of XML."""
    status, text = http["status"], http.get("body")
    known = status if isinstance(status, int) else 0
    if "body_json" in http:
        return answer_view(status=known, json=http["body_json"])
    try:
        return answer_view(status=known, text=text, xml=tree_of(text)) if isinstance(text, str) else None
    except XmlError:
        return None


def _complete(answer: JsonObject) -> bool:
    """What comes from an index that may be behind proves no absence, however whole it is."""
    completeness, warnings = answer["completeness"], answer.get("warnings")
    told = warnings if isinstance(warnings, list | tuple) else ()
    stale = any(isinstance(one, Mapping) and one.get("code") == WarningCode.STALE_INDEX.value for one in told)
    return isinstance(completeness, Mapping) and completeness["complete"] is True and not stale


def _former_code(attempt: Attempt) -> str:
    told = attempt.envelope
    if told is not None and told.get("category") == Category.OUTCOME_UNKNOWN.value:
        return str(told["code"])
    return "unrecorded"


def _not_read(errand: Errand, answer: JsonObject) -> JsonObject:
    """The read-back did not come to an answer. A gate's no is told as it is; any other end leaves the doubt."""
    category = Category(str(answer["category"]))
    if category in GATES:
        refusal = Refusal(
            category=category,
            code=str(answer["code"]),
            retry=Retry(str(answer["retry"])),
            message=f"The read-back was not sent, so the change stays in doubt. {answer['message']}"[:300],
        )
        told = reply.refused(errand.frame, refusal, errand.gate).to_json()
        return {**told, "gate": answer["gate"], "retry_after_s": answer["retry_after_s"], "next": answer["next"]}
    refusal = Refusal(
        category=Category.OUTCOME_UNKNOWN,
        code=_former_code(errand.attempt),
        retry=Retry.AFTER_HUMAN,
        message=f"The read-back failed ({category.value}), so it stays unknown whether the change was applied.",
        remote_effect=RemoteEffect.UNKNOWN,
        next_command=_settle_command(errand.attempt),
    )
    return {**reply.refused(errand.frame, refusal, errand.gate).to_json(), "gate": answer["gate"]}


def _locked_meanwhile() -> Refusal:
    locked = refusals.vault(VaultState.LOCKED)
    message = "The vault was locked before what was read back could settle anything, so the change stays in doubt."
    return replace(locked, message=f"{message} A human has to run: doorward unlock")


def _nothing_can(attempt: Attempt) -> Refusal:
    return Refusal(
        category=Category.OUTCOME_UNKNOWN,
        code=_former_code(attempt),
        retry=Retry.AFTER_HUMAN,
        message="No read-back is declared for this operation, so nothing can settle it by itself. A human has to look.",
        remote_effect=RemoteEffect.UNKNOWN,
        next_command=_settle_command(attempt),
    )


def _settle_command(attempt: Attempt) -> str:
    return f"doorward operations settle {attempt.correlation_id} --as applied|not_applied"

"""The nine steps from a request to its result. It awaits what the steps need and hands values on; it decides nothing.

Each step's output is the next step's only input: without a Permit nothing is sent, without a Receipt nothing is
answered. What the steps decide stands in broker/core.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from broker.contract.reasons import Category, GateState, Retry, VaultState
from broker.contract.result import Envelope, GateReport
from broker.contract.wire import JsonObject, JsonValue
from broker.core import reply
from broker.core.classify.order import classify, dispatch_event
from broker.core.events import AuditEvent, EventName, Receipt
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Refusal, Standing, frozen_refusal, recheck, session_ended, vault_refusal
from broker.core.grants import Circumstances
from broker.core.identity import Caller
from broker.core.ledger import Attempt, AttemptState, Doubt, change_key, in_doubt
from broker.core.outcome import Scrubbed
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Allow, Ask, Deny, Policy
from broker.core.reply import Frame, Result, Unrecorded
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.core.scrub import SecretSet, scrub
from broker.ports import (
    ApprovalDesk,
    Approved,
    AuditLog,
    AuditUnwritable,
    Clock,
    Declined,
    Executor,
    Joined,
    Ledger,
    PolicySource,
    Question,
    Runs,
    Sessions,
    SessionView,
    Vault,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came in: who, what, and the digest of the bytes. `ask` is a refusal where it was unreadable."""

    correlation_id: str
    caller: Caller
    ask: HttpAsk | Refusal
    body_digest: str
    request_id: str | None = None
    says: str | None = None
    previous_correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A request after step 3: frozen, and what the policy says of it."""

    received: Received
    session: SessionView
    frozen: FrozenRequest
    policy: Policy
    decision: Allow | Ask
    frame: Frame
    gate: GateReport
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """An ending before dispatch: a refusal at some gate."""

    frame: Frame
    gate: GateReport
    refusal: Refusal
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An ending that is another run's: its envelope is the answer."""

    envelope: JsonObject
    leader: str


class Pipeline:
    """Performs requests. One instance serves them all; nothing of a request is kept here."""

    def __init__(
        self,
        *,
        policies: PolicySource,
        vault: Vault,
        sessions: Sessions,
        desk: ApprovalDesk,
        executor: Executor,
        audit: AuditLog,
        ledger: Ledger,
        runs: Runs,
        clock: Clock,
    ) -> None:
        self._policies = policies
        self._vault = vault
        self._sessions = sessions
        self._desk = desk
        self._executor = executor
        self._audit = audit
        self._ledger = ledger
        self._runs = runs
        self._clock = clock

    async def perform(self, received: Received) -> Result | Unrecorded:
        """Take one request through the ladder. Never raises for what a caller, a human or an upstream does."""
        frame = Frame(
            correlation_id=received.correlation_id,
            request_id=received.request_id,
            previous_correlation_id=received.previous_correlation_id,
        )
        gate = GateReport(vault=self._vault.state)
        try:
            named = self._admit(received, frame, gate)
            if isinstance(named, Named):
                ready = await self._consult_ledger(named)
                return await self._obtain(ready) if isinstance(ready, Named) else await self._end(ready, received)
            return await self._end(named, received)
        except AuditUnwritable:
            return Unrecorded(envelope=reply.unrecorded(frame, gate, dispatched=False).to_json())

    # Steps 1 to 3: identify, look at the vault, resolve, freeze, evaluate.
    def _admit(self, received: Received, frame: Frame, gate: GateReport) -> Named | Stop:
        caller = received.caller
        self._post(
            EventName.ACTION_REQUESTED,
            received,
            None,
            {"body": received.body_digest, "request_id": received.request_id, **_caller_fields(caller)},
        )
        ask = received.ask
        if isinstance(ask, Refusal):
            return Stop(frame=frame, gate=gate, refusal=ask)
        if self._sessions.frozen:
            return Stop(frame=frame, gate=gate, refusal=frozen_refusal())
        if self._vault.state is not VaultState.READY:
            return Stop(frame=frame, gate=gate, refusal=vault_refusal(self._vault.state))
        if not self._audit.room():
            return Stop(frame=frame, gate=gate, refusal=_disk_low())
        policy = self._policies.current()
        session = self._sessions.open(caller)
        if isinstance(session, Refusal):
            return Stop(frame=frame, gate=gate, refusal=session)
        return self._name(received, ask, session, policy, frame, gate)

    def _name(
        self, received: Received, ask: HttpAsk, session: SessionView, policy: Policy, frame: Frame, gate: GateReport
    ) -> Named | Stop:
        frozen = resolve(policy, ask)
        if isinstance(frozen, Invalid):
            refusal = Refusal(
                category=Category.INVALID_REQUEST, code=frozen.code, retry=Retry.NEVER, message=frozen.message
            )
            return Stop(frame=frame, gate=gate, refusal=refusal, session_id=session.id)
        frame = replace(frame, operation=frozen.operation, effect=frozen.effect, credential=frozen.service.credential)
        decision = evaluate(policy, received.caller, frozen)
        gate = replace(gate, rules=decision.rules, policy=policy.digest)
        self._post(
            EventName.POLICY_DECIDED,
            received,
            session.id,
            {
                "decision": _decision_word(decision),
                "rules": list(decision.rules),
                "policy": policy.digest,
                "request": frozen.to_json(),
                "digest": frozen.digest,
            },
        )
        if isinstance(decision, Deny):
            return Stop(frame=frame, gate=gate, refusal=_denied(decision, frozen), session_id=session.id)
        unfit = self.unfit(frozen)
        if unfit is not None:
            return Stop(frame=frame, gate=gate, refusal=unfit, session_id=session.id)
        return Named(
            received=received,
            session=session,
            frozen=frozen,
            policy=policy,
            decision=decision,
            frame=frame,
            gate=gate,
        )

    def unfit(self, frozen: FrozenRequest) -> Refusal | None:
        """A service whose credential is missing, or not bound to where the request goes, opens nothing."""
        name = frozen.service.credential
        if name is None:
            return None
        if self._vault.credential_version(name) is None:
            why = f"the vault has no credential {name}; a human has to run: doorward credential add {name}"
        elif not self._vault.covers(name, frozen.url):
            why = f"credential {name} is not bound to {frozen.service.base_url}; see: doorward credential list"
        else:
            return None
        return Refusal(
            category=Category.POLICY_DENIED,
            code="rule_denied",
            retry=Retry.NEVER,
            message=f"Nothing was sent: {why}"[:300],
            next_command=f"doorward credential add {name}",
        )

    # Step 4: what the ledger knows of this request, and of this change. (Step 5 has no source of evidence yet.)
    async def _consult_ledger(self, named: Named) -> Named | Stop | Recorded:
        received, digest = named.received, named.frozen.digest
        anchor = received.caller.anchor.id
        if received.request_id is not None:
            held = self._runs.claim(anchor, received.request_id, digest, received.correlation_id)
            if held is not None:
                return await self._repeat(named, leader=held[0], digest=held[1])
            attempt = await self._ledger.find(anchor, received.request_id)
            if attempt is not None:
                if attempt.request_digest != digest:
                    return _conflict(named)
                return Recorded(envelope=attempt.envelope or reply.crashed(attempt), leader=attempt.correlation_id)
        key = change_key(named.frozen)
        doubts = () if key is None else await self._ledger.doubts(key)
        if not doubts:
            return named
        decision = named.decision
        if isinstance(decision, Ask) and decision.rule.in_doubt == "ask":
            return replace(named, doubts=doubts)
        return Stop(
            frame=replace(named.frame, doubt_id=doubts[0].correlation_id),
            gate=named.gate,
            refusal=_in_doubt(),
            session_id=named.session.id,
        )

    async def _repeat(self, named: Named, *, leader: str, digest: str) -> Stop | Recorded:
        if digest != named.frozen.digest:
            return _conflict(named)
        envelope = await self._runs.result(leader)
        if envelope is None:
            return Stop(frame=named.frame, gate=named.gate, refusal=session_ended(), session_id=named.session.id)
        return Recorded(envelope=envelope, leader=leader)

    # Step 6: a grant, or a card.
    async def _obtain(self, named: Named) -> Result | Unrecorded:
        under = self._circumstances(named)
        asked = self._standing(named, under)
        decision = named.decision
        gate = named.gate
        if isinstance(decision, Ask):
            if self._use_grant(named, decision, under):
                gate = replace(gate, session=GateState.GRANTED)
            else:
                answer = await self._ask(named, decision, asked)
                match answer:
                    case Declined(refusal=refusal, expired=expired):
                        self._sessions.count(named.session.id, denied=not expired)
                        state = GateState.EXPIRED if expired else GateState.DENIED
                        gate = reply.with_call(gate, state, per_call=decision.per_call)
                        stop = Stop(frame=named.frame, gate=gate, refusal=refusal, session_id=named.session.id)
                        return await self._end(stop, named.received)
                    case Joined(leader=leader):
                        return await self._end(
                            await self._repeat(named, leader=leader, digest=named.frozen.digest), named.received
                        )
                    case Approved(scope=scope):
                        gate = self._granted(named, decision, gate, scope=scope)
        return await self._pass(replace(named, gate=gate), asked)

    def _use_grant(self, named: Named, decision: Ask, under: Circumstances) -> bool:
        return not decision.per_call and not named.doubts and self._sessions.use_grant(decision, named.frozen, under)

    async def _ask(self, named: Named, decision: Ask, asked: Standing) -> Approved | Declined | Joined:
        received = named.received
        waiting = reply.with_call(named.gate, GateState.PENDING, per_call=decision.per_call)
        self._runs.waits(received.correlation_id, reply.pending(named.frame, waiting).to_json())
        return await self._desk.ask(
            Question(
                correlation_id=received.correlation_id,
                caller=received.caller,
                session=named.session,
                frozen=named.frozen,
                ask=decision,
                policy=named.policy,
                vault_term=asked.vault_term,
                credential_version=asked.credential_version,
                says=received.says,
                doubts=named.doubts,
            )
        )

    def _granted(self, named: Named, decision: Ask, gate: GateReport, *, scope: str) -> GateReport:
        if scope == "session":
            self._sessions.make_grant(decision, named.frozen, self._circumstances(named))
        return reply.with_call(gate, GateState.GRANTED, per_call=scope == "once" and decision.per_call)

    # Step 7: look at everything once more.
    async def _pass(self, named: Named, asked: Standing) -> Result | Unrecorded:
        now = self._standing(named, self._circumstances(named))
        ruling = recheck(
            asked=asked,
            now=now,
            frozen=named.frozen,
            correlation_id=named.received.correlation_id,
            gate=named.gate,
        )
        if isinstance(ruling, Refusal):
            stop = Stop(frame=named.frame, gate=named.gate, refusal=ruling, session_id=named.session.id)
            return await self._end(stop, named.received)
        return await self._dispatch(named, ruling)

    # Step 8: the intent is durable before the first byte leaves.
    async def _dispatch(self, named: Named, permit: Permit) -> Result | Unrecorded:
        with self._lease(permit) as secrets:  # a lock in between must not take the secret from work in flight
            return await self._intend(named, permit, secrets)

    async def _intend(self, named: Named, permit: Permit, secrets: SecretSet | None) -> Result | Unrecorded:
        received, frozen = named.received, named.frozen
        tracked = frozen.is_write or received.request_id is not None
        self._runs.dispatched(received.correlation_id)
        if tracked:
            await self._ledger.begin(self._attempt(named))
        fields: dict[str, JsonValue] = {
            "digest": frozen.digest,
            "operation": frozen.operation,
            "effect": frozen.effect.value,
            "credential": frozen.service.credential,
            "credential_version": permit.credential_version,
            "policy": named.policy.digest,
            "doubts": [doubt.correlation_id for doubt in named.doubts],
        }
        try:
            await self._append(EventName.DISPATCH_STARTED, received, named.session.id, fields)
        except AuditUnwritable:
            envelope = reply.unrecorded(named.frame, named.gate, dispatched=False).to_json()
            if tracked:
                await self._ledger.finish(received.correlation_id, in_doubt=False, envelope=envelope)
            return Unrecorded(envelope=envelope)
        return await self._execute(named, permit, secrets, tracked=tracked)

    # Step 9: one attempt, judged, scrubbed, recorded, answered.
    async def _execute(
        self, named: Named, permit: Permit, secrets: SecretSet | None, *, tracked: bool
    ) -> Result | Unrecorded:
        frozen, received = named.frozen, named.received
        raw = await self._executor.execute(permit)
        classified = classify(frozen, raw, now_ms=self._clock.now_ms(), prior_doubt=bool(named.doubts))
        scrubbed = scrub(classified, secrets)
        envelope = reply.concluded(named.frame, scrubbed, named.gate)
        self._sessions.count(named.session.id, denied=False)
        try:
            self._post(dispatch_event(raw), received, named.session.id, _remote_fields(scrubbed, len(frozen.body)))
            receipt = await self._append(
                EventName.ACTION_RESULT, received, named.session.id, reply.audit_fields(envelope)
            )
        except AuditUnwritable:
            lost = reply.unrecorded(named.frame, named.gate, dispatched=True).to_json()
            if tracked:
                await self._ledger.finish(received.correlation_id, in_doubt=frozen.is_write, envelope=lost)
            return Unrecorded(envelope=lost)
        result = reply.final(envelope, receipt)
        if tracked:
            doubtful = in_doubt(frozen, envelope.category, envelope.remote_effect, envelope.retry)
            await self._ledger.finish(received.correlation_id, in_doubt=doubtful, envelope=result.envelope)
        return result

    async def _end(self, ending: Stop | Recorded, received: Received) -> Result:
        """Every request ends with one action.result, refusals and repeats too."""
        if isinstance(ending, Recorded):
            receipt = await self._append(EventName.ACTION_RESULT, received, None, {"recorded": ending.leader})
            return reply.replayed(ending.envelope, receipt)
        envelope: Envelope = reply.refused(ending.frame, ending.refusal, ending.gate)
        receipt = await self._append(EventName.ACTION_RESULT, received, ending.session_id, reply.audit_fields(envelope))
        return reply.final(envelope, receipt)

    def _lease(self, permit: Permit) -> AbstractContextManager[SecretSet | None]:
        name, version = permit.frozen.service.credential, permit.credential_version
        return nullcontext() if name is None or version is None else self._vault.lease(name, version)

    def _circumstances(self, named: Named) -> Circumstances:
        name = named.frozen.service.credential
        return Circumstances(
            session_id=named.session.id,
            policy_digest=self._policies.current().digest,
            credential_version=None if name is None else self._vault.credential_version(name),
            exe_id=named.received.caller.anchor_process.exe_id,
            now_ms=self._clock.now_ms(),
        )

    def _standing(self, named: Named, under: Circumstances) -> Standing:
        return Standing(
            vault=self._vault.state,
            vault_term=self._vault.term,
            policy_digest=under.policy_digest,
            credential_version=under.credential_version,
            session_alive=self._sessions.alive(named.session.id)
            and self._sessions.exe_unchanged(named.received.caller),
            frozen_daemon=self._sessions.frozen,
            request_digest=named.frozen.digest,
        )

    def _attempt(self, named: Named) -> Attempt:
        received, frozen = named.received, named.frozen
        return Attempt(
            correlation_id=received.correlation_id,
            anchor_id=received.caller.anchor.id,
            request_id=received.request_id,
            request_digest=frozen.digest,
            change_key=change_key(frozen),
            service=frozen.service.name,
            operation=frozen.operation,
            summary=f"{frozen.method} {frozen.url.split('?', 1)[0]}",
            args=frozen.args,
            agent=received.caller.agent,
            session_id=named.session.id,
            started_at_ms=self._clock.now_ms(),
            state=AttemptState.RUNNING,
        )

    def _event(self, name: EventName, received: Received, session_id: str | None, fields: JsonObject) -> AuditEvent:
        return AuditEvent(
            name=name,
            at_ms=self._clock.now_ms(),
            correlation_id=received.correlation_id,
            session_id=session_id,
            fields=fields,
        )

    def _post(self, name: EventName, received: Received, session_id: str | None, fields: JsonObject) -> None:
        self._audit.post(self._event(name, received, session_id, fields))

    async def _append(self, name: EventName, received: Received, session_id: str | None, fields: JsonObject) -> Receipt:
        return await self._audit.append(self._event(name, received, session_id, fields))


def _caller_fields(caller: Caller) -> dict[str, JsonValue]:
    return {
        "agent": caller.agent,
        "anchor": caller.anchor.id,
        "span": caller.span.value,
        "pid": caller.anchor_process.pid,
        "exe": caller.program.exe,
        "peer_pid": caller.peer.process.pid,
        "peer_exe": caller.peer.process.exe,
    }


def _remote_fields(scrubbed: Scrubbed, sent_body_bytes: int) -> dict[str, JsonValue]:
    return {
        "phase": scrubbed.phase.value,
        "fault": None if scrubbed.fault is None else scrubbed.fault.value,
        "status": scrubbed.status,
        "elapsed_ms": scrubbed.elapsed_ms,
        "sent_body_bytes": sent_body_bytes,
        "scrub_hits": scrubbed.hits,
    }


def _decision_word(decision: Allow | Ask | Deny) -> str:
    match decision:
        case Allow():
            return "none"
        case Ask(rule=rule):
            return rule.approval.value
        case Deny():
            return "deny"


def _denied(decision: Deny, frozen: FrozenRequest) -> Refusal:
    why = (
        f"no rule of the policy names {frozen.operation} for this agent"
        if decision.code == "no_rule"
        else f"rule {', '.join(decision.rules)} of the policy denies {frozen.operation}"
    )
    return Refusal(
        category=Category.POLICY_DENIED,
        code=decision.code,
        retry=Retry.NEVER,
        message=f"Nothing was sent: {why}."[:300],
    )


def _conflict(named: Named) -> Stop:
    refusal = Refusal(
        category=Category.INVALID_REQUEST,
        code="request_id_conflict",
        retry=Retry.NEVER,
        message="This request_id was used for another request already; nothing was sent. Choose a new one.",
    )
    return Stop(frame=named.frame, gate=named.gate, refusal=refusal, session_id=named.session.id)


def _in_doubt() -> Refusal:
    return Refusal(
        category=Category.RECONCILE_REQUIRED,
        code="in_doubt",
        retry=Retry.RECONCILE_FIRST,
        message="The same change is in doubt from an earlier attempt, so it was not sent again. Reconcile that first.",
    )


def _disk_low() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="disk_low",
        retry=Retry.AFTER_HUMAN,
        message="The disk of the audit log is nearly full, so nothing runs. A human has to make room.",
    )

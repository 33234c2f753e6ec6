"""The nine steps from a request to its result. It awaits what the steps need and hands values on; it decides nothing.

Each step's output is the next step's only input: without a Permit nothing is sent, without a Receipt nothing is
answered. What the steps decide stands in broker/core.
"""

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from broker import repeated
from broker.contract.reasons import GateState, RemoteEffect, VaultState
from broker.contract.result import GateReport
from broker.core import records, refusals, reply
from broker.core.asks import resolved
from broker.core.channels import Frozen
from broker.core.classify.channel import event_of
from broker.core.events import EventName
from broker.core.evidence_report import leaned_on
from broker.core.gate import Permit, Standing, voided
from broker.core.grants import Circumstances
from broker.core.identity import Caller
from broker.core.ledger import Doubt, change_key, in_doubt, turn_key
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Allow, Ask, Deny, Policy
from broker.core.refusals import Refusal
from broker.core.reply import Frame, Result, Unrecorded
from broker.core.resolve import Invalid
from broker.core.secret_set import SecretSet
from broker.ports import (
    ApprovalDesk,
    Approved,
    AuditLog,
    AuditUnwritable,
    Chosen,
    Clock,
    CredentialGone,
    Declined,
    Diagnostics,
    Executor,
    Joined,
    Ledger,
    LedgerSealed,
    PolicySource,
    Runs,
    Sessions,
    SessionView,
    Vault,
)
from broker.proof import Foreseen, Moved, Proofs
from broker.steps import Named, Received, Recorded, Stop, Trail, Turns, remember, standing, unfit
from broker.walk import Walker


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
        diagnostics: Diagnostics,
        ledger: Ledger,
        runs: Runs,
        proofs: Proofs,
        walker: Walker,
        clock: Clock,
    ) -> None:
        self._policies = policies
        self._vault = vault
        self._sessions = sessions
        self._desk = desk
        self._executor = executor
        self._audit = audit
        self._diagnostics = diagnostics
        self._ledger = ledger
        self._runs = runs
        self._proofs = proofs
        self._walker = walker
        self._clock = clock
        self._turns = Turns()

    async def perform(self, received: Received) -> Result | Unrecorded:
        """Take one request through the ladder. Never raises for what a caller, a human or an upstream does."""
        frame = Frame(
            correlation_id=received.correlation_id,
            request_id=received.request_id,
            previous_correlation_id=received.previous_correlation_id,
        )
        gate = GateReport(vault=self._vault.state)
        trail = Trail(self._audit, self._clock, received.correlation_id)
        try:
            named = self._admit(received, trail, frame, gate)
            return await self._go_on(named) if isinstance(named, Named) else await self._end(named)
        except AuditUnwritable:
            return Unrecorded(envelope=reply.unrecorded(frame, gate, dispatched=False).to_json())
        except Exception:  # a fault of our own: the trail still gets its end, and our caller tells the agent
            await trail.close()
            raise

    # Steps 1 to 3: identify, look at the vault, resolve, freeze, evaluate.
    def _admit(self, received: Received, trail: Trail, frame: Frame, gate: GateReport) -> Named | Stop:
        caller, ask = received.caller, received.ask
        trail.post(
            EventName.ACTION_REQUESTED,
            records.requested(caller, body_digest=received.body_digest, request_id=received.request_id),
        )
        if isinstance(ask, Refusal):
            return Stop(trail=trail, frame=frame, gate=gate, refusal=ask)
        session = self._enter(caller)
        if isinstance(session, Refusal):
            return Stop(trail=trail, frame=frame, gate=gate, refusal=session)
        trail.session_id = session.id
        policy = self._policies.current()
        frozen = resolved(policy, ask, self._walker.kept(ask, caller.anchor.id))
        if isinstance(frozen, Invalid):
            return Stop(trail=trail, frame=frame, gate=gate, refusal=refusals.invalid(frozen))
        return self._decide(received, trail, session, frozen, policy, frame, gate)

    def _enter(self, caller: Caller) -> SessionView | Refusal:
        if self._sessions.frozen:
            return refusals.frozen()
        if self._vault.state is not VaultState.READY:
            return refusals.vault(self._vault.state)
        return self._sessions.open(caller) if self._audit.room() else refusals.disk_low()

    def _decide(
        self,
        received: Received,
        trail: Trail,
        session: SessionView,
        frozen: Frozen,
        policy: Policy,
        frame: Frame,
        gate: GateReport,
    ) -> Named | Stop:
        frame = replace(frame, operation=frozen.operation, effect=frozen.effect, credential=frozen.service.credential)
        decision = received.unasked(evaluate(policy, received.caller, frozen))
        gate = replace(gate, rules=decision.rules, policy=policy.digest)
        trail.post(EventName.POLICY_DECIDED, records.decided(decision, frozen, policy_digest=policy.digest))
        if isinstance(decision, Deny):
            return Stop(trail=trail, frame=frame, gate=gate, refusal=refusals.denied(decision, frozen))
        unfitting = self.unfit(frozen)
        if unfitting is None and not self._sessions.within_rate(
            decision.rules or (frozen.operation,), policy.limits.requests_per_minute
        ):
            unfitting = refusals.over_rate()
        if unfitting is not None:
            return Stop(trail=trail, frame=frame, gate=gate, refusal=unfitting)
        return Named(
            received=received,
            trail=trail,
            session=session,
            frozen=frozen,
            policy=policy,
            decision=decision,
            asked=self._standing(frozen, is_alive=True),  # who asks was looked at on the way in
            frame=frame,
            gate=gate,
        )

    def unfit(self, frozen: Frozen) -> Refusal | None:
        return unfit(frozen, self._vault)

    async def foreseen(self, policy: Policy, caller: Caller, frozen: Frozen, decision: Allow | Ask) -> Foreseen:
        return await self._proofs.foreseen(policy, caller, frozen, decision)

    async def _go_on(self, named: Named) -> Result | Unrecorded:
        try:
            ready = await self._consult_ledger(named)
            if isinstance(ready, Named):
                proven = await self._proofs.consult(ready)  # step 5
                ready = self._stop(ready, proven) if isinstance(proven, Refusal) else proven
            return await self._obtain(ready) if isinstance(ready, Named) else await self._end(ready)
        except LedgerSealed:
            return await self._end(self._stop(named, refusals.vault(self._vault.state)))
        except CredentialGone:
            state = self._vault.state
            gone = refusals.void("credential") if state is VaultState.READY else refusals.vault(state)
            return await self._end(self._stop(named, gone))

    # Step 4: what the ledger knows of this request, and of this change.
    async def _consult_ledger(self, named: Named) -> Named | Stop | Recorded:
        known = await self._known(named)
        if known is not None:
            return known
        doubts = await self._doubts(named.frozen)
        if named.goes_past(doubts, now_ms=self._clock.now_ms()):
            return replace(named, doubts=doubts)
        return self._stop(named, refusals.change_in_doubt(), doubt_id=doubts[0].correlation_id)

    async def _known(self, named: Named) -> Stop | Recorded | None:
        """The ending of a request that was made under this id before, or is under way; None where it is the first."""
        received, digest = named.received, named.frozen.digest
        anchor_id, request_id = received.caller.anchor.id, received.request_id
        if request_id is None:
            return None
        held = self._runs.claim(anchor_id, request_id, digest, received.correlation_id)
        if held is not None:
            leader, held_digest = held
            return await self._follow(named, leader) if held_digest == digest else self._conflict(named)
        attempt = await self._ledger.find(anchor_id, request_id)
        if attempt is None:
            return None
        if attempt.request_digest != digest:
            return self._conflict(named)
        return named.recorded(attempt.envelope or reply.crashed(attempt), attempt.correlation_id)

    async def _doubts(self, frozen: Frozen) -> tuple[Doubt, ...]:
        key = change_key(frozen)
        return () if key is None else await self._ledger.doubts(key)

    async def _follow(self, named: Named, leader: str) -> Stop | Recorded:
        """The answer of the run that does the same."""
        envelope = await self._runs.result(leader)
        if envelope is not None:
            return named.recorded(envelope, leader)
        is_write = named.frozen.is_write
        return self._stop(named, refusals.leader_lost(is_write=is_write), doubt_id=leader if is_write else None)

    # Step 6: a grant, or a card.
    async def _obtain(self, named: Named) -> Result | Unrecorded:
        if named.is_sent_at_once:
            return await self._send(named, None)
        void = voided(asked=named.asked, now=self._now(named), frozen=named.frozen)  # the ledger made us wait
        if void is not None:
            return await self._end(self._stop(named, void))
        met = await named.met(self._executor)
        return await (self._end(self._stop(named, met)) if isinstance(met, Refusal) else self._ask_or_pass(met))

    async def _ask_or_pass(self, named: Named) -> Result | Unrecorded:
        decision = named.decision
        if isinstance(decision, Allow):
            return await self._pass(named)
        is_repeatable = not decision.per_call and not named.doubts and not named.meets_a_stranger
        if is_repeatable and (taken := self._sessions.use_grant(decision, named.frozen, self._circumstances(named))):
            return await self._pass(replace(named.with_gate(decision, GateState.GRANTED), taken=taken))
        named = named.keyed(now_ms=self._clock.now_ms())  # the card names the key
        answer = await self._ask(named, decision)
        match answer:
            case Declined(refusal=refusal, expired=expired):
                self._sessions.count(named.session.id, denied=not expired)
                declined = named.with_gate(decision, GateState.EXPIRED if expired else GateState.DENIED)
                return await self._end(self._stop(declined, refusal))
            case Joined(leader=leader):
                return await self._end(await self._joined(named, await self._follow(named, leader)))
            case Chosen(choice=choice):
                return await self._other_way(named, decision, choice)
            case Approved(scope=scope):
                granted = named.with_gate(decision, GateState.GRANTED)
                return await self._pass(granted, decision if scope == "session" and is_repeatable else None)

    async def _joined(self, named: Named, ending: Stop | Recorded) -> Stop | Recorded:
        if self._vault.state is VaultState.READY:
            await remember(named, ending, self._ledger, now_ms=self._clock.now_ms())
        return ending

    async def _other_way(self, named: Named, decision: Ask, choice: str) -> Result | Unrecorded:
        changed = await self._proofs.chosen(named, choice)
        if isinstance(changed, Named):
            left = {doubt.correlation_id for doubt in await self._doubts(changed.frozen)}
            doubts = tuple(doubt for doubt in changed.doubts if doubt.correlation_id in left)
            return await self._obtain(replace(changed, doubts=doubts))
        return await self._end(self._stop(named.with_gate(decision, GateState.EXPIRED), changed))

    async def _ask(self, named: Named, decision: Ask) -> Approved | Chosen | Declined | Joined:
        waiting = named.with_gate(decision, GateState.PENDING)
        self._runs.waits(named.received.correlation_id, reply.pending(waiting.frame, waiting.gate).to_json())
        return await self._desk.ask(named.question(decision))

    async def _pass(self, named: Named, grant: Ask | None = None) -> Result | Unrecorded:
        """The same change is made one at a time, so that what became of one is known before another is sent."""
        key = change_key(named.frozen)
        if key is None:
            return await self._send(named, grant)
        async with self._turns.take(turn_key(named.frozen, key), patience_s=named.frozen.total_s) as has_turn:
            shown = {doubt.correlation_id for doubt in named.doubts}
            fresh = [doubt for doubt in await self._ledger.doubts(key) if doubt.correlation_id not in shown]
            if fresh:  # it came into doubt meanwhile, and was on no card
                stop = self._stop(named, refusals.change_in_doubt(), doubt_id=fresh[0].correlation_id)
                return await self._end(stop)
            if not has_turn:
                return await self._end(self._stop(named, refusals.change_under_way()))
            return await self._send(named, grant)

    # Step 7: look at everything once more. A grant is made under what the card showed, and not before.
    async def _send(self, named: Named, grant: Ask | None) -> Result | Unrecorded:
        named = named.keyed(now_ms=self._clock.now_ms())
        unproven = await self._proofs.holds(named)
        if unproven is not None:
            return await self._end(self._stop(named, unproven))
        ruling = named.rechecked(self._now(named))
        if isinstance(ruling, Refusal):
            return await self._end(self._stop(named, ruling))
        if grant is not None:
            self._sessions.make_grant(grant, named.frozen, self._circumstances(named))
        with self._lease(ruling) as secrets:  # a lock in between must not take the secret from work in flight
            return await self._dispatch(named, ruling, secrets)

    # Step 8: the intent is durable before the first byte leaves.
    async def _dispatch(self, named: Named, permit: Permit, secrets: SecretSet | None) -> Result | Unrecorded:
        correlation_id = named.received.correlation_id
        is_tracked = named.frozen.is_write or named.received.request_id is not None
        written = await self._ledger.begin(named.attempt(now_ms=self._clock.now_ms())) if is_tracked else None
        fields = records.intent(permit, policy_digest=named.policy.digest, doubts=named.doubts, ledger=written)
        try:
            await named.trail.append(EventName.DISPATCH_STARTED, {**fields, **leaned_on(named.proof)})
        except AuditUnwritable:
            if is_tracked:
                await self._ledger.abandon(correlation_id)
            return Unrecorded(envelope=reply.unrecorded(named.frame, named.gate, dispatched=False).to_json())
        self._runs.dispatched(correlation_id, is_write=named.frozen.is_write)
        if (moved := await self._proofs.moved(named, permit, self._executor, secrets)) is not None:
            return await self._unsent(named, moved, is_tracked=is_tracked)
        return await self._execute(named, permit, secrets, is_tracked=is_tracked)

    async def _unsent(self, named: Named, moved: Moved, *, is_tracked: bool) -> Result | Unrecorded:
        """The look just before the change ended it."""
        with suppress(AuditUnwritable):  # told where the end can't be written either
            named.trail.post(moved.event, moved.fields)
        if is_tracked:
            await self._ledger.abandon(named.received.correlation_id)
        return await self._end(self._stop(named, moved.refusal))

    # Step 9: one attempt, judged, scrubbed, recorded, answered.
    async def _execute(
        self, named: Named, permit: Permit, secrets: SecretSet | None, *, is_tracked: bool
    ) -> Result | Unrecorded:
        frozen, correlation_id = named.frozen, named.received.correlation_id
        try:
            made = await self._walker.attempt(named, permit, secrets, lambda: self._now(named))
            kept = await named.diagnosed(self._diagnostics, made.scrubbed)  # before a record names it
            envelope = reply.concluded(named.frame, made.scrubbed, named.gate, diagnostics_ref=kept)
            self._sessions.count(named.session.id, denied=False, echoed=made.scrubbed.is_echo)
            named.trail.post(event_of(made.raw), made.remote)
            envelope = await self._walker.recorded(named, made, envelope)
            await repeated.settle(named, envelope, self._ledger)
            receipt = await named.trail.append(EventName.ACTION_RESULT, reply.audit_fields(envelope))
        except AuditUnwritable:
            lost = reply.unrecorded(named.frame, named.gate, dispatched=True).to_json()
            if is_tracked:
                await self._ledger.finish(correlation_id, in_doubt=frozen.is_write, envelope=lost)
            return Unrecorded(envelope=lost)
        result = reply.final(envelope, receipt)
        if is_tracked:
            doubtful = in_doubt(frozen, envelope.category, envelope.remote_effect, envelope.retry)
            await self._ledger.finish(correlation_id, in_doubt=doubtful, envelope=result.envelope)
        return result

    async def _end(self, ending: Stop | Recorded) -> Result | Unrecorded:
        """Every request ends with one action.result, refusals and repeats too."""
        happened = False
        try:
            match ending:
                case Recorded(envelope=recorded, leader=leader):
                    happened = recorded["remote_effect"] != RemoteEffect.NONE.value
                    receipt = await ending.trail.append(EventName.ACTION_RESULT, {"recorded": leader})
                    return reply.replayed(recorded, receipt)
                case Stop(refusal=refusal):
                    envelope = reply.refused(ending.frame, refusal, ending.gate)
                    happened = envelope.remote_effect is not RemoteEffect.NONE
                    receipt = await ending.trail.append(EventName.ACTION_RESULT, reply.audit_fields(envelope))
                    return reply.final(envelope, receipt)
        except AuditUnwritable:
            return Unrecorded(envelope=reply.unrecorded(ending.frame, ending.gate, dispatched=happened).to_json())

    def _stop(self, named: Named, refusal: Refusal, *, doubt_id: str | None = None) -> Stop:
        frame = named.frame if doubt_id is None else replace(named.frame, doubt_id=doubt_id)
        gate = replace(named.gate, vault=self._vault.state)  # it may be locked by now
        return Stop(trail=named.trail, frame=frame, gate=gate, refusal=refusal)

    def _conflict(self, named: Named) -> Stop:
        return self._stop(named, refusals.id_conflict())

    def _lease(self, permit: Permit) -> AbstractContextManager[SecretSet | None]:
        name, version = permit.frozen.service.credential, permit.credential_version
        return nullcontext() if name is None or version is None else self._vault.lease(name, version)

    def _circumstances(self, named: Named) -> Circumstances:
        return Circumstances(
            session_id=named.session.id,
            policy_digest=named.asked.policy_digest,
            credential_version=named.asked.credential_version,
            run=named.received.caller.anchor_process.run,
            now_ms=self._clock.now_ms(),
        )

    def _now(self, named: Named) -> Standing:
        sessions, session_id, taken = self._sessions, named.session.id, named.taken
        is_alive = sessions.alive(session_id) and sessions.exe_unchanged(named.received.caller)
        now = self._standing(named.frozen, is_alive=is_alive)
        return now if taken is None or sessions.holds(session_id, taken) else replace(now, grant_held=False)

    def _standing(self, frozen: Frozen, *, is_alive: bool) -> Standing:
        frozen_daemon = self._sessions.frozen
        return standing(frozen, self._policies, self._vault, is_alive=is_alive, frozen_daemon=frozen_daemon)

"""The engine behind agent.sock: the pipeline, the reconciler, and a guard so that no fault of ours is left unsaid."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from broker.approvals.desk import Desk
from broker.contract.reasons import VaultState
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject
from broker.core import refusals, reply
from broker.core.asks import Asked, resolved
from broker.core.evidence_report import foreseen_part
from broker.core.identity import Caller
from broker.core.ledger import Attempt, change_key
from broker.core.policy.evaluate import evaluate
from broker.core.policy.explain import described
from broker.core.policy.model import Allow, Ask, Deny
from broker.core.refusals import Refusal
from broker.core.reply import Frame, Result, Unrecorded
from broker.core.resolve import HttpAsk, Invalid
from broker.core.ssh.resolve import LookUpAsk
from broker.daemon.credential_wants import CredentialWants
from broker.operations.ledger import LedgerError, LedgerStore
from broker.operations.reconcile import Errand, Reconciler
from broker.pipeline import Pipeline
from broker.ports import Clock, PolicySource, Vault
from broker.server import faults
from broker.server.agent_routes import new_correlation_id
from broker.server.credential_ask import CredentialAsk
from broker.server.runs import RunTable
from broker.server.sessions import SessionRegistry
from broker.steps import Received

LOG = logging.getLogger("doorward.engine")


class PipelineEngine:
    """Implements agent_routes.Engine."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        reconciler: Reconciler,
        ledger: LedgerStore,
        runs: RunTable,
        desk: Desk,
        sessions: SessionRegistry,
        policies: PolicySource,
        vault: Vault,
        clock: Clock,
        broker: Caller,
        wants: CredentialWants,
    ) -> None:
        self._pipeline = pipeline
        self._reconciler = reconciler
        self._ledger = ledger
        self._runs = runs
        self._desk = desk
        self._sessions = sessions
        self._policies = policies
        self._vault = vault
        self._clock = clock
        self._broker = broker
        self._wants = wants

    async def perform(self, received: Received) -> JsonObject:
        return await self._guarded(received.correlation_id, lambda: self._pipeline.perform(received))

    async def want(self, ask: CredentialAsk) -> JsonObject:
        return await self._guarded(ask.correlation_id, lambda: self._wants.perform(ask))

    async def reconcile(self, correlation_id: str, target: str, caller: Caller) -> JsonObject:
        """Settle what is in doubt, for whoever made it or is refused because of it."""
        return await self._guarded(
            correlation_id, lambda: self._settle(correlation_id, target, caller, anchor_id=caller.anchor.id), of=target
        )

    async def reconcile_for_human(self, target: str) -> JsonObject:
        """The same read-back at a human's word. The broker itself asks, as a caller that no policy names.

        Were it the human's process that asked, it would hold a session from then on, and could answer no card.
        """
        correlation_id, caller = new_correlation_id(self._clock.now_ms()), self._broker
        run = self._runs.start(
            correlation_id,
            caller.anchor.id,
            lambda: self._guarded(
                correlation_id, lambda: self._settle(correlation_id, target, caller, anchor_id=None), of=target
            ),
        )
        await run.ended.wait()
        return run.answer or run.broken()

    async def probe_for_human(self, service: str, operation: str) -> JsonObject:
        """Ask a declared read of the service once, at a human's word; its envelope. What is denied stays denied."""
        correlation_id, caller = new_correlation_id(self._clock.now_ms()), self._broker
        received = Received(
            correlation_id=correlation_id,
            caller=caller,
            ask=HttpAsk(service=service, operation=operation, args={}),
            body_digest="",
            is_asked_by_human=True,
        )
        run = self._runs.start(correlation_id, caller.anchor.id, lambda: self.perform(received))
        await run.ended.wait()
        return run.answer or run.broken()

    async def recorded(self, correlation_id: str, caller: Caller) -> Attempt | None:
        return await self._reconciler.attempt(correlation_id, anchor_id=caller.anchor.id)

    def withdraw(self, correlation_id: str) -> bool:
        return self._desk.withdraw(correlation_id)

    async def explain(self, caller: Caller, ask: Asked) -> JsonObject:
        """What would happen to the request now. Nothing is sent, counted or asked."""
        refusal = self._refused_now()
        if refusal is not None:
            return _told("deny", code=refusal.code, message=refusal.message)
        policy = self._policies.current()
        frozen = resolved(policy, ask)
        if isinstance(frozen, Invalid):
            return _told("invalid", code=frozen.code, message=frozen.message)
        decision = evaluate(policy, caller, frozen)
        about: JsonObject = {"operation": frozen.operation, "effect": frozen.effect.value}
        unfit = None if isinstance(decision, Deny) else self._pipeline.unfit(frozen)
        if unfit is not None:
            return _told("deny", about, code=unfit.code, message=unfit.message)
        key = change_key(frozen)
        if key is not None and await self._ledger.doubts(key):
            message = "The same change is in doubt from an earlier attempt; it would be refused until that is settled."
            return _told("deny", about, code="in_doubt", message=message)
        if not isinstance(decision, Deny):
            foreseen = await self._pipeline.foreseen(policy, caller, frozen, decision)
            about = {**about, "evidence": foreseen_part(foreseen.proof, service=frozen.service.name)}
            if isinstance(foreseen.ruling, Refusal):
                return _told("deny", about, code=foreseen.ruling.code, message=foreseen.ruling.message)
            decision = foreseen.ruling
        about = {**about, "gate": described(decision)["decision"], "rules": list(decision.rules)}
        match decision:
            case Allow():
                return _told("allow", about, message="It would be sent without asking.")
            case Deny(code=code):
                return _told("deny", about, code=code, message="The policy does not allow it to this agent.")
            case Ask():
                scope = "each time" if decision.per_call else "once in this session"
                return _told("ask", about, message=f"A human would be asked {scope}.", card=True)

    def _refused_now(self) -> Refusal | None:
        if self._sessions.frozen:
            return refusals.frozen()
        if self._vault.state is not VaultState.READY:
            return refusals.vault(self._vault.state)
        return None

    async def _settle(
        self, correlation_id: str, target: str, caller: Caller, *, anchor_id: str | None
    ) -> Result | Unrecorded:
        refusal = self._refused_now()
        gate = GateReport(vault=self._vault.state)
        attempt = None
        if refusal is None:
            attempt = await self._reconciler.reconcilable(target, anchor_id=anchor_id)
        if attempt is None:
            received = Received(
                correlation_id=correlation_id,
                caller=caller,
                ask=refusal or refusals.nothing_to_reconcile(),
                body_digest="",
                previous_correlation_id=target,
            )
            return await self._pipeline.perform(received)
        errand = Errand(correlation_id=correlation_id, caller=caller, attempt=attempt, gate=gate)

        async def read_again(ask: HttpAsk | LookUpAsk, previous: str) -> JsonObject:
            read = Received(
                correlation_id=new_correlation_id(self._clock.now_ms()),
                caller=caller,
                ask=ask,
                body_digest="",
                previous_correlation_id=previous,
            )
            run = self._runs.start(
                read.correlation_id, caller.anchor.id, lambda: self.perform(read), parent=correlation_id
            )
            await run.ended.wait()
            return run.answer or run.broken()

        return await self._reconciler.settle(errand, read_again)

    async def _guarded(
        self, correlation_id: str, work: Callable[[], Awaitable[Result | Unrecorded]], *, of: str | None = None
    ) -> JsonObject:
        """The envelope of the work; a fault of ours becomes an honest one instead of a silence.

        `of` is the attempt that a reconcile is about: that is what stays in doubt then, not the reconcile.
        """
        try:
            return (await work()).envelope
        except LedgerError as error:
            sent = self._runs.was_sent(correlation_id)
            if self._vault.state is not VaultState.READY and not sent:  # a lock came in between
                return faults.refused(refusals.vault(self._vault.state), correlation_id=correlation_id)
            return await self._broken(correlation_id, error, of)
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent is told what is known of the far side
            return await self._broken(correlation_id, error, of)

    async def _broken(self, correlation_id: str, error: Exception, of: str | None) -> JsonObject:
        LOG.error("a request could not be finished", exc_info=error, extra={"correlation_id": correlation_id})
        if of is not None:
            frame = Frame(correlation_id=correlation_id, previous_correlation_id=of)
            return reply.refused(frame, refusals.not_reconciled(), GateReport(vault=self._vault.state)).to_json()
        envelope = self._runs.broken(correlation_id)
        with suppress(LedgerError):  # an attempt that can't be closed is found in doubt at the next start
            if self._runs.was_sent(correlation_id):
                await self._ledger.finish(correlation_id, in_doubt=True, envelope=envelope)
            else:
                await self._ledger.abandon(correlation_id)
        return envelope


def _told(
    decision: str, about: JsonObject | None = None, *, message: str, code: str | None = None, card: bool = False
) -> JsonObject:
    more = about or {}
    return {
        "decision": decision,
        "gate": more.get("gate"),
        "code": code,
        "rules": more.get("rules", []),
        "operation": more.get("operation"),
        "effect": more.get("effect"),
        "evidence": more.get("evidence", []),
        "card": card,
        "trace": [],
        "message": message,
    }

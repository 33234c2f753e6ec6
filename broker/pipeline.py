"""The nine steps from a request to its result. It awaits what the steps need and hands values on; it decides nothing.

Each step's output is the next step's only input: without a Permit nothing is sent, without a Receipt nothing is
answered. What the steps decide stands in broker/core.
"""

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from broker.contract.reasons import GateState, RemoteEffect, VaultState
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject
from broker.core import records, refusals, reply
from broker.core.classify.order import classify, dispatch_event
from broker.core.events import AuditEvent, EventName, Receipt
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Refusal, Standing, frozen_refusal, recheck, vault_refusal, voided
from broker.core.grants import Circumstances
from broker.core.identity import Caller
from broker.core.ledger import Attempt, Doubt, attempt_of, change_key, in_doubt
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


class Trail:
    """The audit events of one request, and which of them are written: each state of a request has exactly one."""

    def __init__(self, audit: AuditLog, clock: Clock, correlation_id: str) -> None:
        self._audit = audit
        self._clock = clock
        self._correlation_id = correlation_id
        self._last: EventName | None = None
        self.session_id: str | None = None

    def post(self, name: EventName, fields: JsonObject) -> None:
        self._audit.post(self._event(name, fields))

    async def append(self, name: EventName, fields: JsonObject) -> Receipt:
        return await self._audit.append(self._event(name, fields))

    async def close(self) -> None:
        """Write the events that are still owed when a fault of our own ends the request, as far as the log takes them."""
        with suppress(AuditUnwritable):
            if self._last is EventName.DISPATCH_STARTED:
                self.post(EventName.TRANSPORT_FAILED, {"fault": "internal"})
            if self._last is not EventName.ACTION_RESULT:
                await self.append(EventName.ACTION_RESULT, records.BROKEN)

    def _event(self, name: EventName, fields: JsonObject) -> AuditEvent:
        self._last = name
        return AuditEvent(
            name=name,
            at_ms=self._clock.now_ms(),
            correlation_id=self._correlation_id,
            session_id=self.session_id,
            fields=fields,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A request after step 3: frozen, what the policy says of it, and what that was said under."""

    received: Received
    trail: Trail
    session: SessionView
    frozen: FrozenRequest
    policy: Policy
    decision: Allow | Ask
    asked: Standing
    frame: Frame
    gate: GateReport
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """An ending before dispatch: a refusal at some gate."""

    trail: Trail
    frame: Frame
    gate: GateReport
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An ending that is another run's: its envelope is the answer."""

    trail: Trail
    frame: Frame
    gate: GateReport
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
        trail = Trail(self._audit, self._clock, received.correlation_id)
        try:
            named = self._admit(received, trail, frame, gate)
            if isinstance(named, Named):
                ready = await self._consult_ledger(named)
                return await self._obtain(ready) if isinstance(ready, Named) else await self._end(ready)
            return await self._end(named)
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
        session = self._open(caller, ask)
        if isinstance(session, Refusal) or isinstance(ask, Refusal):
            refusal = ask if isinstance(ask, Refusal) else session
            return Stop(trail=trail, frame=frame, gate=gate, refusal=refusal)

"""A request for a credential from its record to its answer: which service, whether it may, and what a human did.

The agent learns whether the credential is there now, and no more: neither where it is bound, nor of what kind it is.
"""

from broker.approvals.want import Want
from broker.approvals.wants import Wants
from broker.contract.reasons import Category, GateState, RemoteEffect, Retry, VaultState
from broker.contract.result import Envelope, GateReport
from broker.core import records, refusals, reply
from broker.core.events import EventName
from broker.core.policy.model import Policy, Service
from broker.core.policy.overview import could_open
from broker.core.refusals import Refusal
from broker.core.reply import Frame, Result, Unrecorded
from broker.ports import AuditLog, AuditUnwritable, Clock, PolicySource, Runs, Sessions, SessionView, Vault
from broker.server.credential_ask import CredentialAsk
from broker.steps import Trail

PROVIDED = "The service has its credential now; ask for what you need."
NONE_NEEDED = "The service needs no credential; ask for what you need."


class CredentialWants:
    """Takes one wish through: nothing of it is sent anywhere, and no value passes here."""

    def __init__(
        self,
        *,
        wants: Wants,
        policies: PolicySource,
        vault: Vault,
        sessions: Sessions,
        runs: Runs,
        audit: AuditLog,
        clock: Clock,
    ) -> None:
        self._wants = wants
        self._policies = policies
        self._vault = vault
        self._sessions = sessions
        self._runs = runs
        self._audit = audit
        self._clock = clock

    async def perform(self, ask: CredentialAsk) -> Result | Unrecorded:
        frame = Frame(correlation_id=ask.correlation_id)
        trail = Trail(self._audit, self._clock, ask.correlation_id)
        try:
            trail.post(
                EventName.ACTION_REQUESTED,
                records.requested(ask.caller, body_digest=ask.body_digest, request_id=None),
            )
            return await self._end(trail, await self._decide(ask, trail, frame))
        except AuditUnwritable:
            gate = GateReport(vault=self._vault.state)
            return Unrecorded(envelope=reply.unrecorded(frame, gate, dispatched=False).to_json())

    async def _decide(self, ask: CredentialAsk, trail: Trail, frame: Frame) -> Envelope:
        session = self._enter(ask)
        if isinstance(session, Refusal):
            return self._refused(frame, session)
        trail.session_id = session.id
        policy = self._policies.current()
        service = _named(policy, ask)
        if isinstance(service, Refusal):
            return self._refused(frame, service)
        credential = service.credential
        if credential is None:
            return self._there(frame, NONE_NEEDED)
        if self._vault.credential_version(credential) is not None:
            return self._there(frame, PROVIDED)
        return await self._wait(ask, session, policy, service, credential, frame)

    def _enter(self, ask: CredentialAsk) -> SessionView | Refusal:
        if self._sessions.frozen:
            return refusals.frozen()
        if self._vault.state is not VaultState.READY:
            return refusals.vault(self._vault.state)
        return self._sessions.open(ask.caller) if self._audit.room() else refusals.disk_low()

    async def _wait(
        self,
        ask: CredentialAsk,
        session: SessionView,
        policy: Policy,
        service: Service,
        credential: str,
        frame: Frame,
    ) -> Envelope:
        waiting = GateReport(vault=self._vault.state, call=GateState.PENDING, policy=policy.digest)
        self._runs.waits(ask.correlation_id, reply.pending(frame, waiting).to_json())
        refusal = await self._wants.ask(
            Want(
                correlation_id=ask.correlation_id,
                caller=ask.caller,
                session=session,
                policy=policy,
                service=service,
                credential=credential,
                purpose=ask.purpose,
            )
        )
        if refusal is None:
            self._sessions.count(session.id, denied=False)
            return self._there(frame, PROVIDED, call=GateState.GRANTED)
        is_no = refusal.category is Category.CALL_DENIED
        self._sessions.count(session.id, denied=is_no)
        return self._refused(frame, refusal, call=GateState.DENIED if is_no else GateState.EXPIRED)

    def _there(self, frame: Frame, message: str, *, call: GateState = GateState.NOT_NEEDED) -> Envelope:
        return Envelope(
            category=Category.SUCCESS,
            code="ok",
            retry=Retry.NEVER,
            remote_effect=RemoteEffect.NONE,
            correlation_id=frame.correlation_id,
            message=message,
            gate=GateReport(vault=self._vault.state, call=call),
        )

    def _refused(self, frame: Frame, refusal: Refusal, *, call: GateState = GateState.NOT_NEEDED) -> Envelope:
        return reply.refused(frame, refusal, GateReport(vault=self._vault.state, call=call))

    async def _end(self, trail: Trail, envelope: Envelope) -> Result:
        receipt = await trail.append(EventName.ACTION_RESULT, reply.audit_fields(envelope))
        return reply.final(envelope, receipt)


def _named(policy: Policy, ask: CredentialAsk) -> Service | Refusal:
    """The service, where some rule could open it to this agent at all."""
    service = policy.services.get(ask.service)
    if service is None:
        return Refusal(
            category=Category.INVALID_REQUEST,
            code="unknown_service",
            retry=Retry.NEVER,
            message="The policy knows no service of this name. See: doorward services",
        )
    if all(opening.service != service.name for opening in could_open(policy, ask.caller.agent)):
        return Refusal(
            category=Category.POLICY_DENIED,
            code="no_rule",
            retry=Retry.NEVER,
            message="No rule opens this service to you, so nobody is asked for its credential.",
        )
    return service

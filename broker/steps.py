"""What passes from step to step of the pipeline, and the trail of audit events that a request leaves.

A value exists only after the steps before it: Received, then Named, then a permit; Stop and Recorded are endings.
The trail knows which events are still owed. Nothing here decides or sends; answers that take long to judge are judged
beside the event loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex

from broker.answer_frames import AnswerFrames
from broker.contract.reasons import GateState
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject
from broker.core import records, refusals, reply
from broker.core.arguments import split_query
from broker.core.asks import Asked
from broker.core.channels import Frozen, Raw
from broker.core.classify import channel
from broker.core.continuation import Shield
from broker.core.events import AuditEvent, EventName, Receipt
from broker.core.evidence_gate import NO_PROOF, Proof
from broker.core.frozen import FrozenRequest
from broker.core.gate import Ruling, Standing, recheck, under_key
from broker.core.http_secrets import Claims
from broker.core.identity import Caller
from broker.core.ledger import Attempt, Doubt, attempt_of
from broker.core.outcome import RawOutcome, Scrubbed
from broker.core.policy.model import Allow, Ask, Decision, Policy
from broker.core.policy.requirements import Requirements
from broker.core.refusals import Refusal
from broker.core.repeats import goes_with_key, key_header_of, known_key, may_repeat, must_not_repeat, was_forgotten
from broker.core.reply import Frame
from broker.core.scrub import scrub
from broker.core.secret_set import SecretSet
from broker.core.ssh.contact import unreachable, unseen_key
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.outcome import SshFault
from broker.core.ssh.trust import HostKey, KeyState
from broker.frames import Frames, ScrubbedFrames
from broker.ports import (
    AuditLog,
    AuditUnwritable,
    Clock,
    CredentialGone,
    Delivery,
    Diagnostics,
    Executor,
    FrameSink,
    Ledger,
    LedgerSealed,
    PolicySource,
    Question,
    SessionView,
    Vault,
)

AT_ONCE_BYTES = 16_384  # a longer answer can be made so that judging it keeps everybody waiting


async def judged(
    frozen: Frozen,
    raw: Raw,
    secrets: SecretSet | None,
    *,
    now_ms: int,
    prior_doubt: bool,
    key_expired: bool = False,
) -> Scrubbed:
    """What an answer means, without what may not leave."""

    def judge() -> Scrubbed:
        told = channel.judged(frozen, raw, now_ms=now_ms, prior_doubt=prior_doubt, key_expired=key_expired)
        return scrub(told, secrets)

    return judge() if channel.size_bytes(raw) <= AT_ONCE_BYTES else await asyncio.to_thread(judge)


def unfit(frozen: Frozen, vault: Vault) -> Refusal | None:
    """A service whose credential is missing, or not bound to where the request goes, opens nothing."""
    own = key_header_of(frozen)
    if own is not None and isinstance(frozen, FrozenRequest) and any(header == own for header, _ in frozen.headers):
        return refusals.reserved(own)
    name = frozen.service.credential
    if name is None:
        return None
    if vault.credential_version(name) is None:
        return refusals.no_credential(name)
    uncovered = next((url for url in frozen.bound_urls if not vault.covers(name, url)), None)
    if uncovered is not None:
        return refusals.not_bound(name, frozen.service.bound_as(uncovered))
    return contested(frozen, vault, name)


def contested(frozen: Frozen, vault: Vault, credential: str) -> Refusal | None:
    """A request that says itself what its credential says would be another one on the wire than was shown."""
    if not isinstance(frozen, FrozenRequest):
        return None
    claims = claims_of(vault, credential)
    said = claims.contested_by((name for name, _ in frozen.headers), (name for name, _ in split_query(frozen.query)))
    return None if said is None else refusals.reserved(said)


def claims_of(vault: Vault, credential: str) -> Claims:
    """What the credential says of a request; nothing where it is gone, which is noticed again before a byte is sent."""
    try:
        return vault.claims(credential)
    except CredentialGone:
        return Claims()


def shield_of(frozen: Frozen, vault: Vault, secrets: SecretSet | None, raw: Raw) -> Shield:
    """What of the credential may not come back in what an answer names."""
    name = frozen.service.credential
    claims = Claims() if name is None else claims_of(vault, name)
    derived = raw.derived if isinstance(raw, RawOutcome) else ()
    return Shield(claims=claims, secrets=None if secrets is None else secrets.also(derived))


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came in: who, what, and the digest of the bytes. `ask` is a refusal where it was unreadable."""

    correlation_id: str
    caller: Caller
    ask: Asked | Refusal
    body_digest: str
    request_id: str | None = None
    says: str | None = None
    previous_correlation_id: str | None = None
    frames: FrameSink | None = None  # who is handed the output while it comes
    is_asked_by_human: bool = False  # who would be asked has asked for it himself; what is denied stays denied

    def unasked(self, decision: Decision) -> Decision:
        """The decision, without a card that its own author would have to answer."""
        return Allow(rules=decision.rules) if self.is_asked_by_human and isinstance(decision, Ask) else decision

    evidence: tuple[str, ...] = ()  # collections that the agent would lean on; names, and no proof


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Turns:
    """One at a time of those that share a key. What came of the one before is known when the next has its turn."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def take(self, key: str, *, patience_s: float) -> AsyncIterator[bool]:
        """Wait for the turn and keep it for the block; False where it did not come in time."""
        turn = self._turns.setdefault(key, _Turn())
        turn.wanted += 1
        try:
            try:
                async with asyncio.timeout(patience_s):
                    await turn.lock.acquire()
            except TimeoutError:
                yield False
                return
            try:
                yield True
            finally:
                turn.lock.release()
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[key]

    def __len__(self) -> int:
        return len(self._turns)


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
        """When a fault of our own ends the request: write the events still owed, as far as the log takes them."""
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
    frozen: Frozen
    policy: Policy
    decision: Allow | Ask
    asked: Standing
    frame: Frame
    gate: GateReport
    doubts: tuple[Doubt, ...] = ()
    host_key: HostKey | None = None  # of an SSH host, as it is before anybody logs in
    wanted: Requirements = field(default_factory=Requirements)
    proof: Proof = NO_PROOF
    key: str | None = None  # of the broker's, under which the upstream knows the change
    taken: str | None = None  # the grant that it took a use of

    @property
    def meets_a_stranger(self) -> bool:
        """Whether it is the first contact with a host, whose key somebody has to see."""
        return self.host_key is not None and self.host_key.state is KeyState.UNVERIFIED

    @property
    def is_sent_at_once(self) -> bool:
        """Whether nothing comes between here and the look at everything: no card, no host to meet, no turn to wait."""
        return isinstance(self.decision, Allow) and isinstance(self.frozen, FrozenRequest) and not self.frozen.is_write

    async def met(self, executor: Executor) -> "Named | Refusal":
        """With the state of a host's key, looked at where nobody has accepted one: the card has to show it."""
        key, frozen = await executor.host_key(self.frozen), self.frozen
        if not isinstance(frozen, FrozenSsh) or key is None:
            return self
        if isinstance(key, SshFault):
            return unreachable(frozen, key)
        if key.seen is not None and isinstance(self.decision, Allow):
            return unseen_key(frozen, key.seen)
        return replace(self, host_key=key)

    def keyed(self, *, now_ms: int) -> "Named":
        """With the key under which it goes out: the one that it went out under before, or a new one.

        What a card named stays, unless the far side has forgotten it meanwhile.
        """
        if not goes_with_key(self.frozen):
            return self
        known = known_key(self.frozen, self.doubts, now_ms=now_ms)
        shown = None if self.key in {doubt.idempotency_key for doubt in self.doubts} else self.key
        return replace(self, key=known or shown or f"dw-{token_hex(16)}")

    @property
    def key_expired(self) -> bool:
        return was_forgotten(self.frozen, self.doubts, key=self.key)

    def goes_past(self, doubts: tuple[Doubt, ...], *, now_ms: int) -> bool:
        """Whether what is in doubt keeps it from nothing: a human is shown it, or it is that very request once more."""
        asks = isinstance(self.decision, Ask) and self.decision.rule.in_doubt == "ask"
        return (
            not doubts or (asks and not must_not_repeat(self.frozen)) or may_repeat(self.frozen, doubts, now_ms=now_ms)
        )

    def question(self, ask: Ask) -> Question:
        """What the desk is asked to put before a human."""
        return Question(
            correlation_id=self.received.correlation_id,
            caller=self.received.caller,
            session=self.session,
            frozen=self.frozen,
            ask=ask,
            policy=self.policy,
            vault_term=self.asked.vault_term,
            credential_version=self.asked.credential_version,
            says=self.received.says,
            doubts=self.doubts,
            host_key=self.host_key,
            proof=self.proof,
            idempotency_key=self.key,
        )

    def frames(self, secrets: SecretSet | None) -> Frames | None:
        """Who is handed the output, behind the scrubber."""
        sink = self.received.frames
        if sink is None:
            return None
        if isinstance(self.frozen, FrozenRequest):
            return AnswerFrames(sink, secrets, self.frozen)
        return ScrubbedFrames(sink, secrets)

    def delivery(self, frames: Frames | None) -> Delivery:
        return Delivery(
            session_id=self.session.id,
            frames=frames if isinstance(frames, ScrubbedFrames) else None,
            answer=frames if isinstance(frames, AnswerFrames) else None,
            host_key=self.host_key,
        )

    def rechecked(self, now: Standing) -> Ruling:
        """The permit, unless anything changed since it was decided about."""
        ruling = recheck(
            asked=self.asked,
            now=now,
            frozen=self.frozen,
            correlation_id=self.received.correlation_id,
            gate=self.gate,
        )
        return ruling if self.key is None or isinstance(ruling, Refusal) else under_key(ruling, self.key)

    def attempt(self, *, now_ms: int) -> Attempt:
        """What the ledger is told of it."""
        received = self.received
        return attempt_of(
            self.frozen,
            correlation_id=received.correlation_id,
            request_id=received.request_id,
            caller=received.caller,
            session_id=self.session.id,
            now_ms=now_ms,
            since=None if self.host_key is None else self.host_key.store,
            idempotency_key=self.key,
        )

    async def diagnosed(self, store: Diagnostics, scrubbed: Scrubbed) -> str | None:
        """Keep what a human may want to see of it; the reference, or None where there is nothing or no room."""
        if scrubbed.diagnosis is None:
            return None
        about = {"operation": self.frozen.operation, "request_digest": self.frozen.digest}
        return await store.keep(self.received.correlation_id, {**about, **scrubbed.diagnosis})

    def recorded(self, envelope: JsonObject, leader: str) -> "Recorded":
        frame = replace(self.frame, doubt_id=leader)
        return Recorded(trail=self.trail, frame=frame, gate=self.gate, envelope=envelope, leader=leader)

    def with_gate(self, decision: Ask, state: GateState) -> "Named":
        return replace(self, gate=reply.with_call(self.gate, state, per_call=decision.per_call))


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


async def remember(named: Named, ending: Stop | Recorded, ledger: Ledger, *, now_ms: int) -> None:
    """A request that joined another's card has its outcome under its own request id too."""
    received = named.received
    if isinstance(ending, Recorded) and received.request_id is not None and reply.tells_of_an_attempt(ending.envelope):
        with suppress(LedgerSealed):
            await ledger.begin(named.attempt(now_ms=now_ms))
            await ledger.finish(received.correlation_id, in_doubt=False, envelope=ending.envelope)


def standing(frozen: Frozen, policies: PolicySource, vault: Vault, *, is_alive: bool, frozen_daemon: bool) -> Standing:
    """What holds right now for a request; `is_alive` of its session, and of the program that was looked at."""
    name = frozen.service.credential
    return Standing(
        vault=vault.state,
        vault_term=vault.term,
        policy_digest=policies.current().digest,
        credential_version=None if name is None else vault.credential_version(name),
        session_alive=is_alive,
        frozen_daemon=frozen_daemon,
        request_digest=frozen.digest,
    )

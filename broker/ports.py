"""What the pipeline needs from the world, as protocols. Edge packages implement them; tests/fakes does too."""

from dataclasses import dataclass
from typing import Protocol

from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject
from broker.core.credential import CredentialSecret
from broker.core.events import AuditEvent, Receipt
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Refusal
from broker.core.identity import Caller
from broker.core.ledger import Attempt, Doubt
from broker.core.outcome import RawOutcome
from broker.core.policy.model import Ask, Policy


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float: ...


class AuditLog(Protocol):
    """The only way to a receipt."""

    def post(self, event: AuditEvent) -> None:
        """Queue an event whose durability the next append waits for. Never blocks; raises AuditError when poisoned."""
        ...

    async def append(self, event: AuditEvent) -> Receipt:
        """Return once the event and all before it are durable; raises AuditError when that can't be."""
        ...

    def room(self) -> bool:
        """False below the free-space floor: actions are refused before writes fail."""
        ...


class Vault(Protocol):
    """State and credentials of the vault, as far as the pipeline looks."""

    @property
    def state(self) -> VaultState: ...
    @property
    def term(self) -> int: ...
    def credential_version(self, name: str) -> int | None:
        """The version in force, None where there is no such credential (or the vault is locked)."""
        ...

    def covers(self, name: str, url: str) -> bool:
        """Whether a binding of the credential covers the canonical URL."""
        ...


class SecretStore(Protocol):
    """Credential values, for injection and scrubbing alone."""

    def secret_of(self, name: str, version: int) -> CredentialSecret: ...


class Executor(Protocol):
    async def execute(self, permit: Permit) -> RawOutcome:
        """One attempt; every ending is a RawOutcome, never an exception of the transport."""
        ...


class PolicySource(Protocol):
    def current(self) -> Policy: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as cards and answers show it. Times are milliseconds since the epoch."""

    id: str
    agent: str
    span: str
    anchor_pid: int
    opened_at_ms: int
    calls: int
    denied: int
    label: str | None
    muted: bool


class Sessions(Protocol):
    """Live sessions and their grants."""

    def open(self, caller: Caller, *, label: str | None = None) -> SessionView:
        """The session of the caller's anchor, made if it is new. Raises SessionRefused where the anchor is dead."""
        ...

    def view(self, session_id: str) -> SessionView | None: ...
    def alive(self, session_id: str) -> bool: ...
    def use_grant(self, session_id: str, frozen: FrozenRequest, ask: Ask, now_ms: int) -> bool:
        """Count one use of a grant that covers the request; False where there is none."""
        ...

    def counted(self, session_id: str, *, denied: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the desk is asked to put before a human."""

    correlation_id: str
    caller: Caller
    session: SessionView
    frozen: FrozenRequest
    ask: Ask
    policy_digest: str
    vault_term: int
    credential_version: int | None
    reason: str | None  # the agent's own words
    doubts: tuple[Doubt, ...] = ()
    wait_s: float = 150.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A human's yes: signed, verified, recorded."""

    approval_id: str
    scope: str  # once | session


class ApprovalDesk(Protocol):
    async def ask(self, question: Question) -> Approved | Refusal:
        """Wait for the human, at most until the card expires. Joining and flood limits are the desk's business."""
        ...


class Ledger(Protocol):
    """Attempts that may have changed something, and recorded results."""

    def find(self, anchor_id: str, request_id: str) -> Attempt | None: ...
    def doubts(self, change_key: str) -> tuple[Doubt, ...]: ...
    def begin(self, attempt: Attempt) -> None:
        """Durable before it returns."""
        ...

    def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject, now_ms: int) -> None: ...

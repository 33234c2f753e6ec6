"""What the pipeline needs from the world, as protocols. Edge packages implement them; tests/fakes does too."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject
from broker.core.channels import Frozen, Raw
from broker.core.collect.request import Kept
from broker.core.credential import Claims, CredentialSecret
from broker.core.events import AuditEvent, Receipt
from broker.core.evidence import EvidenceRecord
from broker.core.evidence_gate import NO_PROOF, Proof
from broker.core.gate import Permit
from broker.core.grants import Circumstances
from broker.core.identity import Caller
from broker.core.ledger import Attempt, Doubt
from broker.core.policy.model import Ask, Policy
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import HostKeySeen, SshFault, StoreSeen
from broker.core.ssh.trust import HostKey


class AuditUnwritable(Exception):  # noqa: N818 - it names the state that the agent is told of
    """The audit log can't take a record; nothing more may run."""


class LedgerSealed(Exception):  # noqa: N818 - likewise
    """The vault was locked meanwhile, and the ledger with it. Nothing of the request was sent."""


class CredentialGone(Exception):  # noqa: N818 - likewise
    """The vault locked, or that version of the credential went, after all was looked at and before it was leased."""


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float: ...


class AuditLog(Protocol):
    """The only way to a receipt."""

    def post(self, event: AuditEvent) -> None:
        """Queue an event; the next append waits for its durability too. Raises AuditUnwritable."""
        ...

    async def append(self, event: AuditEvent) -> Receipt:
        """Return once the event and all before it are durable. Raises AuditUnwritable."""
        ...

    def room(self) -> bool:
        """False below the free-space floor: actions are refused before writes fail."""
        ...


class Diagnostics(Protocol):
    """Where the details of what was no success are kept, sealed, for a while."""

    async def keep(self, correlation_id: str, details: JsonObject) -> str | None:
        """A reference under which a human finds them; None where they could not be kept. Never raises."""
        ...


class Vault(Protocol):
    """State of the vault and of its credentials, as far as the pipeline looks."""

    @property
    def state(self) -> VaultState: ...
    @property
    def term(self) -> int: ...
    def credential_version(self, name: str) -> int | None:
        """The version in force; None where there is no such credential or the vault is locked."""
        ...

    def covers(self, name: str, url: str) -> bool:
        """Whether a binding of the credential covers the canonical URL."""
        ...

    def claims(self, name: str) -> Claims:
        """What a request that carries the credential may not say itself. Raises CredentialGone."""
        ...

    def lease(self, name: str, version: int) -> AbstractContextManager[SecretSet]:
        """Everything of the credential that may not leave the daemon, held over a lock until the work has ended.

        Raises CredentialGone.
        """
        ...


class SecretStore(Protocol):
    """Credential values, for injection alone."""

    def secret_of(self, name: str, version: int) -> CredentialSecret: ...


class FrameSink(Protocol):
    """Takes output while it comes."""

    async def __call__(self, stream: str, octets: bytes) -> None:
        """Take a piece of `stdout` or `stderr`. Returns when the next may come; raises when none shall."""
        ...


class AnswerSink(Protocol):
    """Takes an answer of HTTP while it comes. Returns when the next part may come, and whether anybody still listens.

    Never raises.
    """

    async def head(self, status: int, headers: tuple[tuple[str, str], ...], derived: tuple[Secret, ...]) -> bool:
        """Take status and headers as they came; `derived` is what was made of the credential for this attempt."""
        ...

    async def body(self, octets: bytes) -> bool:
        """Take a part, also where nobody listens any more: what may not leave is looked for in all of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What an attempt needs beside its permit: whose it is, who listens, and the host key that the card showed."""

    session_id: str
    frames: FrameSink | None = None
    answer: AnswerSink | None = None
    host_key: HostKey | None = None


class Executor(Protocol):
    async def host_key(self, frozen: Frozen) -> HostKey | SshFault | None:
        """What is known of the key of an SSH host, which is looked at where nobody has accepted one; else None."""
        ...

    async def execute(self, permit: Permit, delivery: Delivery) -> Raw:
        """One attempt; every ending is a value, never an exception of the transport."""
        ...


class TrustStore(Protocol):
    """Keys of `accept-new` hosts that a human accepted at the first contact."""

    def known(self, host: SshHost) -> tuple[str, ...]:
        """The public keys, each in OpenSSH's text; none where nobody accepted one yet."""
        ...

    def provisionally(self, host: SshHost, key: HostKeySeen) -> AbstractContextManager[None]:
        """Within, the key counts as known: a human has accepted it just now."""
        ...

    async def remember(self, host: SshHost, key: HostKeySeen) -> None:
        """Keep the key from now on, sealed and on record. Called after the first success with it."""
        ...

    def store_of(self, host: SshHost) -> StoreSeen | None:
        """Where markers lay when a command was last sent there."""
        ...

    async def saw_store(self, host: SshHost, store: StoreSeen) -> None: ...


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

    @property
    def frozen(self) -> bool:
        """Whether a human froze everything."""
        ...

    def open(self, caller: Caller) -> SessionView | Refusal:
        """The session of the caller's anchor, made if it is new; a refusal where the anchor is gone."""
        ...

    def alive(self, session_id: str) -> bool: ...
    def exe_unchanged(self, caller: Caller) -> bool:
        """Whether the anchor has executed nothing since the caller was identified."""
        ...

    def within_rate(self, rules: tuple[str, ...], per_minute: int) -> bool:
        """Count one request under these rules; False where one of them has had its number for this minute."""
        ...

    def use_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> str | None:
        """Count one use of a grant that covers the request, and name it; None where there is none."""
        ...

    def holds(self, session_id: str, grant_id: str) -> bool:
        """Whether the grant was not taken away, used up or not."""
        ...

    def make_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> None: ...
    def count(self, session_id: str, *, denied: bool, echoed: bool = False) -> None:
        """Count a call. Whoever has services give a credential back again and again is let in no more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the desk is asked to put before a human."""

    correlation_id: str
    caller: Caller
    session: SessionView
    frozen: Frozen
    ask: Ask
    policy: Policy
    vault_term: int
    credential_version: int | None
    says: str | None
    doubts: tuple[Doubt, ...] = ()
    host_key: HostKey | None = None  # of an SSH host
    proof: Proof = NO_PROOF
    idempotency_key: str | None = None  # of the broker's own, which would travel along


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A human's yes: signed, verified, recorded. scope: once | session."""

    approval_id: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A human chose another way than a yes: collect, limit, or read back. Signed, verified, recorded."""

    approval_id: str
    choice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The same request waits or runs already; its answer serves this one too."""

    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """No yes: what the agent is told, and whether a human (or the clock) ended the card."""

    refusal: Refusal
    expired: bool


class ApprovalDesk(Protocol):
    async def ask(self, question: Question) -> Approved | Chosen | Declined | Joined:
        """Wait for the human, at most until the card expires."""
        ...


class Ledger(Protocol):
    """Attempts that may have changed something, and recorded results. Raises LedgerSealed once the vault is locked.

    What was begun is finished or abandoned all the same.
    """

    async def find(self, anchor_id: str, request_id: str) -> Attempt | None: ...
    async def doubts(self, change_key: str) -> tuple[Doubt, ...]: ...
    async def begin(self, attempt: Attempt) -> int:
        """Durable before it returns. Gives the number of this write, by which an older ledger is told later."""
        ...

    async def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject) -> None:
        """Say what became of it. Where the disk fails it is written before anything else is looked up or begun."""
        ...

    async def settle_by_repeat(
        self, correlation_id: str, settlement: JsonObject, record: Callable[[], Awaitable[object]]
    ) -> bool:
        """Close what is in doubt by what came of the very same request, sent again. False where it is closed.

        `record` puts it on record, and is called where it is still in doubt, before it is closed.
        """
        ...

    async def abandon(self, correlation_id: str) -> None:
        """Forget an attempt that was begun and came to nothing: its request id is free again."""
        ...


class EvidenceStore(Protocol):
    """Collections that a later change may lean on, each for the anchor that made it.

    Raises LedgerSealed once the vault is locked.
    """

    async def record(self, record: EvidenceRecord) -> EvidenceRecord:
        """Keep a collection, complete or cut, and give it its id. The caller's trail tells of it: evidence.recorded."""
        ...

    async def find(self, anchor_id: str, operation: str) -> tuple[EvidenceRecord, ...]:
        """What the anchor recorded of `service.operation` and is not expired. What was tampered with is not in it."""
        ...


class Walks(Protocol):
    """Where walks that were cut are kept for a while. A cursor is a name for one, and no key to it."""

    def keep(self, kept: Kept) -> str:
        """The cursor under which its anchor finds it again."""
        ...

    def find(self, anchor_id: str, cursor: str, *, vault_term: int) -> Kept | None:
        """The walk of this anchor, kept since the vault was opened last; None where there is none, or it is too old."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """A collection that a human asked for: the same as the one that lacks something, with more time."""

    caller: Caller
    service: str
    operation: str
    args: JsonObject
    cursor: str | None  # where an earlier one could be gone on with; it begins anew where that is no longer so
    seconds: int
    previous_correlation_id: str


class FollowUps(Protocol):
    """What a human's answer to a card begins: requests of their own, of the session that asked, under the policy."""

    @property
    def can_collect(self) -> bool: ...
    async def read_back(self, correlation_id: str, *, caller: Caller) -> None:
        """Look what became of an attempt in doubt, as the session that asks; what is settled, the ledger knows then."""
        ...

    async def collect(self, wanted: Recollection) -> None:
        """Read a collection; what it comes to is on record afterwards, whatever it is."""
        ...

    def begin(self, ask: HttpAsk, *, caller: Caller, says: str | None, previous: str) -> str | None:
        """Begin another request; its id, or None where no more is taken."""
        ...


class Runs(Protocol):
    """Actions under way, so that a repeat finds the first one, and a poll its state."""

    def claim(self, anchor_id: str, request_id: str, digest: str, correlation_id: str) -> tuple[str, str] | None:
        """Claim the id for this run: None when it is ours, else the holder's correlation id and request digest."""
        ...

    def waits(self, correlation_id: str, pending: JsonObject) -> None:
        """The run waits for a human; this is what a poll is told meanwhile."""
        ...

    def dispatched(self, correlation_id: str, *, is_write: bool) -> None:
        """From here on the run can't be withdrawn."""
        ...

    async def result(self, correlation_id: str) -> JsonObject | None:
        """The envelope of a run that is under way or just ended, once it is there."""
        ...

"""What an executor saw, before and after it was judged: RawOutcome, Classified, Scrubbed.

RawOutcome shows nothing of its content when printed. Classified may still hold a secret that the upstream echoed;
only Scrubbed may leave the daemon, and core/scrub.py alone makes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from typing_extensions import override

from broker.contract.reasons import Category, IncompleteCode, RemoteEffect, Retry
from broker.contract.result import Completeness, HttpAnswer, ScrubReport, Warn
from broker.contract.wire import JsonObject, JsonValue
from broker.core.secret import Secret
from broker.core.ssh.outcome import SshFault, SshOutcome, SshPhase


class Phase(StrEnum):
    """How far a request got, in order. `body_sent` means handed to the kernel, not received."""

    BUILT = "built"
    APPROVED = "approved"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    HEADERS_SENT = "headers_sent"
    BODY_SENT = "body_sent"
    RESPONSE_STARTED = "response_started"
    RESPONSE_COMPLETE = "response_complete"


class Fault(StrEnum):
    """What went wrong on the way, in words of the transport. None of them is a verdict."""

    DNS_FAILED = "dns_failed"
    ADDRESS_REFUSED = "address_refused"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT_FAILED = "connect_failed"
    TLS_UNTRUSTED = "tls_untrusted"
    TLS_NAME = "tls_name"
    TLS_EXPIRED = "tls_expired"
    TLS_FAILED = "tls_failed"
    WRITE_TIMEOUT = "write_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CONNECTION_LOST = "connection_lost"
    FRAMING = "framing"  # the answer's head or chunking breaks HTTP
    TRUNCATED = "truncated"  # a head came, the body ended early
    TOO_LARGE = "too_large"  # more than the cap, counted after decompression
    DECODING = "decoding"  # content-encoding that does not decode
    INTERNAL = "internal"  # our own fault after dispatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RawOutcome:
    """One attempt on the wire. Made by executors alone.

    `headers` has lower-case names, repeated ones repeated; `body` holds at most the cap, decompressed. What was handed
    on while it came is in `body` only as far as it is small enough to be judged.
    """

    phase: Phase
    fault: Fault | None = None
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    body_complete: bool = False
    body_provable: bool = True  # False where only the connection's end delimits the body
    sent_bytes: int = 0
    elapsed_ms: int = 0
    phase_ms: Mapping[str, int] = field(default_factory=dict)
    handed_on_bytes: int | None = None  # of the body, decompressed; None where it was not handed on
    derived: tuple[Secret, ...] = ()  # made of the credential for this attempt, such as a signature

    @property
    def body_bytes(self) -> int:
        """How long the body was, as far as it came."""
        return len(self.body) if self.handed_on_bytes is None else self.handed_on_bytes

    @property
    def is_body_gone(self) -> bool:
        """Whether the body was handed on and too large to be kept."""
        return self.body_bytes > len(self.body)

    @override
    def __repr__(self) -> str:
        return f"RawOutcome(phase={self.phase.value}, fault={self.fault}, status={self.status})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The three answers of the contract, the fine reason, and the daemon's own sentence."""

    category: Category
    code: str
    retry: Retry
    remote_effect: RemoteEffect
    message: str
    retry_after_s: int | None = None
    missing: tuple[IncompleteCode, ...] = ()  # what a declared rule says is not in the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A judged answer that may still hold secrets. `answer` (`ssh`) is None where there is none to read."""

    verdict: Verdict
    raw: RawOutcome | SshOutcome
    answer: HttpAnswer | None = None
    ssh: JsonObject | None = None  # made by core/ssh/answer.py
    completeness: Completeness | None = None
    warnings: tuple[Warn, ...] = ()
    identity: JsonValue = None
    grounds: JsonObject = field(default_factory=dict)  # what decided, for diagnosis

    @override
    def __repr__(self) -> str:
        return f"Classified({self.verdict!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """What may leave the daemon. Made by core/scrub.py alone."""

    verdict: Verdict
    answer: HttpAnswer | None
    ssh: JsonObject | None
    completeness: Completeness | None
    warnings: tuple[Warn, ...]
    report: ScrubReport
    hits: int  # for the audit log alone
    is_echo: bool  # the service gave a value of the credential back
    phase: Phase | SshPhase
    status: int | None  # of HTTP
    fault: Fault | SshFault | None
    elapsed_ms: int
    diagnosis: JsonObject | None = None  # for a human, where it is no success

"""What the SSH executor saw: phases, faults, events of the channel, and what the marker said.

No field here is a verdict; core/classify/ssh.py judges. Shows nothing of its content when printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from typing_extensions import override


class SshPhase(StrEnum):
    """How far the attempt got, in order. From `channel_open` on the command may have started."""

    BUILT = "built"
    CONNECTING = "connecting"
    BANNER = "banner"
    HOST_KEY = "host_key"
    LOGIN = "login"
    LOGGED_IN = "logged_in"
    CHANNEL_OPEN = "channel_open"
    EXEC_ACCEPTED = "exec_accepted"
    OUTPUT = "output"
    EXITED = "exited"
    CLOSED = "closed"


class SshFault(StrEnum):
    """What went wrong on the way, in words of the transport."""

    DNS_FAILED = "dns_failed"
    ADDRESS_REFUSED = "address_refused"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT_FAILED = "connect_failed"
    LOGIN_TIMEOUT = "login_timeout"
    LOST_DURING_LOGIN = "lost_during_login"
    NOT_SSH = "not_ssh"
    HOST_KEY_UNKNOWN = "host_key_unknown"
    HOST_KEY_CHANGED = "host_key_changed"
    HOST_KEY_REVOKED = "host_key_revoked"
    HOST_KEY_WEAK = "host_key_weak"  # DSA, RSA below 2048 bits, or of a kind that is not taken
    LOGIN_REJECTED = "login_rejected"
    KEY_UNUSABLE = "key_unusable"  # encrypted, of a kind or a size that is not taken
    CHANNEL_REFUSED = (
        "channel_refused"  # proven: the connection lives and the channel never opened, or exec was refused
    )
    EXEC_TIMEOUT = "exec_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CHANNEL_LOST = "channel_lost"
    CONNECTION_LOST = "connection_lost"
    OVERFLOW = "overflow"  # more output than the ceiling; the channel was closed by us
    NO_SFTP = "no_sftp"
    REMOTE_FILE = "remote_file"  # the far file system said no; nothing was replaced
    COMMAND_REFUSED = "command_refused"  # ours: NUL, too long
    INTERNAL = "internal"


class MarkerState(StrEnum):
    """What the preamble said, or that there was none."""

    OFF = "off"
    STARTED = "started"
    NO_STORE = "no_store"  # it ran without, as the policy allows
    REFUSED_NO_STORE = "refused_no_store"  # exit 97: nothing ran
    DUPLICATE = "duplicate"  # exit 98: this id has run, runs, or is fenced
    MISSING = "missing"


class Found(StrEnum):
    """The answer of a look-up. Only `finished` and `never_started` settle anything."""

    FINISHED = "finished"
    RUNNING = "running"
    DIED = "died"
    DIED_REBOOT = "died_reboot"
    DIED_RESTART = "died_restart"
    ORPHAN = "orphan"
    NEVER_STARTED = "never_started"  # fenced, and the store and boot are those of before
    FENCED_LATE = "fenced_late"  # fenced, but nothing proves that it had not run
    OTHER_HOST = "other_host"
    UNREADABLE = "unreadable"
    NO_STORE = "no_store"
    NO_ANSWER = "no_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSeen:
    """The marker store that a probe or a preamble named: where, its own id, and the boot it was seen in."""

    path: str
    id: str
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    found: Found
    status: int | None = None  # of a finished one
    store: StoreSeen | None = None
    spooled: bool = False  # what a detached one wrote was read too, and is the output of the look-up


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeySeen:
    """A host key that was offered: algorithm name, `SHA256:...` fingerprint, and the public key in OpenSSH's text."""

    algorithm: str
    fingerprint: str
    public: str


class Replaced(StrEnum):
    """What became of the target of a put."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"  # the rename was asked for and not answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """`sha256` is of the far file where it was compared. `size` is in bytes."""

    replaced: Replaced = Replaced.NO
    size: int | None = None
    sha256: str | None = None
    complete: bool = False
    cut: bool = False  # more than the cap


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOutcome:
    """One attempt on the wire. Made by executors alone. `exit_status` is the full number that was sent, unmasked."""

    phase: SshPhase
    fault: SshFault | None = None
    exit_status: int | None = None
    exit_signal: str | None = None
    stdout: bytes = b""
    stderr: bytes = b""  # without the preamble
    stdout_bytes: int = 0  # seen, also what was not kept
    stderr_bytes: int = 0
    output_complete: bool = False  # its end was seen, and all of it was kept or streamed
    streamed: bool = False  # all of it was handed on while it came, however much of it was kept
    marker: MarkerState = MarkerState.OFF
    store: StoreSeen | None = None
    finding: Finding | None = None  # of a look-up
    transfer: Transfer | None = None
    host_key: HostKeySeen | None = None
    said: bytes = field(default=b"", repr=False)  # what the far side said of a refusal, for diagnostics alone
    after_close: bool = False  # the ending came after we had begun to close
    elapsed_ms: int = 0
    phase_ms: Mapping[str, int] = field(default_factory=dict)

    @override
    def __repr__(self) -> str:
        return f"SshOutcome(phase={self.phase.value}, fault={self.fault}, exit_status={self.exit_status})"

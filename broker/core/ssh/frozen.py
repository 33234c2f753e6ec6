"""The frozen SSH request: one action on one host, spelled out once, before anybody decides about it.

The command is the exact bytes that the far shell is given; a credential appears as its name alone.
"""

import hashlib
from dataclasses import dataclass, field
from typing import TypeAlias

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.policy.model import Service
from broker.core.ssh.model import MarkerMode, SshHost, SshOperation
from broker.core.ssh.outcome import StoreSeen

MAX_COMMAND_BYTES = 24_576
MAX_STDIN_BYTES = 262_144
MAX_TRANSFER_BYTES = 16_777_216
SUMMARY_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SshDeadlines:
    """Seconds allowed per phase; total bounds them all. idle: without a byte of output."""

    connect_s: float = 5.0
    login_s: float = 15.0
    exec_s: float = 10.0
    idle_s: float = 60.0
    total_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A command. `argv` is set where the request gave words; `command` is what they were quoted to."""

    command: bytes
    argv: tuple[str, ...] | None = None
    stdin: bytes = b""
    pty: bool = False
    marker: MarkerMode = MarkerMode.REQUIRED
    detach: bool = False

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "kind": "exec",
            "command": {"len": len(self.command), "sha256": hashlib.sha256(self.command).hexdigest()},
            "text": self.command.decode("utf-8", "backslashreplace"),
            "argv": None if self.argv is None else list(self.argv),
            "stdin": {"len": len(self.stdin), "sha256": hashlib.sha256(self.stdin).hexdigest()},
            "pty": self.pty,
            "marker": self.marker.value,
            "detach": self.detach,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A file to be written whole: to a temporary name beside it, compared, then renamed over it."""

    path: str
    content: bytes
    mode: int | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "kind": "put",
            "path": self.path,
            "content": {"len": len(self.content), "sha256": hashlib.sha256(self.content).hexdigest()},
            "mode": self.mode,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """A file to be read whole, up to a cap."""

    path: str

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": "get", "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """What became of an earlier operation, by its marker. Takes the id with a fence where nothing is there."""

    operation_id: str
    since: StoreSeen | None = None  # the store as it was known before the command was sent
    detached: bool = False  # what a finished one wrote lies beside its marker, and is read too

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": "look_up", "operation_id": self.operation_id, "detached": self.detached}


SshAction: TypeAlias = Exec | Put | Get | LookUp


def described(action: SshAction) -> str:
    """The action in words: a command as it stands, a transfer by its path. A screen is shown it neutralised."""
    match action:
        case Exec(command=command):
            return command.decode("utf-8", "backslashreplace")
        case Put(path=path, content=content, mode=mode):
            return f"put {path} ({len(content)} bytes{'' if mode is None else f', mode {mode:04o}'})"
        case Get(path=path):
            return f"get {path}"
        case LookUp(operation_id=operation_id):
            return f"look up {operation_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSsh:
    """One action on one host, less the credential. `operation` is `service.name`, ad hoc `service.exec`."""

    service: Service
    operation: str
    declared: SshOperation | None
    host: SshHost
    action: SshAction
    effect: Effect
    destructive: bool = False
    args: JsonObject = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    identifies: str = ""
    is_look_up: bool = False  # it asks what became of an earlier action, and changes nothing of it
    output_bytes: int = MAX_STDIN_BYTES  # kept of stdout and of stderr each
    deadlines: SshDeadlines = field(default_factory=SshDeadlines)

    @property
    def digest(self) -> str:
        return digest("doorward/request/v1", self.to_json())

    @property
    def is_write(self) -> bool:
        """A look-up has the effect of the action that it asks about, and changes nothing itself."""
        return self.effect is not Effect.READ and not self.is_look_up

    @property
    def is_open(self) -> bool:
        """Whether the service lets it be asked for at all."""
        if self.is_look_up:
            return True
        settings = self.service.ssh
        local = self.operation.removeprefix(f"{self.service.name}.")
        return self.declared is not None or (settings is not None and local in settings.ad_hoc)

    @property
    def subject(self) -> str:
        """What is done, where the operation has no words for it."""
        return described(self.action)

    @property
    def summary(self) -> str:
        """One line for lists: who, where, and how it begins."""
        text = described(self.action)
        shown = text if len(text) <= SUMMARY_CHARACTERS else f"{text[:SUMMARY_CHARACTERS]}… +{len(text)}"
        return f"{self.host.user}@{self.host.name}: {shown}"

    @property
    def target(self) -> str:
        """One line for lists of cards."""
        return self.summary

    @property
    def bound_urls(self) -> tuple[str, ...]:
        """Where the credential is shown; a binding has to cover each."""
        return tuple(host.url for host in (*self.host.jump, self.host))

    @property
    def total_s(self) -> float:
        return self.deadlines.total_s

    def to_json(self) -> dict[str, JsonValue]:
        """The canonical description that the digest covers."""
        return {
            "channel": "ssh",
            "service": self.service.name,
            "operation": self.operation,
            "host": self.host.name,
            "address": self.host.address,
            "port": self.host.port,
            "user": self.host.user,
            "jump": [f"{hop.user}@{hop.address}:{hop.port}" for hop in self.host.jump],
            "action": self.action.to_json(),
            "effect": self.effect.value,
            "destructive": self.destructive,
            "credential": self.service.credential,
            "targets": list(self.targets),
        }

"""What is kept beside the log: where everything lies, the public pin, and the anchor that follows the head.

The pin names the log and its public keys; copy it elsewhere. The anchor lies in another directory and names the last
durable record; it is overwritten in place after each commit and never runs ahead of the log.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.disk import Disk, LocalDisk, read_private_file, write_durably
from broker.audit.faults import AuditError
from broker.audit.payload import KEY_BYTES, LOG_ID_BYTES, LogIdentity
from broker.contract.wire import JsonObject, JsonValue, WireError, canonical, parse_object
from broker.core.secret import Secret

VERSION = 1
MAX_PIN_BYTES = 4096
ANCHOR_BYTES = 512  # one sector, so that it is replaced whole

_PIN_KEYS = {"version", "log_id", "audit_key", "first_epoch_key", "root_key"}
_ANCHOR_KEYS = {"version", "log_id", "seq", "segment", "offset", "head", "epoch_key", "check"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPaths:
    """Where one log and what belongs to it lie."""

    directory: Path
    pin: Path
    anchor: Path
    seeds: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The public identity that a verifier holds the log against. Keys are lower-case hex."""

    log_id: str
    audit_key: str
    first_epoch_key: str
    root_key: str

    @classmethod
    def of(cls, identity: LogIdentity) -> "Pin":
        return cls(
            log_id=identity.log_id.hex(),
            audit_key=identity.audit_key.hex(),
            first_epoch_key=identity.first_epoch_key.hex(),
            root_key=identity.root_key.hex(),
        )

    def identity(self) -> LogIdentity:
        return LogIdentity(
            log_id=bytes.fromhex(self.log_id),
            audit_key=bytes.fromhex(self.audit_key),
            first_epoch_key=bytes.fromhex(self.first_epoch_key),
            root_key=bytes.fromhex(self.root_key),
        )

    def opened_by(self, audit_sk: Secret) -> bool:
        """Whether this is the secret that opens the log, and not another log's."""
        private = X25519PrivateKey.from_private_bytes(audit_sk.reveal())
        return private.public_key().public_bytes_raw().hex() == self.audit_key

    @classmethod
    def load(cls, path: Path) -> "Pin":
        """Raises AuditError."""
        names = _read_object(path, max_bytes=MAX_PIN_BYTES, keys=_PIN_KEYS)
        keys = ("audit_key", "first_epoch_key", "root_key")
        audit_key, first_epoch_key, root_key = (_hex(path, names, key, KEY_BYTES) for key in keys)
        return cls(
            log_id=_hex(path, names, "log_id", LOG_ID_BYTES),
            audit_key=audit_key,
            first_epoch_key=first_epoch_key,
            root_key=root_key,
        )

    def save(self, path: Path, disk: Disk | None = None) -> None:
        """Raises OSError."""
        content = canonical(
            {
                "version": VERSION,
                "log_id": self.log_id,
                "audit_key": self.audit_key,
                "first_epoch_key": self.first_epoch_key,
                "root_key": self.root_key,
            }
        )
        write_durably(path, content + b"\n", disk or LocalDisk())


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The last durable record: its number, where its file has its end, its hash, and the epoch's verify key."""

    log_id: str
    seq: int
    segment: int
    offset: int
    head: str
    epoch_key: str

    def pack(self) -> bytes:
        """One line of constant length, so that overwriting it leaves nothing of the line before."""
        rest = self._rest()
        return f'{{"check":"{_check(rest)}",{rest}}}'.encode().ljust(ANCHOR_BYTES - 1) + b"\n"

    @classmethod
    def parse(cls, content: bytes, *, source: Path) -> "Anchor":
        """Raises AuditError."""
        names = _object(source, content, _ANCHOR_KEYS)
        anchor = cls(
            log_id=_hex(source, names, "log_id", LOG_ID_BYTES),
            seq=_count(source, names, "seq"),
            segment=_count(source, names, "segment"),
            offset=_count(source, names, "offset"),
            head=_hex(source, names, "head", KEY_BYTES),
            epoch_key=_hex(source, names, "epoch_key", KEY_BYTES),
        )
        if names["check"] != _check(anchor._rest()):
            raise AuditError(f"{source} does not fit its own check value: it is damaged")
        return anchor

    @classmethod
    def load(cls, path: Path) -> "Anchor":
        """Raises AuditError. Asks again where it may have met a writer in the middle of an overwrite."""
        for _ in range(2):
            try:
                return cls._read(path)
            except AuditError:
                continue
        return cls._read(path)

    @classmethod
    def _read(cls, path: Path) -> "Anchor":
        return cls.parse(read_private_file(path, max_bytes=ANCHOR_BYTES), source=path)

    def save(self, path: Path, disk: Disk | None = None) -> None:
        """Raises OSError."""
        write_durably(path, self.pack(), disk or LocalDisk())

    def _rest(self) -> str:
        """The canonical members after `check`."""
        return (
            f'"epoch_key":"{self.epoch_key}","head":"{self.head}","log_id":"{self.log_id}","offset":{self.offset},'
            f'"segment":{self.segment},"seq":{self.seq},"version":{VERSION}'
        )


def _check(rest: str) -> str:
    return hashlib.sha256(rest.encode()).hexdigest()[:16]


def _read_object(path: Path, *, max_bytes: int, keys: set[str]) -> dict[str, JsonValue]:
    return _object(path, read_private_file(path, max_bytes=max_bytes), keys)


def _object(source: Path, content: bytes, keys: set[str]) -> dict[str, JsonValue]:
    try:
        names = parse_object(content)
    except WireError as cause:
        raise AuditError(f"{source} can't be read: {cause}") from cause
    if set(names) != keys:
        raise AuditError(f"{source} has other fields than {', '.join(sorted(keys))}")
    if type(names["version"]) is not int or names["version"] != VERSION:
        raise AuditError(f"{source} is of a version that this program does not know")
    return names


def _hex(source: Path, names: JsonObject, key: str, size: int) -> str:
    value = names[key]
    if not isinstance(value, str) or len(value) != 2 * size or not set(value) <= set("0123456789abcdef"):
        raise AuditError(f"{source}: {key} is not {size} bytes in lower-case hex")
    return value


def _count(source: Path, names: JsonObject, key: str) -> int:
    value = names[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise AuditError(f"{source}: {key} is not a count")
    return value

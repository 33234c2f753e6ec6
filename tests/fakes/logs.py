"""Small real audit logs, a clock that ticks when read, and a disk that fails when told."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.create import LogSecrets, create_log
from broker.audit.disk import Disk, LocalDisk
from broker.audit.ladder import in_file
from broker.audit.limits import WriterLimits
from broker.audit.pin import Anchor, AuditPaths, Pin
from broker.audit.verdict import Verdict
from broker.audit.verify import verify
from broker.audit.writer import AuditWriter
from broker.core.events import AuditEvent, EventName

START_MS = 1_763_130_000_000
SMALL = WriterLimits(segment_bytes=8000, epoch_events=10, min_free_bytes=0, reserve_bytes=65536)


@dataclass
class TickingClock:
    """One millisecond later at each look."""

    now_ms: int = START_MS

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


@dataclass
class FaultyDisk:
    """Fails the named operation `times` times, after `after` good ones; a full disk writes half of what it is given."""

    operation: str = ""
    number: int = errno.EIO
    after: int = 0
    times: int = 1 << 30
    done: list[str] = field(default_factory=list)
    real: LocalDisk = field(default_factory=LocalDisk)
    before_sync: Callable[[], None] = lambda: None

    def fail(self, operation: str, number: int = errno.EIO, *, after: int = 0, times: int = 1 << 30) -> None:
        self.operation, self.number, self.after, self.times = operation, number, after, times

    def write(self, descriptor: int, content: bytes) -> int:
        if self._due("write"):
            if self.number == errno.ENOSPC:
                return self.real.write(descriptor, content[: len(content) // 2])
            raise OSError(self.number, os.strerror(self.number))
        return self.real.write(descriptor, content)

    def write_at(self, descriptor: int, content: bytes, offset: int) -> int:
        self._raise_due("write_at")
        return self.real.write_at(descriptor, content, offset)

    def sync(self, descriptor: int) -> None:
        self._raise_due("sync")
        self.before_sync()
        self.real.sync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        self._raise_due("replace")
        self.real.replace(source, target)

    def free_bytes(self, directory: int) -> int:
        self._raise_due("free_bytes")
        return self.real.free_bytes(directory)

    def _raise_due(self, operation: str) -> None:
        if self._due(operation):
            raise OSError(self.number, os.strerror(self.number))

    def _due(self, operation: str) -> bool:
        self.done.append(operation)
        if operation != self.operation:
            return False
        self.after -= 1
        self.times -= self.after < 0
        return self.after < 0 <= self.times


@dataclass(frozen=True, kw_only=True)
class SmallLog:
    """A log in a directory of its own."""

    base: Path
    paths: AuditPaths
    secrets: LogSecrets
    clock: TickingClock

    @property
    def directory(self) -> Path:
        return self.paths.directory

    @property
    def pin(self) -> Pin:
        return Pin.load(self.paths.pin)

    @property
    def anchor(self) -> Anchor:
        return Anchor.load(self.paths.anchor)

    def root(self, message: bytes) -> bytes:
        """The vault's root key, as an unlocked vault lends it."""
        return Ed25519PrivateKey.from_private_bytes(self.secrets.root_seed.reveal()).sign(message)

    def open(self, *, limits: WriterLimits = SMALL, disk: Disk | None = None) -> AuditWriter:
        return AuditWriter.open(self.paths, clock=self.clock, disk=disk, limits=limits)

    @contextmanager
    def writer(self, *, limits: WriterLimits = SMALL, disk: Disk | None = None) -> Iterator[AuditWriter]:
        writer = self.open(limits=limits, disk=disk)
        try:
            yield writer
        finally:
            writer.close()

    def verdict(self, *, anchored: bool = True, checkpoint: bytes | None = None) -> Verdict:
        anchors = in_file(self.anchor if anchored else None)
        return verify(self.directory, pin=self.pin, anchors=anchors, checkpoint=checkpoint)

    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("*.seg"))


def paths_in(base: Path) -> AuditPaths:
    return AuditPaths(
        directory=base / "data" / "audit",
        pin=base / "data" / "audit.pin",
        anchor=base / "anchor" / "head",
        seeds=base / "data" / "audit-seed",
    )


def new_log(base: Path) -> SmallLog:
    paths, clock = paths_in(base), TickingClock()
    secrets = create_log(paths.directory, paths.anchor, paths.pin, paths.seeds, clock=clock)
    return SmallLog(base=base, paths=paths, secrets=secrets, clock=clock)


def an_event(number: int, *, name: EventName = EventName.ACTION_REQUESTED, text: str = "") -> AuditEvent:
    return AuditEvent(
        name=name,
        at_ms=START_MS + number,
        correlation_id=f"c-{number:06d}",
        session_id="s-1",
        fields={"number": number, "text": text},
    )


def write_events(writer: AuditWriter, count: int, *, first: int = 0) -> None:
    """One group commit each."""
    for number in range(first, first + count):
        writer.append_blocking(an_event(number))

"""The logs that the vectors are made of, each written by the writer that ships, as one that it left behind."""

import errno
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit import AuditError
from broker.audit.limits import WriterLimits
from broker.audit.seal import EpochReason
from broker.audit.writer import AuditWriter
from tests.fakes.logs import FaultyDisk, SmallLog, new_log, write_events

LIMITS = WriterLimits(segment_bytes=2200, epoch_events=6, min_free_bytes=0, reserve_bytes=4096)
LARGE = replace(LIMITS, segment_bytes=1 << 20)
TORN = bytes.fromhex("000001600300")


class Scene:
    """A log in the making, and what was kept of it elsewhere meanwhile."""

    def __init__(self, place: Path) -> None:
        self.log: SmallLog = new_log(place)
        self.notes: list[bytes] = []
        self.older = self.log.anchor
        self._written = 0

    @property
    def root(self) -> Callable[[bytes], bytes]:
        return Ed25519PrivateKey.from_private_bytes(self.log.secrets.root_seed.reveal()).sign

    def write(self, writer: AuditWriter, count: int) -> None:
        write_events(writer, count, first=self._written)
        self._written += count

    def note(self, writer: AuditWriter, *, countersigned: bool = False) -> None:
        """Keep a checkpoint, and the anchor of this moment."""
        self.notes.append(writer.checkpoint_blocking(self.root if countersigned else None))
        self.older = self.log.anchor

    def tear(self) -> None:
        last = self.log.segments()[-1]
        last.write_bytes(last.read_bytes() + TORN)

    def lose_seed(self) -> None:
        for path in self.log.paths.seeds.iterdir():
            path.unlink()

    def crash(self, writer: AuditWriter) -> None:
        """Leave the log as a killed process does."""
        base = self.log.base
        copy = Path(shutil.copytree(base, base.with_name("kept")))
        writer.close()
        shutil.rmtree(base)
        copy.rename(base)


def whole(scene: Scene) -> None:
    """Every record type, four segments, a recovered tear, a lock, and one epoch cut short by a crash."""
    with scene.log.writer(limits=LIMITS) as writer:
        scene.write(writer, 3)
        scene.note(writer)
    scene.tear()
    writer = scene.log.open(limits=LIMITS)
    scene.write(writer, 4)
    writer.new_epoch_blocking(EpochReason.LOCK)
    for _ in range(3):
        scene.write(writer, 1)
    scene.note(writer, countersigned=True)
    scene.write(writer, 1)
    scene.crash(writer)


def two_segments(scene: Scene) -> None:
    """Two segments, a clean stop."""
    with scene.log.writer(limits=LIMITS) as writer:
        scene.write(writer, 5)
        scene.note(writer)


def disk_full(scene: Scene) -> None:
    """The last words on a full disk."""
    disk = FaultyDisk()
    writer = scene.log.open(limits=LARGE, disk=disk)
    scene.write(writer, 3)
    scene.note(writer)
    disk.fail("write", errno.ENOSPC, times=1)
    with suppress(AuditError):
        scene.write(writer, 1)
    writer.close()


def torn(scene: Scene) -> None:
    """What a killed writer may leave."""
    writer = scene.log.open(limits=LARGE)
    scene.write(writer, 2)
    scene.note(writer)
    scene.write(writer, 1)
    scene.crash(writer)
    scene.tear()


def unendorsed(scene: Scene) -> None:
    """The seed was lost; two epochs later nobody has endorsed the key yet."""
    with scene.log.writer(limits=LARGE) as writer:
        scene.write(writer, 2)
        scene.note(writer)
    scene.lose_seed()
    writer = scene.log.open(limits=LARGE)
    scene.write(writer, 8)
    scene.crash(writer)


def endorsed_again(scene: Scene) -> None:
    """The same, then taken over by the root, then written on in another segment."""
    with scene.log.writer(limits=LIMITS) as writer:
        scene.write(writer, 2)
        scene.note(writer)
    scene.tear()
    scene.lose_seed()
    with scene.log.writer(limits=LIMITS) as writer:
        scene.write(writer, 8)
        writer.new_epoch_blocking(EpochReason.UNLOCK, scene.root)
        scene.write(writer, 3)
        scene.note(writer, countersigned=True)


def taken_over(scene: Scene) -> None:
    """An older log was put back, and a human took it over as it is: what was kept outside tells so for ever."""
    with scene.log.writer(limits=LARGE) as writer:
        scene.write(writer, 2)
    older = Path(shutil.copytree(scene.log.directory, scene.log.base / "older"))
    with scene.log.writer(limits=LARGE) as writer:
        scene.write(writer, 3)
        scene.note(writer)
    shutil.rmtree(scene.log.directory)
    older.rename(scene.log.directory)
    writer = scene.log.open(limits=LARGE)
    writer.readopt_blocking(scene.root)
    scene.write(writer, 5)
    writer.close()


SCENES: dict[str, Callable[[Scene], None]] = {
    "whole": whole,
    "two-segments": two_segments,
    "disk-full": disk_full,
    "torn": torn,
    "unendorsed": unendorsed,
    "endorsed-again": endorsed_again,
    "taken-over": taken_over,
}

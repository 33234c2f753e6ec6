"""Taking up an existing log for writing: lock, pin, anchor, end, seed, and the epoch that every start begins.

A log that is not as it was left is locked and not written to: it is suspended until the root key takes it over.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from broker.audit.anchor_file import AnchorFile
from broker.audit.appender import Appender, LogEnd
from broker.audit.disk import PRIVATE_FILE, Disk, lock_directory
from broker.audit.endorse import Sign
from broker.audit.epoch import EpochKey, FileSeeds, MakeSeedHome, SeedHome
from broker.audit.faults import AuditError, Suspension
from broker.audit.limits import WriterLimits
from broker.audit.payload import LogIdentity, Recovery
from broker.audit.pin import Anchor, AuditPaths, Pin
from broker.audit.recovery import FoundEnd, find_end
from broker.audit.segment import RESERVE
from broker.audit.takeover import find_end_for_takeover
from broker.audit.verdict import VerdictName

LOCK_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLog:
    """A log ready to be written to, and what was mended on the way."""

    appender: Appender
    recovered: str | None
    recovery: Recovery | None = None  # the torn tail that was cut, if any


class LockedLog:
    """A log whose directory we hold. `take_up` begins a writer's epoch; `release` lets the next writer in."""

    def __init__(
        self,
        paths: AuditPaths,
        *,
        clock: Callable[[], int],
        disk: Disk,
        limits: WriterLimits,
        seeds: MakeSeedHome | None = None,
    ) -> None:
        """Raises AuditError."""
        self._paths = paths
        self._clock = clock
        self._disk = disk
        self._limits = limits
        self.descriptor = lock_directory(paths.directory, wait_s=LOCK_WAIT_S)
        try:
            pin = Pin.load(paths.pin)
        except BaseException:
            self.release()
            raise
        self.log_id = pin.log_id
        self._identity = pin.identity()
        log_id = self._identity.log_id
        self._seeds: SeedHome = FileSeeds(paths.seeds, log_id, disk) if seeds is None else seeds(log_id)

    def release(self) -> None:
        os.close(self.descriptor)

    def take_up(self) -> OpenedLog | Suspension:
        """Go on where the log ends; a torn tail is cut. Raises AuditError where it is not the log that is wrong."""
        return self._told(self._take_up)

    def take_over(self, root: Sign) -> OpenedLog | Suspension:
        """Go on behind whatever is wrong with the log, on the root's word; no byte of it is lost. Raises AuditError."""
        return self._told(lambda: self._take_over(root))

    def _told(self, work: Callable[[], OpenedLog]) -> OpenedLog | Suspension:
        try:
            return work()
        except AuditError as fault:
            if fault.verdict is None:
                raise
            return Suspension(verdict=fault.verdict, note=str(fault))
        except OSError as cause:
            where = "" if cause.filename is None else f"{cause.filename}: "
            text = f"the audit log can't be opened for writing: {where}{cause.strerror or cause}"
            raise AuditError(text) from cause

    def _take_up(self) -> OpenedLog:
        anchor, unanchored = _anchor(self._paths.anchor)
        held = self._seeds.held()
        found = find_end(self._paths.directory, self._identity, anchor)
        key = _key_of_tail(held, found)
        appender = self._appender(found.end, key, anchored=anchor is not None)
        notes = [unanchored, _cut(found.recovery), None if key is not None else _LOST]
        begun = self._begun(appender, notes, lambda: appender.begin(recovery=found.recovery))
        return replace(begun, recovery=found.recovery)

    def _take_over(self, root: Sign) -> OpenedLog:
        anchor, _ = _anchor(self._paths.anchor)
        held = self._seeds.held()
        found = find_end_for_takeover(self._paths.directory, self._identity, anchor, held)
        appender = self._appender(found.end, None, anchored=anchor is not None)
        notes = ["the log was taken over", _cut(found.recovery)]
        if found.end.offset == 0:
            return self._begun(appender, notes, lambda: appender.begin_file(root=root))
        begun = self._begun(appender, notes, lambda: appender.begin(recovery=found.recovery, root=root))
        return replace(begun, recovery=found.recovery)

    def _appender(self, end: LogEnd, key: EpochKey | None, *, anchored: bool) -> Appender:
        if not anchored:
            _anchor_at(end, self._identity).save(self._paths.anchor, self._disk)
        _keep_reserve(self._paths.directory, self._limits.reserve_bytes)
        held = AnchorFile(self._paths.anchor, self._disk, log_id=self.log_id)
        try:
            return Appender(
                directory=self._paths.directory,
                identity=self._identity,
                end=end,
                key=key,
                seeds=self._seeds,
                anchor=held,
                disk=self._disk,
                clock=self._clock,
                limits=self._limits,
            )
        except OSError:
            held.close()
            raise

    def _begun(self, appender: Appender, notes: list[str | None], begin: Callable[[], None]) -> OpenedLog:
        try:
            begin()
            if appender.segment_is_full():
                appender.next_segment()
        except (OSError, AuditError):
            appender.close()
            raise
        told = [note for note in notes if note is not None]
        return OpenedLog(appender=appender, recovered="; ".join(told) or None)


_LOST = "the seed of the log's last epoch was lost: until the vault is unlocked nobody vouches for what is recorded"


def _anchor(path: Path) -> tuple[Anchor | None, str | None]:
    """A missing or damaged anchor stops nothing: whoever can remove it can also put an older one back."""
    if not os.path.lexists(path):
        return None, "the anchor was missing and was made anew"
    try:
        return Anchor.load(path), None
    except AuditError as fault:
        return None, f"the anchor was made anew: {fault}"


def _anchor_at(end: LogEnd, identity: LogIdentity) -> Anchor:
    return Anchor(
        log_id=identity.log_id.hex(),
        seq=max(0, end.seq - 1),
        segment=end.segment,
        offset=end.offset,
        head=end.head.hex(),
        epoch_key=end.epoch_key.hex(),
    )


def _key_of_tail(held: list[EpochKey], found: FoundEnd) -> EpochKey | None:
    """The held key that signed the log's end; None where it was lost.

    Another one, and the log is older than the key: it was rolled back. A key that nobody endorsed and that was to be
    the next is what a start leaves that found the seed lost, and died before it could say so.
    """
    for key in held:
        if key.public == found.end.epoch_key:
            return key if found.endorsed or not key.endorsed else replace(key, endorsed=False)
    if all(not key.endorsed and key.number == found.end.epoch + 1 for key in held):
        return None
    text = f"the log ends in epoch {found.end.epoch}, the key held is of epoch {held[-1].number}"
    raise AuditError(f"{text}: the log was rolled back or replaced", verdict=VerdictName.ROLLBACK)


def _keep_reserve(directory: Path, size_bytes: int) -> None:
    """Room for the last words; on a disk that is full already there is none, and writing says so soon enough."""
    path = directory / RESERVE
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, PRIVATE_FILE)
    except OSError as cause:
        if cause.errno in _ANOTHER_KIND:
            raise _no_reserve(path) from cause
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise _no_reserve(path)
        if status.st_size < size_bytes:
            os.write(descriptor, bytes(size_bytes))
    except OSError:
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


_ANOTHER_KIND = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})  # a link, a directory, a FIFO that nobody reads


def _no_reserve(path: Path) -> AuditError:
    text = f"{path} can't be used as the log's reserve: it is another's, or of another kind; move it away"
    return AuditError(text, verdict=VerdictName.UNREADABLE)


def _cut(recovery: Recovery | None) -> str | None:
    if recovery is None:
        return None
    where = f"segment {recovery.segment} offset {recovery.offset}"
    return f"{recovery.cut_bytes} bytes of an unfinished write were cut, {where}"

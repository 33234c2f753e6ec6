"""Taking up an existing log for writing: lock, pin, anchor, end, seed, and the epoch that every start begins."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.audit.appender import Appender
from broker.audit.disk import PRIVATE_FILE, Disk, lock_directory
from broker.audit.epoch import EpochKey, SeedStore
from broker.audit.faults import AuditError
from broker.audit.limits import WriterLimits
from broker.audit.pin import Anchor, AnchorFile, AuditPaths, Pin
from broker.audit.recovery import FoundEnd, find_end
from broker.audit.seal import EpochReason
from broker.audit.segment import RESERVE
from broker.audit.verdict import VerdictName

LOCK_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLog:
    """A log ready to be written to. `lock` is the directory's descriptor: closing it lets the next writer in."""

    appender: Appender
    lock: int
    log_id: str
    recovered: str | None


def open_log(paths: AuditPaths, *, clock: Callable[[], int], disk: Disk, limits: WriterLimits) -> OpenedLog:
    """Raises AuditError; its `verdict` is set where the log itself is the reason."""
    lock = lock_directory(paths.directory, wait_s=LOCK_WAIT_S)
    try:
        return _open(paths, lock, clock=clock, disk=disk, limits=limits)
    except BaseException as cause:
        os.close(lock)
        if isinstance(cause, OSError):
            raise AuditError(f"the audit log can't be opened for writing: {cause.strerror or cause}") from cause
        raise


def _open(paths: AuditPaths, lock: int, *, clock: Callable[[], int], disk: Disk, limits: WriterLimits) -> OpenedLog:
    pin = Pin.load(paths.pin)
    identity = pin.identity()
    anchor, unanchored = _anchor(paths.anchor)
    found = find_end(paths.directory, identity, anchor)
    seeds = SeedStore(paths.seeds, identity.log_id, disk)
    key = _key_of_tail(seeds.held(), found)
    seeds.destroy_all_but(key.number)
    if anchor is None:
        _anchor_at(found, pin.log_id).save(paths.anchor, disk)
    _keep_reserve(paths.directory, limits.reserve_bytes)
    held = AnchorFile(paths.anchor, disk)
    try:
        appender = Appender(
            directory=paths.directory,
            identity=identity,
            end=found.end,
            key=key,
            seeds=seeds,
            anchor=held,
            disk=disk,
            clock=clock,
            limits=limits,
        )
    except OSError:
        held.close()
        raise
    try:
        appender.new_epoch(EpochReason.START, recovery=found.recovery)
        if appender.segment_is_full():
            appender.next_segment()
    except OSError:
        appender.close()
        raise
    return OpenedLog(appender=appender, lock=lock, log_id=pin.log_id, recovered=_tell(found, unanchored))


def _anchor(path: Path) -> tuple[Anchor | None, str | None]:
    """A missing or damaged anchor stops nothing: whoever can remove it can also put an older one back."""
    if not os.path.lexists(path):
        return None, "the anchor was missing and was made anew"
    try:
        return Anchor.load(path), None
    except AuditError as fault:
        return None, f"the anchor was made anew: {fault}"


def _anchor_at(found: FoundEnd, log_id: str) -> Anchor:
    end = found.end
    return Anchor(
        log_id=log_id,
        seq=end.seq - 1,
        segment=end.segment,
        offset=end.offset,
        head=end.head.hex(),
        epoch_key=found.epoch_key.hex(),
    )


def _key_of_tail(held: list[EpochKey], found: FoundEnd) -> EpochKey:
    """The held key that signed the log's end. Another one, and the log is older than the key: it was rolled back."""
    for key in held:
        if key.public == found.epoch_key:
            return key
    if not held:
        raise AuditError("the seed of the log's last epoch is gone; restore it, or begin a new log")
    text = f"the log ends in epoch {found.end.epoch}, the key held is of epoch {held[-1].number}"
    raise AuditError(f"{text}: the log was rolled back or replaced", verdict=VerdictName.ROLLBACK)


def _keep_reserve(directory: Path, size_bytes: int) -> None:
    """Room for the last words; on a disk that is full already there is none, and writing says so soon enough."""
    descriptor = os.open(directory / RESERVE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if os.fstat(descriptor).st_size < size_bytes:
            os.write(descriptor, bytes(size_bytes))
    except OSError:
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _tell(found: FoundEnd, unanchored: str | None) -> str | None:
    notes = [] if unanchored is None else [unanchored]
    cut = found.recovery
    if cut is not None:
        notes.append(
            f"{cut.cut_bytes} bytes of an unfinished write were cut, segment {cut.segment} offset {cut.offset}"
        )
    return "; ".join(notes) or None

"""Finding the end of an existing log, and cutting off a torn tail without losing a byte of it.

Only what follows the last COMMIT is ever cut, and only after those bytes are durable in a file beside. What is no
torn tail (altered, truncated, forged, another log) is never repaired here: it is an AuditError with its verdict.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from broker.audit.appender import LogEnd
from broker.audit.disk import PRIVATE_FILE, open_regular, read_private_file, refuse_shared, sync_directory
from broker.audit.examine import Examination
from broker.audit.faults import AuditError
from broker.audit.findings import Finding
from broker.audit.ladder import Ladder, in_file
from broker.audit.payload import LogIdentity, Recovery
from broker.audit.pin import Anchor
from broker.audit.segment import SegmentFile, layout_of, number_of, segment_name
from broker.audit.verdict import VerdictName
from broker.core.chain import HASH_BYTES

_MAX_CUT_BYTES = 64 << 20
_MAX_FIRST_GROUP_BYTES = 8192
_TORN = re.compile(r"([0-9]{8})\.([0-9]{1,19})(?:\.([0-9]{1,9}))?\.torn")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEnd:
    """Where to go on, whether somebody vouched for the key there, and what was cut off."""

    end: LogEnd
    endorsed: bool  # as far as the last file tells
    recovery: Recovery | None


def find_end(directory: Path, identity: LogIdentity, anchor: Anchor | None, *, may_drop: bool = True) -> FoundEnd:
    """Examine the last file alone, cut a torn tail. Raises AuditError and OSError.

    `may_drop`: the last file may be taken away where its first group never became whole.
    """
    segments = segments_of(directory)
    examination = examine(segments[-1], identity, anchor)
    if len(segments) > 1 and _holds_nothing(examination) and may_drop:
        _drop_unbegun(segments[-1], anchor)
        segments = segments[:-1]
        examination = examine(segments[-1], identity, anchor)
    last = segments[-1]
    if examination.lineage is None:
        text = f"{last.name} does not begin with the SEGMENT record of this file of this log"
        raise AuditError(f"{text}; run `doorward audit verify`", verdict=VerdictName.ALTERED)
    if _is_torn(examination):
        proven = _proven(examination, last)
        _hold_against_anchor(examination, proven, anchor, directory)
        set_aside(last, proven.offset)
        examination = examine(last, identity, anchor)
    if examination.finding is not None:
        raise _not_as_left(last, examination.finding)
    end = _proven(examination, last)
    _hold_against_anchor(examination, end, anchor, directory)
    anchored = None if anchor is None else anchor.seq
    recovery = _recovery_at(directory, end.segment, end.offset, anchored)
    endorsed = examination.lineage is None or examination.lineage.unendorsed is None
    return FoundEnd(end=end, endorsed=endorsed, recovery=recovery)


def _drop_unbegun(path: Path, anchor: Anchor | None) -> None:
    """Take away a file whose first group never became whole; anything more than that group is no torn write."""
    number, size = number_of(path) or 0, path.lstat().st_size
    if size > _MAX_FIRST_GROUP_BYTES or (anchor is not None and anchor.segment >= number):
        text = f"{path.name} holds no readable SEGMENT record, though records were written to it"
        raise AuditError(f"{text}; run `doorward audit verify`", verdict=VerdictName.ALTERED)
    _copy_aside(path, 0)
    path.unlink()
    sync_directory(path.parent)


def segments_of(directory: Path) -> tuple[Path, ...]:
    """At least one. Raises AuditError, also where something lies there that does not belong there."""
    layout = layout_of(directory)
    if layout.foreign is not None:
        text = f"{directory / layout.foreign} does not belong there; move it away"
        raise AuditError(text, verdict=VerdictName.UNREADABLE)
    if not layout.segments:
        raise AuditError(f"{directory} holds no log; restore it", verdict=VerdictName.EMPTY_OR_MISSING)
    return layout.segments


def examine(path: Path, identity: LogIdentity, anchor: Anchor | None) -> Examination:
    """One file by itself, its SEGMENT record believed about all before it. Raises AuditError."""
    examination = Examination(identity=identity, ladder=Ladder(in_file(anchor)))
    try:
        file = SegmentFile(path)
    except OSError as cause:
        text = f"{path} can't be read: {cause.strerror or cause}"
        raise AuditError(text, verdict=VerdictName.UNREADABLE) from cause
    with file:
        refuse_shared(path, path.lstat())
        file.forget_cached()
        if file.number == 1 or examination.trust_start(file):
            examination.enter(file, last=True)
            examination.settle()
    return examination


def _holds_nothing(examination: Examination) -> bool:
    """No COMMIT in the file, and nothing found that a power cut does not explain."""
    signed = None if examination.lineage is None else examination.lineage.signed
    finding = examination.finding
    return signed is None and (finding is None or finding.verdict is VerdictName.TORN_OR_TAMPERED)


def _is_torn(examination: Examination) -> bool:
    finding, tail = examination.finding, examination.tail
    if finding is not None:
        return finding.verdict is VerdictName.TORN_OR_TAMPERED
    return tail is not None and (tail.stop.tail_bytes > 0 or not tail.settled)


def _not_as_left(path: Path, finding: Finding) -> AuditError:
    text = f"{path.name} at offset {finding.offset}, record {finding.seq}: {finding.note}"
    return AuditError(f"the log is not as it was left: {text}; run `doorward audit verify`", verdict=finding.verdict)


def _proven(examination: Examination, path: Path) -> LogEnd:
    lineage, chain = examination.lineage, examination.chain
    signed = None if lineage is None else lineage.signed
    if lineage is None or signed is None or chain is None:
        raise AuditError(f"{path} holds no committed record; restore it", verdict=VerdictName.TORN_OR_TAMPERED)
    return LogEnd(
        segment=signed.segment,
        offset=signed.offset,
        seq=signed.seq + 1,
        head=chain.head,
        epoch=chain.epoch,
        epoch_key=lineage.epoch_key,
        tree=examination.tree,
    )


def _hold_against_anchor(examination: Examination, end: LogEnd, anchor: Anchor | None, directory: Path) -> None:
    if anchor is None:
        return
    if examination.identity is not None and anchor.log_id != examination.identity.log_id.hex():
        raise AuditError(f"the anchor is of log {anchor.log_id}; restore the right one", verdict=VerdictName.WRONG_LOG)
    if anchor.seq >= end.seq:
        text = f"the anchor names record {anchor.seq}, the log ends at {end.seq - 1}"
        raise AuditError(f"{text}: acknowledged records are gone", verdict=VerdictName.TRUNCATED)
    fits = examination.ladder.same_head()
    if fits is None:
        fits = _hash_before(directory / segment_name(anchor.segment), anchor.offset) == anchor.head
    if not fits:
        text = f"record {anchor.seq} is not the anchored one"
        raise AuditError(f"{text}: the log was rewritten or rolled back", verdict=VerdictName.ROLLBACK)


def _hash_before(path: Path, offset: int) -> str:
    """The hash of the record that ends there in an earlier file."""
    try:
        with SegmentFile(path) as file:
            return file.read(max(0, offset - HASH_BYTES), HASH_BYTES).hex()
    except OSError:
        return ""


def set_aside(path: Path, offset: int) -> None:
    """Take what follows the offset out of the log, once a file beside has it. Raises AuditError and OSError."""
    _copy_aside(path, offset)
    _cut(path, offset)


def _copy_aside(path: Path, offset: int) -> None:
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size - offset
        if size > _MAX_CUT_BYTES:
            raise AuditError(
                f"{path} has {size} bytes after its last COMMIT; that is no torn write", verdict=VerdictName.ALTERED
            )
        torn = os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)
    if torn:
        _keep(_free_torn_path(path.parent, number_of(path) or 0, offset), torn)
        sync_directory(path.parent)


def _keep(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(f"no room to keep the torn bytes in {path}")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cut(path: Path, offset: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free_torn_path(directory: Path, segment: int, offset: int) -> Path:
    taken = _torn_files(directory, segment, offset)
    suffix = f".{taken[-1][0] + 1}" if taken else ""
    return directory / f"{segment:08d}.{offset}{suffix}.torn"


def _torn_files(directory: Path, segment: int, offset: int) -> list[tuple[int, Path]]:
    """The files of bytes cut off at this place with their numbers, oldest first."""
    found: list[tuple[int, Path]] = []
    for path in directory.iterdir():
        match = _TORN.fullmatch(path.name)
        if match is not None and (int(match[1]), int(match[2])) == (segment, offset):
            found.append((int(match[3] or 0), path))
    return sorted(found)


def _recovery_at(directory: Path, segment: int, offset: int, anchored_seq: int | None) -> Recovery | None:
    """What was cut off right where the log ends now, though an earlier start may have died before it said so."""
    for place in ((segment, offset), (segment + 1, 0)):
        for _, path in reversed(_torn_files(directory, *place)):
            content = _torn_bytes(path)
            if not content:
                continue  # whoever made it cut nothing: a start that died at once, or somebody else
            return Recovery(
                segment=place[0],
                offset=place[1],
                cut_bytes=len(content),
                sha256=hashlib.sha256(content).digest(),
                anchored_seq=anchored_seq,
            )
    return None


def _torn_bytes(path: Path) -> bytes:
    """Raises AuditError where somebody else put something under such a name."""
    try:
        return read_private_file(path, max_bytes=_MAX_CUT_BYTES)
    except AuditError as fault:
        text = f"{fault}, so these are no bytes that were cut off; move it away"
        raise AuditError(text, verdict=VerdictName.UNREADABLE) from fault

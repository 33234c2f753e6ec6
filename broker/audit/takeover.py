"""Where a log goes on that is not as it was left, once a human took it over with the root key.

No byte is lost and nothing whole is ever cut: what is broken at the very end, with no whole COMMIT after it, goes into
a file beside, as a torn tail does. Where whole records follow the break the log goes on in the next file, which says
of the records before it what is still known: a number beyond them all, and peaks of zeros for a tree that is not.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.audit.appender import LogEnd
from broker.audit.epoch import EpochKey
from broker.audit.examine import Examination
from broker.audit.faults import AuditError
from broker.audit.merkle import MerkleTree
from broker.audit.payload import KEY_BYTES, LogIdentity
from broker.audit.pin import Anchor
from broker.audit.recovery import FoundEnd, examine, find_end, segments_of, set_aside
from broker.audit.segment import MAX_SEGMENT_BYTES, SegmentFile, number_of
from broker.audit.verdict import VerdictName
from broker.core.chain import HASH_BYTES, Header, RecordType, parse_header

_BEGINNING = re.compile(rb"(?=\0[\0-\x10]..[\1-\x08]\0\0\0)", re.DOTALL)  # length, type, flags, reserved
_MAX_HASHED_BYTES = 1 << 30  # of beginnings that turn out to be none


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remains:
    """What is whole behind a break: records that fit their hash and the one before it, whatever is between them."""

    last: Header | None
    head: bytes
    committed: bool


def find_end_for_takeover(
    directory: Path, identity: LogIdentity, anchor: Anchor | None, held: Sequence[EpochKey]
) -> FoundEnd:
    """Raises AuditError where something stands in the way that only a human can move, and OSError."""
    known = anchor if anchor is not None and anchor.log_id == identity.log_id.hex() else None
    try:
        files = segments_of(directory)
    except AuditError as fault:
        if fault.verdict is not VerdictName.EMPTY_OR_MISSING or known is None:
            raise
        return FoundEnd(end=_behind_nothing(known, held), endorsed=True, recovery=None)
    begun = known is not None and known.segment >= (number_of(files[-1]) or 0)
    try:
        return find_end(directory, identity, None, may_drop=not begun and not _remains(files[-1], 0).committed)
    except AuditError as fault:
        if fault.verdict in {None, VerdictName.UNREADABLE}:
            raise
    last = segments_of(directory)[-1]
    examination = examine(last, identity, None)
    signed = None if examination.lineage is None else examination.lineage.signed
    broken_at = 0 if examination.finding is None else examination.finding.offset
    remains = _remains(last, broken_at)
    if signed is not None and not remains.committed and last.lstat().st_size - signed.offset <= MAX_SEGMENT_BYTES:
        set_aside(last, signed.offset)
        return find_end(directory, identity, None, may_drop=False)
    end = _behind(last, examination, remains, identity, known, held)
    return FoundEnd(end=end, endorsed=True, recovery=None)


def _remains(path: Path, offset: int) -> _Remains:
    """Raises OSError."""
    with SegmentFile(path) as file:
        content = file.read(0, MAX_SEGMENT_BYTES)
    last, head, committed, hashed_bytes = None, b"", False, 0
    found = _BEGINNING.search(content, offset)
    while found is not None and hashed_bytes < _MAX_HASHED_BYTES:
        at = found.start()
        header = parse_header(content, at)
        end = at + 1
        if header is not None and HASH_BYTES <= at <= len(content) - header.record_bytes:
            stop = at + header.record_bytes
            hashed_bytes += header.record_bytes
            stored = content[stop - HASH_BYTES : stop]
            if hashlib.sha256(content[at - HASH_BYTES : stop - HASH_BYTES]).digest() == stored:
                last, head, end = header, stored, stop
                committed = committed or header.kind is RecordType.COMMIT
        found = _BEGINNING.search(content, end)
    return _Remains(last=last, head=head, committed=committed)


def _behind(
    path: Path,
    examination: Examination,
    remains: _Remains,
    identity: LogIdentity,
    anchor: Anchor | None,
    held: Sequence[EpochKey],
) -> LogEnd:
    """In the file after this one, with a number and an epoch that nothing before it has."""
    chain, lineage, last = examination.chain, examination.lineage, remains.last
    seqs = [0 if chain is None else chain.seq]
    seqs += [] if last is None else [last.seq + 1]
    seqs += [] if anchor is None else [anchor.seq + 1]
    epochs = [0 if chain is None else chain.epoch, 0 if last is None else last.epoch, *_numbers(held)]
    return LogEnd(
        segment=(number_of(path) or 0) + 1,
        offset=0,
        seq=max(seqs),
        head=remains.head or (identity.genesis() if chain is None else chain.head),
        epoch=max(epochs),
        epoch_key=identity.first_epoch_key if lineage is None else lineage.epoch_key,
        tree=_unknown_tree(max(seqs)),
    )


def _behind_nothing(anchor: Anchor, held: Sequence[EpochKey]) -> LogEnd:
    """Every file is gone: what the anchor knows is all that there is."""
    return LogEnd(
        segment=anchor.segment + 1,
        offset=0,
        seq=anchor.seq + 1,
        head=bytes.fromhex(anchor.head),
        epoch=max([0, *_numbers(held)]),
        epoch_key=bytes.fromhex(anchor.epoch_key),
        tree=_unknown_tree(anchor.seq + 1),
    )


def _numbers(held: Sequence[EpochKey]) -> list[int]:
    return [key.number for key in held]


def _unknown_tree(size: int) -> MerkleTree:
    return MerkleTree(size, [bytes(KEY_BYTES)] * size.bit_count())

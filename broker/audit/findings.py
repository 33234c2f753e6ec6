"""Giving what a walk met its name: altered, out of order, missing, cut short, or merely torn.

Called where the strict parser stopped; looks ahead in bounded windows and decides nothing about signatures.
"""

from dataclasses import dataclass

from broker.audit.payload import MAGIC, LogIdentity, StartingHead
from broker.audit.segment import SegmentFile, segment_name
from broker.audit.verdict import VerdictName
from broker.audit.walk import Stop, Walk
from broker.core.chain import (
    HEADER_BYTES,
    MAX_GROUP_BYTES,
    SEGMENT_FIXED_BYTES,
    SIGNATURE_BYTES,
    Chain,
    Damage,
    Fault,
    Place,
    RecordType,
    find_record,
    header_of,
    parse_header,
)

_FIRST_BYTES = header_of(RecordType.SEGMENT, epoch=0, seq=0, payload_bytes=SEGMENT_FIXED_BYTES)

_COMMIT_BEGINS = header_of(RecordType.COMMIT, epoch=0, seq=0, payload_bytes=SIGNATURE_BYTES)[:8]
_BLOCK_BYTES = 512  # reach a disk whole or not at all
_LEAST_MISSING_BYTES = 3  # a record may begin with two zeros
_MAY_BE_TORN = frozenset({VerdictName.ALTERED, VerdictName.REORDERED, VerdictName.GAP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, and the first bad record."""

    verdict: VerdictName
    segment: str
    offset: int
    seq: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """A name for what happened, without its place."""

    verdict: VerdictName
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the walk that stopped may rely on."""

    last: bool  # no file follows this one
    committed: int | None  # the last COMMIT before the place where the walk stopped
    acknowledged: int | None  # the last record that anything outside vouches for; None without such knowledge
    anchored: int | None = None  # the last record that an anchor names


def is_foreign(start: bytes) -> bool:
    """Neither the header nor the magic of a log's first record is there: not a damaged log, but no log."""
    header, magic = start[:HEADER_BYTES], start[HEADER_BYTES : HEADER_BYTES + len(MAGIC)]
    whole = len(start) >= HEADER_BYTES + len(MAGIC)
    return not (_FIRST_BYTES.startswith(header) or (whole and magic == MAGIC))


def name_entry(found: StartingHead, *, identity: LogIdentity, chain: Chain, number: int) -> Fate | None:
    """What a file's own first record says against its place in this log; None where it fits."""
    head = found.head
    if head.identity != identity:
        return Fate(verdict=VerdictName.WRONG_LOG, note=f"it belongs to log {head.identity.log_id.hex()}")
    if head.number != number:
        return Fate(verdict=VerdictName.REORDERED, note=f"it was written as {segment_name(head.number)}")
    if found.seq > chain.seq:
        return Fate(verdict=VerdictName.GAP, note=f"records {chain.seq} to {found.seq - 1} are missing before it")
    if found.seq < chain.seq:
        return Fate(verdict=VerdictName.REORDERED, note=f"it begins at record {found.seq}, {chain.seq} was due")
    if head.previous != chain.head:
        return Fate(verdict=VerdictName.ALTERED, note="it continues another history than the file before it")
    return None


def name_stop(walk: Walk, stop: Stop, chain: Chain, file: SegmentFile, known: Knowledge) -> Fate | None:
    """Why the walk stopped where it did; None for a clean end, or a tail that a power cut can leave."""
    fate = _name(walk, stop, chain, file, known)
    if fate is not None and fate.verdict in _MAY_BE_TORN and _is_torn_group(stop, chain, file, known):
        return Fate(verdict=VerdictName.TORN_OR_TAMPERED, note="a write of which a part is missing, or zeros put there")
    return fate


def _name(walk: Walk, stop: Stop, chain: Chain, file: SegmentFile, known: Knowledge) -> Fate | None:
    if stop.damage is not None:
        return _name_damage(walk, stop, stop.damage, chain, known)
    if stop.tail_bytes and _rest_holds(walk, chain.seq + 1):
        return Fate(verdict=VerdictName.ALTERED, note="a length reaches past the records that follow")
    if not known.last and (stop.tail_bytes or chain.place is Place.FILE_START):
        what = "ends inside a record" if file.size_bytes else "is empty"
        return Fate(verdict=VerdictName.TRUNCATED, note=f"the file {what}, and another file follows")
    return None


def _name_damage(walk: Walk, stop: Stop, damage: Damage, chain: Chain, known: Knowledge) -> Fate | None:
    torn = False
    match damage.fault:
        case Fault.SEQUENCE:
            moved = damage.seq is None or damage.seq < chain.seq or _rest_holds(walk, chain.seq)
            return Fate(verdict=VerdictName.REORDERED if moved else VerdictName.GAP, note=damage.note)
        case Fault.MALFORMED:
            zeros = known.last and _zeros_first(walk)
            if zeros and _only_zeros(walk):
                return None
            torn = zeros and _beyond_anchor(stop, known)
        case Fault.HASH:
            unacknowledged = known.acknowledged is None or known.acknowledged < chain.seq
            closes_file = known.last and unacknowledged and _is_last_frame(walk, stop)
            torn = closes_file or (known.last and _beyond_anchor(stop, known))
        case Fault.NUMBER | Fault.ORDER:
            pass
    verdict = VerdictName.TORN_OR_TAMPERED if torn else VerdictName.ALTERED
    return Fate(verdict=verdict, note=damage.note)


def _beyond_anchor(stop: Stop, known: Knowledge) -> bool:
    """All that was acknowledged stands before the damage, and no more follows than one group commit writes."""
    ends_there = known.anchored is not None and known.anchored == known.committed == known.acknowledged
    return ends_there and stop.tail_bytes <= MAX_GROUP_BYTES


def _is_torn_group(stop: Stop, chain: Chain, file: SegmentFile, known: Knowledge) -> bool:
    """Whether a power cut may have left this: a group that nobody vouches for, the log's last, with a block missing."""
    vouched = known.acknowledged is not None and known.acknowledged >= chain.seq
    if not known.last or vouched or stop.tail_bytes > MAX_GROUP_BYTES:
        return False
    rest = file.read(stop.offset, stop.tail_bytes)
    header = parse_header(rest)
    frame_bytes = len(rest) if header is None else min(len(rest), header.record_bytes)
    return _misses_block(rest, stop.offset, frame_bytes) and not _has_commit_inside(rest)


def _misses_block(rest: bytes, offset: int, frame_bytes: int) -> bool:
    """Whether the record in question has a part in a block of the file that is zeros as far as the group reaches."""
    start, end = 0, _BLOCK_BYTES - offset % _BLOCK_BYTES
    while start < frame_bytes:
        block = rest[start:end]
        if len(block) >= _LEAST_MISSING_BYTES and not any(block):
            return True
        start, end = end, end + _BLOCK_BYTES
    return False


def _has_commit_inside(rest: bytes) -> bool:
    """Whether a COMMIT stands before the end: then the group is older than the log's last one."""
    found = rest.find(_COMMIT_BEGINS)
    while found >= 0:
        header = parse_header(rest, found)
        if header is not None and found + header.record_bytes < len(rest):
            return True
        found = rest.find(_COMMIT_BEGINS, found + 1)
    return False


def _is_last_frame(walk: Walk, stop: Stop) -> bool:
    header = parse_header(walk.peek(HEADER_BYTES))
    return header is not None and stop.tail_bytes == header.record_bytes


def _zeros_first(walk: Walk) -> bool:
    start = walk.peek(HEADER_BYTES)
    return not any(start)


def _only_zeros(walk: Walk) -> bool:
    return not any(window.strip(b"\0") for window in walk.rest())


def _rest_holds(walk: Walk, seq: int) -> bool:
    return any(find_record(window, seq) >= 0 for window in walk.rest())

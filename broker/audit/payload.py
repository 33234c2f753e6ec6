"""What stands in the clear payloads: SEGMENT, EPOCH, RECOVERY and END, each packed and strictly unpacked here.

A payload whose reserved bytes are not zero, or whose own statement contradicts its place, is no payload: the
functions answer None and the caller says what that means.
"""

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum

from broker.core.chain import (
    HASH_BYTES,
    HEADER_BYTES,
    SEGMENT_FIXED_BYTES,
    RecordType,
    genesis,
    parse_header,
)

MAGIC = b"doorward/audit/1"
LOG_ID_BYTES = 8
KEY_BYTES = 32
MAX_HEAD_BYTES = HEADER_BYTES + SEGMENT_FIXED_BYTES + 65 * HASH_BYTES  # no SEGMENT record is longer
NO_SEQ = (1 << 64) - 1

_SEGMENT = struct.Struct(">16s8sII32s32s32s32s32s")
_EPOCH = struct.Struct(">B7x32s64s112s")
_RECOVERY = struct.Struct(">I4xQQ32sQ")
_END = struct.Struct(">B7x")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIdentity:
    """What the genesis hash binds: whose log this is. All of it is public."""

    log_id: bytes
    audit_key: bytes
    first_epoch_key: bytes
    root_key: bytes

    def genesis(self) -> bytes:
        return genesis(
            log_id=self.log_id, audit_key=self.audit_key, first_epoch_key=self.first_epoch_key, root_key=self.root_key
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHead:
    """The first record of each file: enough to check this file by itself, and to go on writing without the others."""

    identity: LogIdentity
    number: int
    epoch_key: bytes  # the verify key in force before this file's own EPOCH
    previous: bytes
    peaks: tuple[bytes, ...]  # the Merkle tree over all records before this one

    def pack(self) -> bytes:
        who = self.identity
        keys = (who.audit_key, who.first_epoch_key, who.root_key, self.epoch_key, self.previous)
        return _SEGMENT.pack(MAGIC, who.log_id, self.number, 0, *keys) + b"".join(self.peaks)


def unpack_segment(payload: bytes) -> SegmentHead | None:
    magic, log_id, number, zero, audit, first, root, current, previous = _SEGMENT.unpack_from(payload)
    if magic != MAGIC or zero:
        return None
    rest = payload[SEGMENT_FIXED_BYTES:]
    return SegmentHead(
        identity=LogIdentity(log_id=log_id, audit_key=audit, first_epoch_key=first, root_key=root),
        number=number,
        epoch_key=current,
        previous=previous,
        peaks=tuple(rest[at : at + HASH_BYTES] for at in range(0, len(rest), HASH_BYTES)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingHead:
    """A SEGMENT record read on its own word."""

    head: SegmentHead
    seq: int
    epoch: int


def consistent_head(start: bytes) -> StartingHead | None:
    """The head of the SEGMENT record that a file starts with, if it fits its own hash and the one it names before it.

    It is looked at before the chain reaches it, to tell a file of another place or log from an altered one.
    """
    header = parse_header(start)
    if header is None or header.kind is not RecordType.SEGMENT or len(start) < header.record_bytes:
        return None
    end = header.record_bytes - HASH_BYTES
    head = unpack_segment(start[HEADER_BYTES:end])
    if head is None or hashlib.sha256(head.previous + start[:end]).digest() != start[end : end + HASH_BYTES]:
        return None
    return StartingHead(head=head, seq=header.seq, epoch=header.epoch)


class Endorser(IntEnum):
    """Whose signature brings an epoch's key in."""

    EPOCH = 1  # the key of the epoch before
    ROOT = 2  # the vault's root key
    NOBODY = 3  # a lineage begun while the seed was lost and the vault locked; nothing in it is proven before ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    endorser: Endorser
    key: bytes
    signature: bytes
    sealed: bytes

    def pack(self) -> bytes:
        return _EPOCH.pack(self.endorser, self.key, self.signature, self.sealed)


def unpack_epoch(payload: bytes) -> EpochEntry | None:
    endorser, key, signature, sealed = _EPOCH.unpack(payload)
    if endorser not in _ENDORSERS or any(payload[1:8]):
        return None
    return EpochEntry(endorser=Endorser(endorser), key=key, signature=signature, sealed=sealed)


_ENDORSERS = frozenset(int(endorser) for endorser in Endorser)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What a writer cut off when it found a torn tail, and how far the anchor went then."""

    segment: int
    offset: int
    cut_bytes: int
    sha256: bytes
    anchored_seq: int | None

    def pack(self) -> bytes:
        anchored = NO_SEQ if self.anchored_seq is None else self.anchored_seq
        return _RECOVERY.pack(self.segment, self.offset, self.cut_bytes, self.sha256, anchored)

    def may_stand_at(self, segment: int, offset: int) -> bool:
        """Right where it cut, or at the end of the file before one that held nothing committed."""
        return (self.segment, self.offset) in {(segment, offset), (segment + 1, 0)}


def unpack_recovery(payload: bytes) -> Recovery | None:
    segment, offset, cut_bytes, sha256, anchored = _RECOVERY.unpack(payload)
    if any(payload[4:8]):
        return None
    return Recovery(
        segment=segment,
        offset=offset,
        cut_bytes=cut_bytes,
        sha256=sha256,
        anchored_seq=None if anchored == NO_SEQ else anchored,
    )


class EndReason(IntEnum):
    STOP = 1  # a clean stop
    DISK_FULL = 2  # the last words, written into the room that the reserve gave back


def pack_end(reason: EndReason) -> bytes:
    return _END.pack(reason)


def unpack_end(payload: bytes) -> EndReason | None:
    if payload[0] not in _END_REASONS or any(payload[1:]):
        return None
    return EndReason(payload[0])


_END_REASONS = frozenset(int(reason) for reason in EndReason)


def commit_message(log_id: bytes, previous: bytes, header: bytes) -> bytes:
    """What a COMMIT signs: the hash of the record before it, in this log, at this number, in this epoch."""
    return _COMMIT_DOMAIN + log_id + previous + header


_COMMIT_DOMAIN = b"doorward/audit/commit/v1\0"

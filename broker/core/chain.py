"""The records of the audit log: one strict parser, the hash chain, and which record may follow which.

Writer, verifier and reader all come through here, so that no byte is accepted by one and refused by another.
Every accepted byte is hashed; nothing is skipped, guessed or re-serialised. It knows no keys and reads no files:
signatures and sealed payloads are the business of broker/audit. docs/audit-format.md is the normative text.
"""

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum, StrEnum

HEADER = struct.Struct(">IBBHIQ")  # body_len, type, flags, reserved, epoch, seq
HEADER_BYTES = HEADER.size
LENGTH_BYTES = 4  # body_len counts what follows it, up to the hash
HASH_BYTES = 32
SIGNATURE_BYTES = 64
MIN_BODY = 16
MAX_BODY = 1 << 20
MAX_GROUP_BYTES = 4 << 20  # one group commit; also the most that a torn tail can hold
MAX_SEQ = (1 << 63) - 1

BLOCK_BYTES = 64  # plaintext is padded to a multiple of this
TAG_BYTES = 16
SEGMENT_FIXED_BYTES = 192
EPOCH_BYTES = 216
RECOVERY_BYTES = 64
END_BYTES = 8
MAX_CHECKPOINT_BYTES = 8192

_GENESIS = b"doorward/audit/genesis/v1\0"
_FAST = struct.Struct(">IQQ")  # body_len, (type, flags, reserved, epoch) as one number, seq
_COMMIT_BODY = MIN_BODY + SIGNATURE_BYTES
_EVENT_MIN_BODY = MIN_BODY + BLOCK_BYTES + TAG_BYTES
_EVENT_RESIDUE = (MIN_BODY + TAG_BYTES) % BLOCK_BYTES


class RecordType(IntEnum):
    SEGMENT = 1
    EPOCH = 2
    EVENT = 3
    COMMIT = 4
    CHECKPOINT = 5
    RECOVERY = 6
    RETENTION = 7  # reserved; no record of this version has it
    END = 8


_KINDS = frozenset(int(kind) for kind in RecordType if kind is not RecordType.RETENTION)


class Fault(StrEnum):
    """What is wrong with the bytes where the next record should begin."""

    MALFORMED = "malformed"  # length, type, flags or reserved bits that no record has
    SEQUENCE = "sequence"  # a well-formed record, but not the next one
    NUMBER = "number"  # the next record, but for its number: with the due one the hash fits
    HASH = "hash"  # the stored hash is not the hash of these bytes in this place
    ORDER = "order"  # the hash holds, but such a record may not stand here


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    fault: Fault
    note: str
    seq: int | None = None  # the number the record itself claims, for SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record whose framing, number, hash and place are right. Its signature or seal is not yet checked."""

    kind: RecordType
    epoch: int
    seq: int
    previous: bytes
    header: bytes
    payload: bytes
    hash: bytes

    @property
    def size_bytes(self) -> int:
        return HEADER_BYTES + len(self.payload) + HASH_BYTES


def genesis(*, log_id: bytes, audit_key: bytes, first_epoch_key: bytes, root_key: bytes) -> bytes:
    """The hash before the first record: it binds the whole chain to the log's identity and public keys."""
    return hashlib.sha256(_GENESIS + log_id + audit_key + first_epoch_key + root_key).digest()


def header_of(kind: RecordType, *, epoch: int, seq: int, payload_bytes: int) -> bytes:
    return HEADER.pack(MIN_BODY + payload_bytes, kind, 0, 0, epoch, seq)


def seal_record(header: bytes, payload: bytes, previous: bytes) -> tuple[bytes, bytes]:
    """The record's exact bytes on disk, and its hash."""
    front = header + payload
    digest = hashlib.sha256(previous + front).digest()
    return front + digest, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The numbers of a well-formed header. Whether the record belongs where it stands is not said."""

    kind: RecordType
    epoch: int
    seq: int
    body_bytes: int

    @property
    def record_bytes(self) -> int:
        return LENGTH_BYTES + self.body_bytes + HASH_BYTES


def parse_header(window: bytes, at: int = 0) -> Header | None:
    """None where no well-formed header stands there."""
    if len(window) - at < HEADER_BYTES:
        return None
    body, kind, flags, reserved, epoch, seq = HEADER.unpack_from(window, at)
    if _malformed(body, kind, flags, reserved, seq):
        return None
    return Header(kind=RecordType(kind), epoch=epoch, seq=seq, body_bytes=body)


def payload_fits(kind: int, payload_bytes: int, seq: int) -> bool:
    """Each type has its lengths, so that most altered lengths are refused before a byte of payload is read."""
    match kind:
        case RecordType.EVENT:
            return payload_bytes >= BLOCK_BYTES + TAG_BYTES and payload_bytes % BLOCK_BYTES == TAG_BYTES
        case RecordType.COMMIT:
            return payload_bytes == SIGNATURE_BYTES
        case RecordType.EPOCH:
            return payload_bytes == EPOCH_BYTES
        case RecordType.SEGMENT:
            return payload_bytes == SEGMENT_FIXED_BYTES + HASH_BYTES * seq.bit_count()
        case RecordType.CHECKPOINT:
            return 0 < payload_bytes <= MAX_CHECKPOINT_BYTES
        case RecordType.RECOVERY:
            return payload_bytes == RECOVERY_BYTES
        case RecordType.END:
            return payload_bytes == END_BYTES
        case _:
            return False


class Place(StrEnum):
    """What the last record was: it decides what may come next."""

    FILE_START = "file_start"
    SEGMENT = "segment"
    EPOCH = "epoch"
    EVENT = "event"
    CHECKPOINT = "checkpoint"
    RECOVERY = "recovery"
    END = "end"
    COMMITTED = "committed"
    STOPPED = "stopped"  # the COMMIT after an END


_FOLLOWERS: dict[Place, frozenset[RecordType]] = {
    Place.FILE_START: frozenset({RecordType.SEGMENT}),
    Place.SEGMENT: frozenset({RecordType.EPOCH}),
    Place.EPOCH: frozenset({RecordType.EVENT, RecordType.CHECKPOINT, RecordType.COMMIT}),
    Place.EVENT: frozenset({RecordType.EVENT, RecordType.CHECKPOINT, RecordType.COMMIT}),
    Place.CHECKPOINT: frozenset({RecordType.EVENT, RecordType.EPOCH, RecordType.END, RecordType.COMMIT}),
    Place.RECOVERY: frozenset({RecordType.EPOCH}),
    Place.END: frozenset({RecordType.COMMIT}),
    Place.COMMITTED: frozenset({RecordType.EVENT, RecordType.CHECKPOINT, RecordType.EPOCH, RecordType.RECOVERY}),
    Place.STOPPED: frozenset({RecordType.EPOCH, RecordType.RECOVERY}),
}
_PLACE_AFTER = {
    RecordType.SEGMENT: Place.SEGMENT,
    RecordType.EPOCH: Place.EPOCH,
    RecordType.EVENT: Place.EVENT,
    RecordType.CHECKPOINT: Place.CHECKPOINT,
    RecordType.RECOVERY: Place.RECOVERY,
    RecordType.END: Place.END,
}
_FAST_PLACES = frozenset({Place.EPOCH, Place.EVENT, Place.CHECKPOINT, Place.COMMITTED})
SETTLED = frozenset({Place.COMMITTED, Place.STOPPED})  # nothing stands unsigned


class Chain:
    """Where a walk along the log stands: the last hash, the next number, the epoch, and what may follow."""

    __slots__ = ("epoch", "head", "place", "seq")

    def __init__(self, *, head: bytes, seq: int = 0, epoch: int = 0, place: Place = Place.FILE_START) -> None:
        self.head = head
        self.seq = seq
        self.epoch = epoch
        self.place = place

    def copy(self) -> "Chain":
        return Chain(head=self.head, seq=self.seq, epoch=self.epoch, place=self.place)

    def enter_file(self) -> bool:
        """Go on in the next segment file. False where the last one broke off inside a group."""
        settled = self.place in SETTLED
        self.place = Place.FILE_START
        return settled

    def take(self, window: bytes, at: int, *, final: bool) -> Record | Damage | None:
        """The next record, which must begin at `at`; None where the window ends inside a record that may be right.

        `final` says that no more bytes follow the window. The chain moves on only with a record.
        """
        if len(window) - at < HEADER_BYTES:
            return self._short(window[at:]) if final else None
        body, kind, flags, reserved, epoch, seq = HEADER.unpack_from(window, at)
        if malformed := _malformed(body, kind, flags, reserved, seq):
            return Damage(fault=Fault.MALFORMED, note=malformed)
        end = at + LENGTH_BYTES + body
        complete = len(window) >= end + HASH_BYTES
        if not complete and not final:
            return None
        if seq != self.seq:
            return self._out_of_sequence(window[at : end + HASH_BYTES], seq)
        due = self.epoch + 1 if kind == RecordType.EPOCH else self.epoch
        if not complete:
            return None if epoch == due else Damage(fault=Fault.MALFORMED, note=f"epoch {epoch} where {due} was due")
        stored = window[end : end + HASH_BYTES]
        if hashlib.sha256(self.head + window[at:end]).digest() != stored:
            return Damage(fault=Fault.HASH, note="the hash does not fit the bytes")
        if epoch != due:
            return Damage(fault=Fault.ORDER, note=f"epoch {epoch} where {due} was due")
        if kind not in _FOLLOWERS[self.place]:
            return Damage(fault=Fault.ORDER, note=f"{RecordType(kind).name} may not follow {self.place}")
        header = window[at : at + HEADER_BYTES]
        return self._advance(RecordType(kind), epoch, header, window[at + HEADER_BYTES : end], stored)

    def run(self, window: bytes, at: int, hashes: list[bytes]) -> tuple[int, int]:
        """Take EVENT and COMMIT records as fast as Python can, and stop in front of anything else.

        It accepts exactly what `take` accepts. The bytes before `at` must be the record before. Adds each hash to
        `hashes`; gives the new position and where the last COMMIT began (-1: there was none).
        """
        commit_at = -1
        if self.place not in _FAST_PLACES or window[at - HASH_BYTES : at] != self.head:
            return at, commit_at
        unpack, sha256, add, before = _FAST.unpack_from, hashlib.sha256, hashes.append, len(hashes)
        event_mark = (RecordType.EVENT << 56) | self.epoch
        commit_mark = (RecordType.COMMIT << 56) | self.epoch
        size, due, grouped, fitting = len(window), self.seq, self.place is not Place.COMMITTED, 0
        last_start = size - HEADER_BYTES
        while at <= last_start:
            body, mark, seq = unpack(window, at)
            end = at + LENGTH_BYTES + body
            after = end + HASH_BYTES
            if seq != due or after > size:
                break
            if is_event := mark == event_mark:
                if body != fitting:
                    if body & (BLOCK_BYTES - 1) != _EVENT_RESIDUE or not _EVENT_MIN_BODY <= body <= MAX_BODY:
                        break
                    fitting = body  # most events are as long as the one before
            elif mark != commit_mark or body != _COMMIT_BODY or not grouped:
                break
            found = sha256(window[at - HASH_BYTES : end]).digest()
            if found != window[end:after]:
                break
            add(found)
            grouped = is_event
            if not is_event:
                commit_at = at
            at = after
            due += 1
        if len(hashes) > before:
            self.head, self.seq = hashes[-1], due
            self.place = Place.EVENT if grouped else Place.COMMITTED
        return at, commit_at

    def _advance(self, kind: RecordType, epoch: int, header: bytes, payload: bytes, digest: bytes) -> Record:
        record = Record(
            kind=kind, epoch=epoch, seq=self.seq, previous=self.head, header=header, payload=payload, hash=digest
        )
        stopped = self.place is Place.END
        self.head, self.seq, self.epoch = digest, self.seq + 1, epoch
        self.place = _PLACE_AFTER.get(kind, Place.STOPPED if stopped else Place.COMMITTED)
        return record

    def _out_of_sequence(self, frame: bytes, seq: int) -> Damage:
        corrected = frame[:12] + struct.pack(">Q", self.seq) + frame[HEADER_BYTES:-HASH_BYTES]
        if hashlib.sha256(self.head + corrected).digest() == frame[-HASH_BYTES:]:
            return Damage(fault=Fault.NUMBER, note="only the sequence number was changed")
        return Damage(fault=Fault.SEQUENCE, note=f"record {seq} where {self.seq} was due", seq=seq)

    def _short(self, start: bytes) -> Damage | None:
        """Fewer bytes than a header: right only as the beginning of the header that is due."""
        plausible = (
            start[:1] in {b"", b"\0"}
            and start[1:2] <= b"\x10"
            and (len(start) <= 4 or start[4] in _KINDS)
            and not any(start[5:8])
            and any(struct.pack(">I", self.epoch + more).startswith(start[8:12]) for more in (0, 1))
            and struct.pack(">Q", self.seq).startswith(start[12:])
        )
        return None if plausible else Damage(fault=Fault.MALFORMED, note="bytes that begin no record")


def find_record(window: bytes, seq: int, start: int = 0) -> int:
    """Where a well-formed header with this number stands in the window, or -1. Used only to name what happened."""
    needle = struct.pack(">Q", seq)
    found = window.find(needle, start + HEADER_BYTES - len(needle))
    while found >= 0:
        at = found - (HEADER_BYTES - len(needle))
        if parse_header(window, at) is not None:
            return at
        found = window.find(needle, found + 1)
    return -1


def _malformed(body: int, kind: int, flags: int, reserved: int, seq: int) -> str | None:
    if not MIN_BODY <= body <= MAX_BODY:
        return f"a length of {body}"
    if flags or reserved:
        return "flags or reserved bits are set"
    if seq > MAX_SEQ:
        return "a sequence number out of range"
    if kind not in _KINDS:
        return f"record type {kind} is not known"
    if not payload_fits(kind, body - MIN_BODY, seq):
        return f"a length of {body} does not fit record type {kind}"
    return None

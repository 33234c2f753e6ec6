"""The second verifier's walk through the segments, from docs/audit-format.md, sections 8.1 to 8.3, alone.

It holds one segment (at most 72 MiB), and of all records before it only the peaks of their tree and what the knowledge
given asks for. The order of the checks is that of the text.
"""

import re
import struct
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Never

from tests.vectors.second_format import (
    HASH_BYTES,
    HEADER_BYTES,
    MAGIC,
    MIB,
    SEGMENT_BYTES_MAX,
    SEGMENT_FIELDS,
    Anchor,
    Header,
    Identity,
    Note,
    OwnSegment,
    Tree,
    Type,
    holds,
    own_segment,
    parse_note,
    read_file,
    sha256,
    stands_further_on,
    well_formed_header,
)

GROUP_BYTES_MAX = 4 * MIB
FIRST_RECORD_BYTES = 244
COMMIT_BYTES = 116
BLOCK_BYTES = 512
COMMIT_HEADER = re.compile(rb"(?=\0{3}\x50\x04\0{3}.{4}[\0-\x7f].{7})", re.DOTALL)


class Verdict(IntEnum):
    OK = 0
    OK_UNANCHORED = 40
    TORN_TAIL = 41
    TORN_OR_TAMPERED = 42
    TRUNCATED = 43
    ALTERED = 44
    REORDERED = 45
    GAP = 46
    FORGED_SIGNATURE = 47
    ROLLBACK = 48
    WRONG_LOG = 49
    EMPTY_OR_MISSING = 50
    UNREADABLE = 51


FOLLOWERS = {
    Type.SEGMENT: {Type.EPOCH},
    Type.EPOCH: {Type.EVENT, Type.CHECKPOINT, Type.COMMIT},
    Type.EVENT: {Type.EVENT, Type.CHECKPOINT, Type.COMMIT},
    Type.COMMIT: {Type.EVENT, Type.CHECKPOINT, Type.EPOCH, Type.RECOVERY},
    Type.CHECKPOINT: {Type.EVENT, Type.EPOCH, Type.END, Type.COMMIT},
    Type.RECOVERY: {Type.EPOCH},
    Type.END: {Type.COMMIT},
}
FOLLOWERS_OF_A_LAST_COMMIT = {Type.EPOCH, Type.RECOVERY}


class Finding(NamedTuple):
    """A verdict and its place: a file's name, an offset in it, the number of the record."""

    verdict: Verdict
    segment: str | None = None
    offset: int | None = None
    seq: int | None = None


class FaultError(Exception):
    """Ends the walk where it finds a fault."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.verdict.name)
        self.finding = finding


class Commit(NamedTuple):
    segment: str
    offset: int
    seq: int


class Walk:
    """The walk from record 0 to the first fault (8.1 to 8.3)."""

    def __init__(
        self, files: Sequence[Path], pin: Identity | None, anchors: Sequence[Anchor], notes: Sequence[Note]
    ) -> None:
        self.files = files
        self.identity: Identity | None = None
        self.h = self.key = b""
        if pin:
            self._know(pin)
        self.due, self.epoch, self.tree = 0, 0, Tree()
        self.last_type, self.ended = Type.COMMIT, False  # of the last record; whether it is the COMMIT of an END
        self.name, self.data, self.is_last = "", b"", False  # the file at hand
        self.commits: list[Commit] = []  # in this file, since the last EPOCH
        self.last_commit: Commit | None = None
        self.pending = False  # whether the last COMMIT still is to be checked or covered
        self.proven: Commit | None = None
        self.stretch: Finding | None = None
        self.torn = False
        self.fault: Finding | None = None
        self.highest_anchor = max((anchor.seq for anchor in anchors), default=-1)
        self.highest_known = max((note.size - 1 for note in notes), default=-1)
        self.highest_known = max(self.highest_known, self.highest_anchor)
        # What the knowledge given asks for, gathered on the way.
        self.heads = {anchor.seq: b"" for anchor in anchors}
        self.roots = {note.size: b"" for note in notes}
        self.keys = {line.name: b"" for note in notes for line in note.lines}

    def run(self) -> None:
        try:
            for number, path in enumerate(self.files, start=1):
                self.is_last = number == len(self.files)
                self._file(number, path)
                self._settle()
        except FaultError as fault:
            self.fault = fault.finding
        self.fault = self.stretch or self.fault
        self.keys = {name: key for name, key in self.keys.items() if key}

    def anchor_names_the_last_commit(self) -> bool:
        seq = self.last_commit.seq if self.last_commit else None
        return self.highest_known == self.highest_anchor == seq

    @property
    def ends_with_a_commit(self) -> bool:
        return self.last_type == Type.COMMIT

    def _know(self, identity: Identity) -> None:
        self.identity, self.h, self.key = identity, identity.genesis, identity.first_epoch_key

    def _fail(self, verdict: Verdict, offset: int) -> Never:
        self._settle()
        raise FaultError(Finding(verdict, self.name, offset, self.due))

    def _fail_forged(self, offset: int) -> Never:
        """Name the first COMMIT of this epoch, in this file, that does not hold; else the record at the offset."""
        for commit in self.commits:
            if not self._commit_holds(commit):
                raise FaultError(Finding(Verdict.FORGED_SIGNATURE, self.name, commit.offset, commit.seq))
            self._prove(commit)
        raise FaultError(Finding(Verdict.FORGED_SIGNATURE, self.name, offset, self.due))

    def _settle(self) -> None:
        """Check the pending COMMIT, which stands in this file and in this epoch."""
        if self.pending and self.last_commit:
            self.pending = False
            if not self._commit_holds(self.last_commit):
                self._fail_forged(self.last_commit.offset)
            self._prove(self.last_commit)

    def _commit_holds(self, commit: Commit) -> bool:
        assert self.identity
        start, end = commit.offset, commit.offset + HEADER_BYTES
        message = b"doorward/audit/commit/v1\0" + self.identity.log_id + self.data[start - HASH_BYTES : end]
        return holds(self.key, self.data[end : end + 64], message)

    def _prove(self, commit: Commit) -> None:
        if not self.stretch:
            self.proven = commit

    def _file(self, number: int, path: Path) -> None:
        """8.1, then each record."""
        self.name, self.data, self.commits = path.name, b"", []
        if int(path.stem) != number:
            self.name = f"{number:08}.seg"
            self._fail(Verdict.GAP if int(path.stem) > number else Verdict.REORDERED, 0)
        try:
            self.data = read_file(path, SEGMENT_BYTES_MAX)
        except (OSError, ValueError):
            self._fail(Verdict.UNREADABLE, 0)
        if len(self.data) > SEGMENT_BYTES_MAX:
            self._fail(Verdict.ALTERED, SEGMENT_BYTES_MAX)
        header_0 = Header(208, Type.SEGMENT, 0, 0, 0, 0).packed
        begins = header_0.startswith(self.data[:HEADER_BYTES]) or self.data[HEADER_BYTES:][:16] == MAGIC
        own = own_segment(self.data)
        if self.identity is None and own:
            self._know(own.identity)
        if self.identity is None and begins:
            tearable = self.is_last and len(self.data) < FIRST_RECORD_BYTES
            self._fail(Verdict.TORN_OR_TAMPERED if tearable else Verdict.ALTERED, 0)
        if (self.identity is None or (own is None and self.due == 0)) and not begins:
            self._fail(Verdict.UNREADABLE, 0)
        if own:
            self._check_own_segment(own, number)
        if self.last_type != Type.COMMIT:
            self._fail(Verdict.ALTERED, 0)
        if not self.data and not self.is_last:
            self._fail(Verdict.TRUNCATED, 0)
        self.torn = not self.data
        offset = 0
        while offset < len(self.data):
            offset = self._record(offset)

    def _check_own_segment(self, own: OwnSegment, number: int) -> None:
        if own.identity != self.identity:
            self._fail(Verdict.WRONG_LOG, 0)
        if own.number != number:
            self._fail(Verdict.REORDERED, 0)
        if own.seq != self.due:
            self._fail(Verdict.GAP if own.seq > self.due else Verdict.REORDERED, 0)
        if own.previous_h != self.h:
            self._fail(Verdict.ALTERED, 0)

    def _record(self, start: int) -> int:
        """8.2: where the next record begins; the end of the file, after a torn tail."""
        left = len(self.data) - start
        if left < HEADER_BYTES:
            return self._cut(start) if self._begins_a_header_that_is_due(self.data[start:]) else self._malformed(start)
        header = well_formed_header(self.data, start)
        if header is None:
            return self._malformed(start)
        end, body = start + header.record_bytes, start + HEADER_BYTES
        if header.seq != self.due:
            as_due = header._replace(seq=self.due).packed
            if self.data[end - HASH_BYTES : end] == sha256(self.h, as_due, self.data[body : end - HASH_BYTES]):
                self._fail_unless_torn(Verdict.ALTERED, start)
            lower = header.seq < self.due or stands_further_on(self.data, start, self.due)
            self._fail_unless_torn(Verdict.REORDERED if lower else Verdict.GAP, start)
        epoch_is_due = header.epoch == self.epoch + (header.type == Type.EPOCH)
        if header.record_bytes > left:
            return self._cut(start) if epoch_is_due else self._malformed(start)
        if sha256(self.h, self.data[start : end - HASH_BYTES]) != self.data[end - HASH_BYTES : end]:
            self._broken(start, end)
        if not epoch_is_due or not self._may_follow(start, Type(header.type)):
            self._fail_unless_torn(Verdict.ALTERED, start)
        self._payload(start, Type(header.type), self.data[body : end - HASH_BYTES])
        self._take(Type(header.type), self.data[end - HASH_BYTES : end])
        return end

    def _begins_a_header_that_is_due(self, data: bytes) -> bool:
        fixed = (data[:1] == b"\0", data[1:2] <= b"\x10", not data[4:5] or data[4] in tuple(Type), not any(data[5:8]))
        epochs = (self.epoch.to_bytes(4), (self.epoch + 1).to_bytes(5)[1:])
        fits = any(epoch.startswith(data[8:12]) for epoch in epochs) and self.due.to_bytes(8).startswith(data[12:])
        return all(fixed) and fits

    def _may_follow(self, start: int, kind: Type) -> bool:
        if start == 0:
            return kind == Type.SEGMENT
        return kind in (FOLLOWERS_OF_A_LAST_COMMIT if self.ended else FOLLOWERS[self.last_type])

    def _cut(self, start: int) -> int:
        if stands_further_on(self.data, start, self.due + 1):
            self._fail_unless_torn(Verdict.ALTERED, start)
        if not self.is_last:
            self._fail(Verdict.TRUNCATED, start)
        self.torn = True
        return len(self.data)

    def _malformed(self, start: int) -> int:
        left = len(self.data) - start
        if not self.is_last or self.data.count(0, start) != left:
            begins_with_zeros = self.is_last and not any(self.data[start : start + HEADER_BYTES])
            tearable = begins_with_zeros and self.anchor_names_the_last_commit() and left <= GROUP_BYTES_MAX
            self._fail_unless_torn(Verdict.TORN_OR_TAMPERED if tearable else Verdict.ALTERED, start)
        self.torn = True
        return len(self.data)

    def _broken(self, start: int, end: int) -> Never:
        at_the_end = end == len(self.data) and self.highest_known < self.due
        unacknowledged = self.anchor_names_the_last_commit() and len(self.data) - start <= GROUP_BYTES_MAX
        tearable = self.is_last and (at_the_end or unacknowledged)
        self._fail_unless_torn(Verdict.TORN_OR_TAMPERED if tearable else Verdict.ALTERED, start)

    def _fail_unless_torn(self, verdict: Verdict, start: int) -> Never:
        """Where a write of which a part is missing may look like another fault (8.2, at its end)."""
        unknown = self.is_last and self.highest_known < self.due and len(self.data) - start <= GROUP_BYTES_MAX
        if unknown and self._a_block_is_missing(start) and not self._a_commit_stands_inside(start):
            verdict = Verdict.TORN_OR_TAMPERED
        self._fail(verdict, start)

    def _a_block_is_missing(self, start: int) -> bool:
        header, end = well_formed_header(self.data, start), len(self.data)
        if header:
            end = min(end, start + header.record_bytes)
        blocks = range(start - start % BLOCK_BYTES, end, BLOCK_BYTES)
        held = (self.data[max(start, block) : block + BLOCK_BYTES] for block in blocks)
        return any(len(zeros) >= 3 and not any(zeros) for zeros in held)

    def _a_commit_stands_inside(self, start: int) -> bool:
        found = COMMIT_HEADER.search(self.data, start)
        return found is not None and found.start() + COMMIT_BYTES < len(self.data)

    def _take(self, kind: Type, h: bytes) -> None:
        self.ended = kind == Type.COMMIT and self.last_type == Type.END
        self.h, self.last_type = h, kind
        self.epoch += kind == Type.EPOCH
        self.tree.add(h)
        if self.due in self.heads:
            self.heads[self.due] = h
        self.due += 1
        if self.due in self.roots:
            self.roots[self.due] = self.tree.root()

    def _payload(self, start: int, kind: Type, payload: bytes) -> None:
        """8.3."""
        match kind:
            case Type.SEGMENT:
                self._segment(start, payload)
            case Type.EPOCH:
                self._epoch(start, payload)
            case Type.COMMIT:
                self.last_commit, self.pending = Commit(self.name, start, self.due), True
                self.commits.append(self.last_commit)
            case Type.CHECKPOINT:
                self._checkpoint(start, payload)
            case Type.RECOVERY:
                segment, zero, offset = struct.unpack_from(">IIQ", payload)
                here, number = (segment, offset), int(self.name[:8])
                if zero or (here != (number, start) and here != (number + 1, 0)):
                    self._fail(Verdict.ALTERED, start)
            case Type.END:
                if payload[0] not in (1, 2) or any(payload[1:]):
                    self._fail(Verdict.ALTERED, start)
            case Type.EVENT:
                pass

    def _segment(self, start: int, payload: bytes) -> None:
        assert self.identity
        log_id, *keys = self.identity
        fields = SEGMENT_FIELDS.pack(MAGIC, log_id, int(self.name[:8]), 0, *keys, self.key, self.h)
        if payload != fields + self.tree.peaks():
            self._fail(Verdict.ALTERED, start)

    def _epoch(self, start: int, payload: bytes) -> None:
        assert self.identity
        endorser, key, endorsement = payload[0], payload[8:40], payload[40:104]
        misplaced = self.last_type not in (Type.COMMIT, Type.RECOVERY) or any(endorsement)
        if endorser not in (1, 2, 3) or any(payload[1:8]) or (endorser == 3 and misplaced):
            self._fail(Verdict.ALTERED, start)
        if endorser == 3:
            self._settle()
            self.stretch = self.stretch or Finding(Verdict.FORGED_SIGNATURE, self.name, start, self.due)
        else:
            header = self.data[start : start + HEADER_BYTES]
            message = (
                b"doorward/audit/epoch/v1\0" + self.identity.log_id + self.h + header + payload[:40] + payload[104:]
            )
            held = holds(self.identity.root_key if endorser == 2 else self.key, endorsement, message)
            if not held or (self.epoch == 0 and (endorser != 2 or key != self.identity.first_epoch_key)):
                self._fail_forged(start)
            if endorser == 2:
                self.stretch = None
            if self.last_commit:
                self._prove(self.last_commit)
        self.key, self.commits, self.pending = key, [], False
        name = f"{self.identity.origin}/epoch/{self.epoch + 1}"
        if name in self.keys:
            self.keys[name] = key

    def _checkpoint(self, start: int, payload: bytes) -> None:
        assert self.identity
        try:
            note = parse_note(payload)
        except ValueError:
            self._fail(Verdict.ALTERED, start)
        origin, own_name = self.identity.origin, f"{self.identity.origin}/epoch/{self.epoch}"
        signers = note.signers({origin: self.identity.root_key, own_name: self.key})
        if signers is None or own_name not in signers:
            self._fail_forged(start)
        if (note.origin, note.size, note.root) != (origin, self.due, self.tree.root()):
            self._fail(Verdict.ALTERED, start)

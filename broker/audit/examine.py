"""Checking a run of segment files against the log's identity and what is known of it from outside.

An `Examination` walks each file once, with bounded memory, and keeps what a verdict needs: the first finding, how
far signatures reach, and where the log stood at its end. What the outside knowledge makes of it is the ladder's.
"""

from collections.abc import Callable
from dataclasses import dataclass

from broker.audit.checkpoint import epoch_key_name, origin_of, parse_note
from broker.audit.findings import Fate, Finding, Knowledge, is_foreign, name_entry, name_stop
from broker.audit.ladder import Ladder
from broker.audit.lineage import Lineage
from broker.audit.merkle import MerkleTree
from broker.audit.payload import (
    MAX_HEAD_BYTES,
    Endorser,
    LogIdentity,
    consistent_head,
    unpack_end,
    unpack_epoch,
    unpack_recovery,
    unpack_segment,
)
from broker.audit.resume import Passed
from broker.audit.segment import MAX_SEGMENT_BYTES, SegmentFile, segment_name
from broker.audit.verdict import VerdictName
from broker.audit.walk import Stop, Stretch, Walk
from broker.core.chain import (
    HASH_BYTES,
    HEADER_BYTES,
    SEGMENT_FIXED_BYTES,
    SETTLED,
    Chain,
    Place,
    Record,
    RecordType,
)

Progress = Callable[[int], None]  # bytes of this file that were checked
_FIRST_RECORD_BYTES = HEADER_BYTES + SEGMENT_FIXED_BYTES + HASH_BYTES
_NOT_A_LOG = Fate(verdict=VerdictName.UNREADABLE, note="this is not a segment of an audit log")
_NO_FIRST_RECORD = Fate(verdict=VerdictName.ALTERED, note="the log's first record does not fit its hash")
_TORN_FIRST_RECORD = Fate(verdict=VerdictName.TORN_OR_TAMPERED, note="there is a part of the first record, no more")
_TOO_LARGE = Fate(verdict=VerdictName.ALTERED, note="the file is larger than a segment can be")
_MAY_LOSE_KEY = frozenset({RecordType.COMMIT, RecordType.RECOVERY})
_UNSETTLED = Fate(verdict=VerdictName.ALTERED, note="the file before it ends without a COMMIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """How the last file ended: what stands unsigned after the last COMMIT."""

    segment: int
    stop: Stop
    settled: bool
    begun: bool  # the file holds at least its SEGMENT record


class Examination:
    """Call `enter` for each file in order while `finding` is None, `settle` after each, and `finish` at the end."""

    def __init__(self, *, identity: LogIdentity | None, ladder: Ladder | None = None) -> None:
        self.identity = identity
        self.ladder = ladder or Ladder()
        self.finding: Finding | None = None
        self.tail: Tail | None = None
        self.recoveries = 0
        self.tree = MerkleTree()
        self.chain: Chain | None = None
        self.lineage: Lineage | None = None

    def enter(self, file: SegmentFile, *, last: bool, progress: Progress | None = None) -> None:
        """Walk one file to its end or to the first finding. Raises OSError."""
        if file.size_bytes > MAX_SEGMENT_BYTES:
            self._found(file, MAX_SEGMENT_BYTES, _TOO_LARGE)
            return
        settled = self.chain is None or self.chain.enter_file()
        fate = self._begin(file, last=last)
        chain, lineage = self.chain, self.lineage
        if fate is not None or chain is None or lineage is None:
            self._found(file, 0, fate or _NO_FIRST_RECORD)
            return
        if not settled:
            self._found(file, 0, _UNSETTLED)
            return
        lineage.enter_file(file)
        walk = Walk(file, chain)
        pass_ = _FilePass(self, file, chain, lineage)
        for offset, step in walk.stretches():
            pass_.take(offset, step)
            if self.finding is not None:
                return
            if progress is not None:
                progress(walk.offset)
        if walk.stop is not None:
            self._stopped(walk, walk.stop, file, chain, last=last)

    def settle(self) -> None:
        """Check the last COMMIT's signature; a forged one comes before whatever was found after it. Raises OSError."""
        forged = None if self.lineage is None else self.lineage.settle()
        if forged is not None:
            self.finding = forged

    def finish(self) -> None:
        """In a stretch that nobody vouches for, its first record is what is wrong, whatever was found after it."""
        began = None if self.lineage is None else self.lineage.unendorsed
        if began is not None:
            self.finding = Finding(
                verdict=VerdictName.FORGED_SIGNATURE,
                segment=segment_name(began.segment),
                offset=began.offset,
                seq=began.seq,
                note=f"from record {began.seq} on nobody endorses the signing key: the seed was lost, or somebody else "
                "wrote; unlock and take it over",
            )

    def trust_start(self, file: SegmentFile) -> bool:
        """Begin at a later file and believe its SEGMENT record about all before it, for a writer that goes on."""
        found = consistent_head(file.read(0, MAX_HEAD_BYTES))
        if found is None or found.head.identity != self.identity or found.head.number != file.number:
            return False
        head = found.head
        self.tree = MerkleTree(found.seq, head.peaks)
        self.lineage = Lineage(head.identity, head.epoch_key)
        self.chain = Chain(head=head.previous, seq=found.seq, epoch=found.epoch, place=Place.COMMITTED)
        return True

    def resume(self, behind: Passed) -> None:
        """Begin after a file that passed before, with what was computed then. The identity has to be known."""
        if self.identity is None:
            raise ValueError("only a log whose identity is known can be gone on with")
        self.tree = behind.tree()
        self.lineage = Lineage(self.identity, behind.epoch_key)
        self.chain = Chain(head=behind.head, seq=behind.seq, epoch=behind.epoch, place=Place.COMMITTED)

    def passed(self, number: int, digest: str) -> Passed:
        """Where the walk stands after a file in which nothing was found."""
        chain, lineage = self.chain, self.lineage
        return Passed(
            number=number,
            sha256=digest,
            seq=0 if chain is None else chain.seq,
            head=b"" if chain is None else chain.head,
            epoch=0 if chain is None else chain.epoch,
            epoch_key=b"" if lineage is None else lineage.epoch_key,
            peaks=self.tree.peaks,
            endorsed=lineage is not None and lineage.unendorsed is None,
        )

    def _begin(self, file: SegmentFile, *, last: bool) -> Fate | None:
        """Look at the file's first record before the chain does: it may belong to another place or log."""
        start = file.read(0, MAX_HEAD_BYTES)
        found = consistent_head(start)
        if self.identity is None and found is not None:
            self.identity = found.head.identity
        if self.identity is None:
            if is_foreign(start):
                return _NOT_A_LOG
            return _TORN_FIRST_RECORD if last and len(start) < _FIRST_RECORD_BYTES else _NO_FIRST_RECORD
        if self.chain is None:
            self.chain = Chain(head=self.identity.genesis())
            self.lineage = Lineage(self.identity, self.identity.first_epoch_key)
        if found is not None:
            return name_entry(found, identity=self.identity, chain=self.chain, number=file.number)
        return _NOT_A_LOG if self.chain.seq == 0 and is_foreign(start) else None

    def _stopped(self, walk: Walk, stop: Stop, file: SegmentFile, chain: Chain, *, last: bool) -> None:
        self.settle()
        if self.finding is not None:
            return
        begun = chain.place is not Place.FILE_START
        self.tail = Tail(segment=file.number, stop=stop, settled=chain.place in SETTLED, begun=begun)
        committed = None if self.lineage is None else self.lineage.committed
        ladder = self.ladder
        known = Knowledge(last=last, committed=committed, acknowledged=ladder.acknowledged, anchored=ladder.anchored)
        fate = name_stop(walk, stop, chain, file, known)
        if fate is not None:
            self._found(file, stop.offset, fate)

    def _found(self, file: SegmentFile, offset: int, fate: Fate, seq: int | None = None) -> None:
        due = 0 if self.chain is None else self.chain.seq
        self.finding = Finding(
            verdict=fate.verdict,
            segment=segment_name(file.number),
            offset=offset,
            seq=due if seq is None else seq,
            note=fate.note,
        )

    def found_in(self, file: SegmentFile, offset: int, seq: int, note: str) -> None:
        """A record that its hash admits and its content refutes."""
        self._found(file, offset, Fate(verdict=VerdictName.ALTERED, note=note), seq)

    def grow(self, first_seq: int, hashes: list[bytes]) -> None:
        """Add leaves, and compare those that are known from outside."""
        self.ladder.grow(first_seq, hashes, self.tree)


class _FilePass:
    """What each kind of record of one file means to the examination."""

    def __init__(self, examination: Examination, file: SegmentFile, chain: Chain, lineage: Lineage) -> None:
        self._examination = examination
        self._file = file
        self._chain = chain
        self._lineage = lineage
        self._before: RecordType | None = None  # what stands before a record that is taken by itself

    def take(self, offset: int, step: Record | Stretch) -> None:
        if isinstance(step, Stretch):
            committed = step.commit is not None and step.commit.seq == step.first_seq + len(step.hashes) - 1
            self._before = RecordType.COMMIT if committed else RecordType.EVENT
            if step.commit is not None:
                self._lineage.commit(offset, step.commit)
            self._examination.grow(step.first_seq, step.hashes)
            return
        self._record(offset, step)
        self._before = step.kind
        if self._examination.finding is None:
            self._examination.grow(step.seq, [step.hash])

    def _record(self, offset: int, record: Record) -> None:
        match record.kind:
            case RecordType.SEGMENT:
                self._segment(offset, record)
            case RecordType.EPOCH:
                self._epoch(offset, record)
            case RecordType.COMMIT:
                self._lineage.commit(offset, record)
            case RecordType.CHECKPOINT:
                self._checkpoint(offset, record)
            case RecordType.RECOVERY:
                self._recovery(offset, record)
            case RecordType.END:
                if unpack_end(record.payload) is None:
                    self._refute(offset, record, "an END record gives no known reason")
            case RecordType.EVENT | RecordType.RETENTION:
                pass  # an event is sealed; the other is not passed on by the parser

    def _segment(self, offset: int, record: Record) -> None:
        examination, head = self._examination, unpack_segment(record.payload)
        fits = (
            head is not None
            and (head.identity, head.number, head.previous)
            == (examination.identity, self._file.number, record.previous)
            and (head.epoch_key, head.peaks) == (self._lineage.epoch_key, examination.tree.peaks)
        )
        if not fits:
            self._refute(offset, record, "a SEGMENT record contradicts the log before it")

    def _epoch(self, offset: int, record: Record) -> None:
        entry, identity = unpack_epoch(record.payload), self._examination.identity
        if entry is None or identity is None:
            self._refute(offset, record, "an EPOCH record names no known endorser")
            return
        if entry.endorser is Endorser.NOBODY and (self._before not in _MAY_LOSE_KEY or any(entry.signature)):
            self._refute(offset, record, "an EPOCH record without an endorser may not stand here, or has a signature")
            return
        finding = self._lineage.epoch(offset, record, entry, self._chain)
        if finding is not None:
            self._examination.finding = finding
            return
        log_id = identity.log_id
        self._examination.ladder.meet_key(epoch_key_name(log_id, record.epoch), entry.key)
        if record.epoch == 1:
            self._examination.ladder.meet_key(origin_of(log_id), identity.root_key)

    def _checkpoint(self, offset: int, record: Record) -> None:
        note, identity = parse_note(record.payload), self._examination.identity
        if note is None or identity is None:
            self._refute(offset, record, "a CHECKPOINT record holds no checkpoint")
            return
        finding = self._lineage.checkpoint(offset, record, note)
        if finding is not None:
            self._examination.finding = finding
        elif (note.origin, note.size, note.root) != (
            origin_of(identity.log_id),
            record.seq,
            self._examination.tree.root(),
        ):
            self._refute(offset, record, "a CHECKPOINT record is not of the log before it")

    def _recovery(self, offset: int, record: Record) -> None:
        entry = unpack_recovery(record.payload)
        if entry is None or not entry.may_stand_at(self._file.number, offset):
            self._refute(offset, record, "a RECOVERY record tells of another place")
        self._examination.recoveries += 1

    def _refute(self, offset: int, record: Record, note: str) -> None:
        self._examination.found_in(self._file, offset, record.seq, note)

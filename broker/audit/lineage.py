"""The line of epoch keys, and how far signatures prove the log.

One signature per epoch is checked, for each signs the hash of all before it; when one fails, the epoch's COMMITs are
checked one by one, to name the first bad record. An epoch never spans two files.
"""

from dataclasses import dataclass

from broker.audit.checkpoint import Note, epoch_key_name, origin_of
from broker.audit.epoch import endorsement_message, signature_holds
from broker.audit.findings import Finding
from broker.audit.payload import Endorser, EpochEntry, LogIdentity, commit_message
from broker.audit.segment import SegmentFile, segment_name
from broker.audit.verdict import VerdictName
from broker.audit.walk import Walk
from broker.core.chain import Chain, Record, RecordType


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The last COMMIT under a signature that was checked, and where it ends."""

    seq: int
    segment: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unendorsed:
    """The EPOCH record that nobody endorsed, from which on nothing is proven until the root endorses a later one."""

    seq: int
    segment: int
    offset: int


class Takeovers:
    """The stretches that nobody endorsed and the root endorsed later: how many, and the first few of them."""

    _TOLD = 4

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[int, int]] = []

    def add(self, began: int, taken_over_at: int) -> None:
        self.count += 1
        if len(self._first) < self._TOLD:
            self._first.append((began, taken_over_at))

    def told(self) -> str:
        """For humans; empty where there was none."""
        parts = [
            f"records {began} to {at - 1} were signed by a key that nobody endorsed, and taken over by the root at {at}"
            for began, at in self._first
        ]
        more = self.count - len(self._first)
        return "; ".join([*parts, *([f"{more} more such stretches"] if more else [])])


class Lineage:
    """Which key signs now, the last COMMIT met, and what is proven. Methods answer with a finding or None.

    `signed` is like `proven` but for an unendorsed lineage, whose own key signs what nobody vouches for.
    """

    def __init__(self, identity: LogIdentity, epoch_key: bytes) -> None:
        self.epoch_key = epoch_key
        self.proven: Proven | None = None
        self.signed: Proven | None = None
        self.unendorsed: Unendorsed | None = None
        self.committed: int | None = None
        self.takeovers = Takeovers()
        self._identity = identity
        self._file: SegmentFile | None = None
        self._pending: tuple[int, Record] | None = None
        self._epoch_began: tuple[int, Chain] | None = None

    def enter_file(self, file: SegmentFile) -> None:
        self._file = file
        self._epoch_began = None

    def commit(self, offset: int, record: Record) -> None:
        self._pending = (offset, record)
        self.committed = record.seq

    def epoch(self, offset: int, record: Record, entry: EpochEntry, after: Chain) -> Finding | None:
        """The next key, if the right one endorses it. That signature also proves all before it."""
        if entry.endorser is Endorser.NOBODY:
            return self._unendorsed_epoch(offset, record, entry, after)
        identity = self._identity
        message = endorsement_message(
            log_id=identity.log_id,
            previous=record.previous,
            header=record.header,
            endorser=entry.endorser,
            key=entry.key,
            sealed=entry.sealed,
        )
        first_is_right = record.epoch > 1 or entry.key == identity.first_epoch_key
        endorsing: bytes | None = None  # nobody may begin an epoch alone, nor the first one without the root
        if entry.endorser is Endorser.ROOT and first_is_right:
            endorsing = identity.root_key
        elif entry.endorser is Endorser.EPOCH and record.epoch > 1:
            endorsing = self.epoch_key
        if endorsing is None or not signature_holds(endorsing, entry.signature, message):
            return self._forged(offset, record, "an EPOCH record is not endorsed by the key that may")
        if entry.endorser is Endorser.ROOT:
            self._take_over(record.seq)
        if self._pending is not None:
            at, commit = self._pending
            self._prove(commit.seq, at + commit.size_bytes)
        self._begin(offset, record, entry, after)
        return None

    def _take_over(self, seq: int) -> None:
        """The root vouches for all before it."""
        if self.unendorsed is not None:
            self.takeovers.add(self.unendorsed.seq, seq)
            self.unendorsed = None
            self.proven = self.signed

    def _unendorsed_epoch(self, offset: int, record: Record, entry: EpochEntry, after: Chain) -> Finding | None:
        """A key without an endorsement proves nothing before it, so the last COMMIT is checked by itself."""
        if record.epoch == 1 or any(entry.signature):
            return self._forged(offset, record, "an EPOCH record is not endorsed by the key that may")
        forged = self.settle()
        if forged is not None:
            return forged
        if self.unendorsed is None:
            self.unendorsed = Unendorsed(seq=record.seq, segment=self._number, offset=offset)
        self._begin(offset, record, entry, after)
        return None

    def _begin(self, offset: int, record: Record, entry: EpochEntry, after: Chain) -> None:
        self._pending = None
        self.epoch_key = entry.key
        self._epoch_began = (offset + record.size_bytes, after.copy())

    def checkpoint(self, offset: int, record: Record, note: Note) -> Finding | None:
        log_id, root_key = self._identity.log_id, self._identity.root_key
        by_epoch = note.signed_by(epoch_key_name(log_id, record.epoch), self.epoch_key)
        by_root = note.signed_by(origin_of(log_id), root_key)
        if by_epoch is True and by_root is not False:
            return None
        return self._forged(offset, record, "a CHECKPOINT record is not signed by its epoch's key")

    def settle(self) -> Finding | None:
        """Check the last COMMIT met."""
        if self._pending is None:
            return None
        offset, record = self._pending
        self._pending = None
        if not self._holds(record):
            return self._forged(offset, record, "a COMMIT is not signed by its epoch's key")
        self._prove(record.seq, offset + record.size_bytes)
        return None

    def _holds(self, commit: Record) -> bool:
        message = commit_message(self._identity.log_id, commit.previous, commit.header)
        return signature_holds(self.epoch_key, commit.payload, message)

    def _forged(self, offset: int, record: Record, note: str) -> Finding:
        """Name the first COMMIT of this epoch whose signature fails, else the record that made us look."""
        self._pending = None
        if self._epoch_began is not None and self._file is not None:
            start, chain = self._epoch_began
            for at, earlier in Walk(self._file, chain.copy(), offset=start).records():
                if at >= offset:
                    break
                if earlier.kind is not RecordType.COMMIT:
                    continue
                if not self._holds(earlier):
                    return self._finding(at, earlier.seq, "a COMMIT is not signed by its epoch's key")
                self._prove(earlier.seq, at + earlier.size_bytes)
        return self._finding(offset, record.seq, note)

    def _finding(self, offset: int, seq: int, note: str) -> Finding:
        return Finding(
            verdict=VerdictName.FORGED_SIGNATURE, segment=segment_name(self._number), offset=offset, seq=seq, note=note
        )

    def _prove(self, seq: int, offset: int) -> None:
        self.signed = Proven(seq=seq, segment=self._number, offset=offset)
        if self.unendorsed is None:
            self.proven = self.signed

    @property
    def _number(self) -> int:
        return 0 if self._file is None else self._file.number

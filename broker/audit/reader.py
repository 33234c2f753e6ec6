"""Reading the log with the audit key: what the unlocked vault allows.

Only committed records are given. A payload that does not open or does not parse is told as such and passed over;
a break in the chain ends the reading and is told as well. Whether the log is genuine is the verifier's answer.
Every byte goes through the strict parser of broker/core/chain.py; content is parsed strictly by whoever needs it.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.faults import AuditError
from broker.audit.findings import Knowledge, name_stop
from broker.audit.payload import MAX_HEAD_BYTES, LogIdentity, consistent_head, unpack_epoch
from broker.audit.seal import NOT_OPENED, Entry, Ratchet, open_opening, unpad
from broker.audit.segment import SegmentFile, layout_of
from broker.audit.verdict import TORN
from broker.audit.walk import WINDOW_BYTES, Stretch, Walk
from broker.contract.plain_json import parse_plain_object
from broker.contract.wire import JsonObject, WireError
from broker.core.chain import HASH_BYTES, LENGTH_BYTES, Chain, Place, Record, RecordType
from broker.core.secret import Secret

Event: TypeAlias = JsonObject
Content: TypeAlias = bytes | str
"""An event's plaintext, or why there is none to give."""

NOTES_KEPT = 1000
_FRAME = struct.Struct(">IB")  # body_len, type: the strict parser has been over them


def read_events(directory: Path, audit_sk: Secret, *, start_seq: int = 0) -> Iterator[tuple[int, Event]]:
    """Number and content of each event from `start_seq` on; `{"unreadable": why}` where there is none to give.

    Raises AuditError where the directory can't be read at all, or the key is that of another log.
    """
    reading = LogReading(directory, audit_sk, start_seq=start_seq)
    for batch in reading.committed():
        for seq, content in batch:
            yield seq, event_of(content)


def event_of(content: Content) -> Event:
    """The event, parsed strictly."""
    if isinstance(content, str):
        return {"unreadable": content}
    try:
        return parse_plain_object(content)
    except WireError as fault:
        return {"unreadable": f"its content is not an event: {fault}"}


class LogReading:
    """One pass along the log that can go on after the log has grown. Not for use by two threads at once."""

    def __init__(
        self, directory: Path, audit_sk: Secret, *, start_seq: int = 0, first: Path | None = None, alone: bool = False
    ) -> None:
        """Begin with the file `first`, else with the one that holds `start_seq`; `alone` reads no other file.

        Raises AuditError where the directory can't be read.
        """
        self.broken = False
        self.notes: list[tuple[int, bytes]] = []
        """Checkpoints that were passed: number and note. Whoever wants them takes them away."""
        self._directory = directory
        self._private = X25519PrivateKey.from_private_bytes(audit_sk.reveal())
        self._start_seq = start_seq
        self._alone = alone
        self._path = first or segments_from(directory, start_seq)[0]
        self._offset = 0
        self._chain: Chain | None = None
        self._identity: LogIdentity | None = None
        self._ratchet: Ratchet | None = None
        self._why_sealed = "its epoch's secret was not found"
        self._waiting: list[Entry] = []  # not committed yet

    @property
    def next_seq(self) -> int:
        """The number of the record that comes next."""
        return self._start_seq if self._chain is None else self._chain.seq

    def committed(self) -> Iterator[list[Entry]]:
        """The events that were committed and not given yet, in batches; ends where the log ends now.

        Called again it goes on from there. Raises AuditError.
        """
        while not self.broken:
            following = self._following()  # looked for first: a file that has a successor grows no more
            try:
                with SegmentFile(self._path) as file:
                    yield from self._file(file, last=following is None)
            except OSError as cause:
                raise AuditError(f"{self._path} can't be read: {cause.strerror or cause}") from cause
            if following is None or self._alone:
                return
            self._path, self._offset = following, 0

    def _following(self) -> Path | None:
        later = [path for path in segments_of(self._directory) if path.name > self._path.name]
        return later[0] if later else None

    def _file(self, file: SegmentFile, *, last: bool) -> Iterator[list[Entry]]:
        chain = self._chain or self._begun(file)
        if chain is None:
            self.broken = True
            yield [(self._start_seq, f"{file.path.name} does not begin with a SEGMENT record")]
            return
        if self._offset == 0:
            chain.enter_file()
        walk = Walk(file, chain, offset=self._offset)
        for _, found in walk.stretches():
            batch = self._stretch(found) if isinstance(found, Stretch) else self._record(found)
            if batch:
                yield batch
        self._offset = walk.offset
        known = Knowledge(last=last, committed=None, acknowledged=None)
        fate = None if walk.stop is None else name_stop(walk, walk.stop, chain, file, known)
        if fate is not None and fate.verdict not in TORN:
            self.broken = True
            yield [(chain.seq, f"the log is broken here: {fate.note}")]

    def _begun(self, file: SegmentFile) -> Chain | None:
        """The chain as this file's own first record states it; None where it states nothing."""
        found = consistent_head(file.read(0, MAX_HEAD_BYTES))
        if found is None:
            return None
        identity = found.head.identity
        if self._private.public_key().public_bytes_raw() != identity.audit_key:
            raise AuditError("the audit key is not the key of this log")
        self._identity = identity
        self._chain = Chain(head=found.head.previous, seq=found.seq, epoch=found.epoch, place=Place.COMMITTED)
        return self._chain

    def _stretch(self, stretch: Stretch) -> list[Entry]:
        """What a run of EVENT and COMMIT records commits."""
        numbers = range(stretch.first_seq, stretch.first_seq + len(stretch.hashes))
        if self._ratchet is None:
            entries, committed = self._unopened(stretch, numbers)
        else:
            entries, committed = self._ratchet.open_run(stretch.window, stretch.at, numbers, start_seq=self._start_seq)
        if stretch.commit is None:
            self._waiting += entries
            return []
        batch, self._waiting = self._waiting + entries[:committed], entries[committed:]
        return batch

    def _unopened(self, stretch: Stretch, numbers: range) -> tuple[list[Entry], int]:
        entries: list[Entry] = []
        at, committed = stretch.at, 0
        for seq in numbers:
            body, kind = _FRAME.unpack_from(stretch.window, at)
            if kind != RecordType.EVENT:
                committed = len(entries)
            elif seq >= self._start_seq:
                entries.append((seq, self._why_sealed))
            at += LENGTH_BYTES + body + HASH_BYTES
        return entries, committed

    def _record(self, record: Record) -> list[Entry]:
        match record.kind:
            case RecordType.EPOCH:
                self._epoch(record)
            case RecordType.EVENT if record.seq >= self._start_seq:
                self._waiting.append((record.seq, self._opened(record)))
            case RecordType.EVENT if self._ratchet is not None:
                self._ratchet.skip()  # over those that nobody asked for
            case RecordType.CHECKPOINT:
                self.notes = [*self.notes[1 - NOTES_KEPT :], (record.seq, record.payload)]
            case RecordType.COMMIT:
                batch, self._waiting = self._waiting, []
                return batch
            case _:
                pass  # nothing to show
        return []

    def _epoch(self, record: Record) -> None:
        entry = unpack_epoch(record.payload)
        opening = None
        if entry is not None and self._identity is not None:
            opening = open_opening(
                entry.sealed,
                audit_sk=self._private,
                log_id=self._identity.log_id,
                epoch=record.epoch,
                epoch_key=entry.key,
            )
        self._ratchet = None if opening is None else Ratchet(opening.secret)
        self._why_sealed = "its epoch's secret does not open"

    def _opened(self, record: Record) -> Content:
        if self._ratchet is None:
            return self._why_sealed
        padded = self._ratchet.open(record.payload, record.header + record.previous)
        plain = None if padded is None else unpad(padded)
        return NOT_OPENED if plain is None else plain


def hash_of(directory: Path, seq: int) -> str | None:
    """The hash of a record in hexadecimal, as the chain of its file proves it; None where there is no such record.

    Needs no key. Raises AuditError where the directory can't be read at all.
    """
    path = segments_from(directory, seq)[0]
    try:
        with SegmentFile(path) as file:
            start = consistent_head(file.read(0, MAX_HEAD_BYTES))
            if start is None:
                return None
            chain = Chain(head=start.head.previous, seq=start.seq, epoch=start.epoch, place=Place.COMMITTED)
            chain.enter_file()
            for _, found in Walk(file, chain).stretches():
                if isinstance(found, Stretch) and seq < found.first_seq + len(found.hashes):
                    return found.hashes[seq - found.first_seq].hex()
                if isinstance(found, Record) and seq == found.seq:
                    return found.hash.hex()
            return None
    except OSError as cause:
        raise AuditError(f"{path} can't be read: {cause.strerror or cause}") from cause


def stands_somewhere(directory: Path, h: str) -> bool:
    """Whether a record with this hash stands in the log, were it behind damage that no walk gets past.

    By its bytes alone: good for a log that is known to be broken, not for one that is to be proven whole.
    """
    wanted, tail = bytes.fromhex(h), b""
    for path in segments_of(directory):
        with suppress(OSError), SegmentFile(path) as file:
            for offset in range(0, file.size_bytes, WINDOW_BYTES):
                window = tail + file.read(offset, WINDOW_BYTES)
                if wanted in window:
                    return True
                tail = window[-HASH_BYTES:]
    return False


def segments_of(directory: Path) -> tuple[Path, ...]:
    """The files of a log, in order. Raises AuditError where there are none to read."""
    try:
        files = layout_of(directory).segments
    except OSError as cause:
        raise AuditError(f"{directory} can't be read: {cause.strerror or cause}") from cause
    if not files:
        raise AuditError(f"{directory} holds no log")
    return files


def segments_from(directory: Path, start_seq: int) -> tuple[Path, ...]:
    """The files from the last one that begins at or before `start_seq`. Raises AuditError."""
    files = segments_of(directory)
    at = len(files) - 1
    while at and begins_at(files[at]) > start_seq:
        at -= 1
    return files[at:]


def begins_at(path: Path) -> int:
    """The number of a file's first record, on its own word; beyond all numbers where it has none."""
    try:
        with SegmentFile(path) as file:
            found = consistent_head(file.read(0, MAX_HEAD_BYTES))
    except OSError:
        return 1 << 64
    return 1 << 64 if found is None else found.seq

"""Reading the log with the audit key: what the unlocked vault allows.

Only committed records are given. A payload that does not open or does not parse is told as such and passed over;
a break in the chain ends the reading and is told as well. Whether the log is genuine is the verifier's answer.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.faults import AuditError
from broker.audit.findings import Knowledge, name_stop
from broker.audit.payload import MAX_HEAD_BYTES, LogIdentity, StartingHead, consistent_head, unpack_epoch
from broker.audit.seal import Ratchet, open_opening, unpad
from broker.audit.segment import SegmentFile, layout_of
from broker.audit.verdict import TORN
from broker.audit.walk import Walk
from broker.contract.wire import JsonObject, WireError, parse_object
from broker.core.chain import Chain, Place, Record, RecordType
from broker.core.secret import Secret

Event: TypeAlias = JsonObject


def read_events(directory: Path, audit_sk: Secret, *, start_seq: int = 0) -> Iterator[tuple[int, Event]]:
    """Number and content of each event from `start_seq` on; `{"unreadable": why}` where there is none to give.

    Raises AuditError where the directory can't be read at all, or the key is that of another log.
    """
    private = X25519PrivateKey.from_private_bytes(audit_sk.reveal())
    files = _files_from(directory, start_seq)
    reading: _Reading | None = None
    for path in files:
        try:
            with SegmentFile(path) as file:
                head = consistent_head(file.read(0, MAX_HEAD_BYTES))
                if reading is None and head is not None:
                    reading = _Reading(head, private, start_seq)
                if reading is None:
                    yield start_seq, {"unreadable": f"{path.name} does not begin with a SEGMENT record"}
                    return
                yield from reading.events(file, last=path is files[-1])
                if reading.broken:
                    return
        except OSError as cause:
            raise AuditError(f"{path} can't be read: {cause.strerror or cause}") from cause


def hash_of(directory: Path, seq: int) -> str | None:
    """The hash of a record in hexadecimal, as the chain of its file proves it; None where there is no such record.

    Needs no key. Raises AuditError where the directory can't be read at all.
    """
    path = _files_from(directory, seq)[0]
    try:
        with SegmentFile(path) as file:
            start = consistent_head(file.read(0, MAX_HEAD_BYTES))
            if start is None:
                return None
            chain = Chain(head=start.head.previous, seq=start.seq, epoch=start.epoch, place=Place.COMMITTED)
            chain.enter_file()
            found = (record for _, record in Walk(file, chain).records() if record.seq == seq)
            record = next(found, None)
            return None if record is None else record.hash.hex()
    except OSError as cause:
        raise AuditError(f"{path} can't be read: {cause.strerror or cause}") from cause


def _files_from(directory: Path, start_seq: int) -> list[Path]:
    """The files from the last one that begins at or before `start_seq`."""
    try:
        files = list(layout_of(directory).segments)
    except OSError as cause:
        raise AuditError(f"{directory} can't be read: {cause.strerror or cause}") from cause
    if not files:
        raise AuditError(f"{directory} holds no log")
    while len(files) > 1 and _begins_at(files[1]) <= start_seq:
        files.pop(0)
    return files


def _begins_at(path: Path) -> int:
    try:
        with SegmentFile(path) as file:
            found = consistent_head(file.read(0, MAX_HEAD_BYTES))
    except OSError:
        return 1 << 64
    return 1 << 64 if found is None else found.seq


class _Reading:
    """The state that a pass carries from file to file."""

    def __init__(self, start: StartingHead, private: X25519PrivateKey, start_seq: int) -> None:
        if private.public_key().public_bytes_raw() != start.head.identity.audit_key:
            raise AuditError("the audit key is not the key of this log")
        self.broken = False
        self._identity: LogIdentity = start.head.identity
        self._private = private
        self._start_seq = start_seq
        self._chain = Chain(head=start.head.previous, seq=start.seq, epoch=start.epoch, place=Place.COMMITTED)
        self._ratchet: Ratchet | None = None
        self._why_sealed = "its epoch's secret was not found"

    def events(self, file: SegmentFile, *, last: bool) -> Iterator[tuple[int, Event]]:
        self._chain.enter_file()
        walk = Walk(file, self._chain)
        waiting: list[tuple[int, Event]] = []
        for _, record in walk.records():
            match record.kind:
                case RecordType.EPOCH:
                    self._epoch(record)
                case RecordType.EVENT:
                    waiting += self._event(record)
                case RecordType.COMMIT:
                    yield from waiting
                    waiting.clear()
                case (
                    RecordType.SEGMENT
                    | RecordType.CHECKPOINT
                    | RecordType.RECOVERY
                    | RecordType.RETENTION
                    | RecordType.END
                ):
                    pass  # nothing to show
        if walk.stop is None:
            return
        known = Knowledge(last=last, committed=None, acknowledged=None)
        fate = name_stop(walk, walk.stop, self._chain, file, known)
        if fate is not None and fate.verdict not in TORN:
            self.broken = True
            yield self._chain.seq, {"unreadable": f"the log is broken here: {fate.note}"}

    def _epoch(self, record: Record) -> None:
        entry = unpack_epoch(record.payload)
        opening = None
        if entry is not None:
            opening = open_opening(
                entry.sealed,
                audit_sk=self._private,
                log_id=self._identity.log_id,
                epoch=record.epoch,
                epoch_key=entry.key,
            )
        self._ratchet = None if opening is None else Ratchet(opening.secret)
        self._why_sealed = "its epoch's secret does not open"

    def _event(self, record: Record) -> list[tuple[int, Event]]:
        """The event, ratcheting also over those that nobody asked for."""
        ratchet = self._ratchet
        if record.seq < self._start_seq:
            if ratchet is not None:
                ratchet.skip()
            return []
        if ratchet is None:
            return [(record.seq, {"unreadable": self._why_sealed})]
        padded = ratchet.open(record.payload, record.header + record.previous)
        plain = None if padded is None else unpad(padded)
        if plain is None:
            return [(record.seq, {"unreadable": "its seal does not open"})]
        try:
            return [(record.seq, parse_object(plain))]
        except WireError as fault:
            return [(record.seq, {"unreadable": f"its content is not an event: {fault}"})]

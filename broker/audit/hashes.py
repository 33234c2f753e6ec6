"""Which hash and epoch each event's record has, read from the files alone: no key, no daemon.

What is given is as the chain of its file proves it; whether the log is genuine is the verifier's answer.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from broker.audit.faults import AuditError
from broker.audit.payload import MAX_HEAD_BYTES, consistent_head
from broker.audit.reader import segments_from
from broker.audit.segment import SegmentFile
from broker.audit.walk import Stretch, Walk
from broker.core.chain import HASH_BYTES, LENGTH_BYTES, Chain, Place, Record, RecordType

_FRAME = struct.Struct(">IBBHI")  # body_len, type, flags, reserved, epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Where an event stands in the chain."""

    seq: int
    epoch: int
    h: str  # in hexadecimal


class EventHashes:
    """Asked for ascending numbers it walks the log once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._walking: Iterator[Proof] = iter(())
        self._next: Proof | None = None

    def of(self, seq: int) -> Proof | None:
        """The event record of that number; None where the log has none (any more). Raises AuditError."""
        found = self._forward(seq)
        if found is None:  # the log has grown, or the number is a lower one
            self._walking, self._next = event_proofs(self._directory, seq), None
            found = self._forward(seq)
        return found

    def _forward(self, seq: int) -> Proof | None:
        while self._next is None or self._next.seq < seq:
            self._next = next(self._walking, None)
            if self._next is None:
                return None
        return self._next if self._next.seq == seq else None


def event_proofs(directory: Path, start_seq: int) -> Iterator[Proof]:
    """Each event's, from the file on that holds `start_seq`. Raises AuditError."""
    for path in segments_from(directory, start_seq):
        try:
            with SegmentFile(path) as file:
                yield from _of_file(file)
        except OSError as cause:
            raise AuditError(f"{path} can't be read: {cause.strerror or cause}") from cause


def _of_file(file: SegmentFile) -> Iterator[Proof]:
    start = consistent_head(file.read(0, MAX_HEAD_BYTES))
    if start is None:
        return
    chain = Chain(head=start.head.previous, seq=start.seq, epoch=start.epoch, place=Place.COMMITTED)
    chain.enter_file()
    for _, found in Walk(file, chain).stretches():
        if isinstance(found, Record):
            if found.kind is RecordType.EVENT:
                yield Proof(seq=found.seq, epoch=found.epoch, h=found.hash.hex())
        else:
            yield from _of_stretch(found)


def _of_stretch(stretch: Stretch) -> Iterator[Proof]:
    at = stretch.at
    for seq, digest in enumerate(stretch.hashes, start=stretch.first_seq):
        body, kind, _, _, epoch = _FRAME.unpack_from(stretch.window, at)
        if kind == RecordType.EVENT:
            yield Proof(seq=seq, epoch=epoch, h=digest.hex())
        at += LENGTH_BYTES + body + HASH_BYTES

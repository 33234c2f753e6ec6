"""Somebody who may write the log's files: cuts, swaps, flips, and chains anew with the keys that were stolen.

It parses by itself, from the published format, so that a fault of our parser does not hide from the tests.
"""

import hashlib
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.ladder import in_file
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Verdict
from broker.audit.verify import verify

SEGMENT, EPOCH, EVENT, COMMIT, CHECKPOINT, RECOVERY, RETENTION, END = range(1, 9)
HEADER = struct.Struct(">IBBHIQ")
FIELDS = {"length": 3, "type": 4, "flags": 5, "reserved": 7, "epoch": 11, "seq": 19, "payload": 20, "hash": -1}


@dataclass(frozen=True)
class Raw:
    """One record as it lies in a file."""

    file: Path
    offset: int
    kind: int
    epoch: int
    seq: int
    payload: bytes
    hash: bytes
    flags: int = 0

    @property
    def size(self) -> int:
        return HEADER.size + len(self.payload) + 32

    @property
    def end(self) -> int:
        return self.offset + self.size

    def header(self) -> bytes:
        return HEADER.pack(16 + len(self.payload), self.kind, self.flags, 0, self.epoch, self.seq)


def records_of(path: Path) -> list[Raw]:
    """The whole records of a file; what is torn at its end is none."""
    content, at, found = path.read_bytes(), 0, []
    while at + HEADER.size <= len(content):
        body, kind, _, _, epoch, seq = HEADER.unpack_from(content, at)
        end = at + 4 + body
        if end + 32 > len(content):
            break
        found.append(Raw(path, at, kind, epoch, seq, content[at + 20 : end], content[end : end + 32]))
        at = end + 32
    return found


class Forger:
    """A copy of a log, to be changed and then judged."""

    def __init__(self, source: Path, target: Path, *, pin: Pin, anchor: Anchor) -> None:
        shutil.copytree(source, target)
        self.directory = target
        self.pin = pin
        self.anchor = anchor

    # -- looking

    @property
    def files(self) -> list[Path]:
        return sorted(self.directory.glob("*.seg"))

    @property
    def records(self) -> list[Raw]:
        return [record for path in self.files for record in records_of(path)]

    def first(self, kind: int, *, after: int = 0) -> Raw:
        return next(record for record in self.records if record.kind == kind and record.seq >= after)

    def last(self, kind: int) -> Raw:
        return [record for record in self.records if record.kind == kind][-1]

    def verdict(self, *, anchored: bool, pin: Pin | None = None, checkpoint: bytes | None = None) -> Verdict:
        anchors = in_file(self.anchor if anchored else None)
        return verify(self.directory, pin=pin or self.pin, anchors=anchors, checkpoint=checkpoint)

    # -- changing bytes

    def flip(self, record: Raw, field: str, *, bit: int = 1) -> None:
        content = bytearray(record.file.read_bytes())
        at = record.end - 1 if field == "hash" else record.offset + FIELDS[field]
        content[at] ^= bit
        record.file.write_bytes(content)

    def splice(self, path: Path, start: int, end: int, fresh: bytes) -> None:
        content = path.read_bytes()
        path.write_bytes(content[:start] + fresh + content[end:])

    def delete(self, record: Raw) -> None:
        self.splice(record.file, record.offset, record.end, b"")

    def insert(self, before: Raw, fresh: bytes) -> None:
        self.splice(before.file, before.offset, before.offset, fresh)

    def bytes_of(self, record: Raw) -> bytes:
        return record.file.read_bytes()[record.offset : record.end]

    def cut(self, path: Path, size: int) -> None:
        path.write_bytes(path.read_bytes()[:size])

    def append(self, fresh: bytes) -> None:
        path = self.files[-1]
        path.write_bytes(path.read_bytes() + fresh)

    def overwrite(self, record: Raw, at: int, fresh: bytes) -> None:
        self.splice(record.file, record.offset + at, record.offset + at + len(fresh), fresh)

    # -- chaining anew

    def rechain(self, change: Callable[[Raw], Raw | None], *, resign: Ed25519PrivateKey | None = None) -> None:
        """Apply `change` to each record (None drops it), then number and hash all of them as a writer would.

        With a stolen key also the signatures of COMMIT and EPOCH records are made anew.
        """
        head, seq, out = self._genesis(), 0, dict.fromkeys(self.files, b"")
        for old in self.records:
            new = change(old)
            if new is None:
                continue
            changed = new is not old or head != self._head_before(old)
            record = replace(new, seq=seq)
            if record.kind == SEGMENT:
                record = replace(record, payload=record.payload[:160] + head + record.payload[192:])
            if resign is not None and changed:
                record = self._resigned(record, head, resign)
            front = record.header() + record.payload
            head = hashlib.sha256(head + front).digest()
            out[record.file] += front + head
            seq += 1
        for path, content in out.items():
            path.write_bytes(content)

    def _genesis(self) -> bytes:
        parts = (self.pin.log_id, self.pin.audit_key, self.pin.first_epoch_key, self.pin.root_key)
        return hashlib.sha256(b"doorward/audit/genesis/v1\0" + bytes.fromhex("".join(parts))).digest()

    def _head_before(self, record: Raw) -> bytes:
        if record.offset == 0:
            return record.payload[160:192]
        return record.file.read_bytes()[record.offset - 32 : record.offset]

    def _resigned(self, record: Raw, head: bytes, key: Ed25519PrivateKey) -> Raw:
        log_id = bytes.fromhex(self.pin.log_id)
        if record.kind == COMMIT:
            message = b"doorward/audit/commit/v1\0" + log_id + head + record.header()
            return replace(record, payload=key.sign(message))
        if record.kind == EPOCH:
            before, public, sealed = record.payload[:8], record.payload[8:40], record.payload[104:]
            message = b"doorward/audit/epoch/v1\0" + log_id + head + record.header() + before + public + sealed
            return replace(record, payload=before + public + key.sign(message) + sealed)
        return record

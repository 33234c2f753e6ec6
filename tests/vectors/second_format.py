"""The records, notes, pins and anchors of the audit log, as docs/audit-format.md has them (sections 2 to 7).

For the second verifier: written from that text alone, it shares nothing with the project. Everything is parsed from
bytes that an enemy may have written; what does not fit is None or a ValueError.
"""

import base64
import hashlib
import json
import os
import re
import stat
import struct
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MIB = 2**20
SEGMENT_BYTES_MAX = 72 * MIB
PIN_BYTES_MAX = 4096
ANCHOR_BYTES_MAX = 512
NOTE_BYTES_MAX = 8192
CHECKPOINT_FILE_BYTES_MAX = 4 * MIB
HEADER_FORMAT, HEADER_BYTES, HASH_BYTES = ">IBBHIQ", 20, 32
SEQ_MAX = 2**63 - 1
MAGIC = b"doorward/audit/1"
SEGMENT_FIELDS = struct.Struct(">16s8sII32s32s32s32s32s")  # before the peaks
RUNGS = ("none", "file", "keyring", "vault", "outside")  # from weak to strong


class Type(IntEnum):
    SEGMENT = 1
    EPOCH = 2
    EVENT = 3
    COMMIT = 4
    CHECKPOINT = 5
    RECOVERY = 6
    END = 8


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def holds(key: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_file(path: Path, limit_bytes: int, *, one_name: bool = True) -> bytes:
    """A regular file as long as it is when opened, or its first limit + 1 bytes; with one name, and no link."""
    no_link = os.O_NOFOLLOW if one_name else 0
    descriptor = os.open(path, os.O_RDONLY | no_link | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (one_name and status.st_nlink != 1):
            raise OSError(f"{path} is not a regular file with one name")
        return file.read(min(status.st_size, limit_bytes + 1))


class Header(NamedTuple):
    """The header of a record (section 2)."""

    body_len: int
    type: int
    flags: int
    reserved: int
    epoch: int
    seq: int

    @property
    def record_bytes(self) -> int:
        return 4 + self.body_len + HASH_BYTES

    @property
    def packed(self) -> bytes:
        return struct.pack(HEADER_FORMAT, *self)


def well_formed_header(data: bytes, offset: int) -> Header | None:
    """The header that stands there whole, unless it is malformed (section 3)."""
    if len(data) - offset < HEADER_BYTES:
        return None
    header = Header(*struct.unpack_from(HEADER_FORMAT, data, offset))
    payload_bytes = header.body_len - 16
    fits: dict[int, bool] = {
        Type.SEGMENT: payload_bytes == 192 + 32 * header.seq.bit_count(),
        Type.EPOCH: payload_bytes == 216,
        Type.EVENT: payload_bytes >= 80 and payload_bytes % 64 == 16,
        Type.COMMIT: payload_bytes == 64,
        Type.CHECKPOINT: 1 <= payload_bytes <= 8192,
        Type.RECOVERY: payload_bytes == 64,
        Type.END: payload_bytes == 8,
    }
    in_range = header.body_len <= MIB and header.flags == header.reserved == 0 and header.seq <= SEQ_MAX
    return header if in_range and fits.get(header.type) else None


def stands_further_on(data: bytes, offset: int, seq: int) -> bool:
    """Whether a well-formed header with that number is found anywhere from the offset on (section 8)."""
    likely = re.compile(rb"\0[\0-\x10].{2}[\1-\6\x08]\0{3}.{4}" + re.escape(seq.to_bytes(8)), re.DOTALL)
    found = likely.search(data, offset)
    while found and not well_formed_header(data, found.start()):
        found = likely.search(data, found.start() + 1)
    return found is not None


class Identity(NamedTuple):
    """Which log this is (section 8), as in a pin or a SEGMENT record."""

    log_id: bytes
    audit_key: bytes
    first_epoch_key: bytes
    root_key: bytes

    @property
    def origin(self) -> str:
        return f"doorward/{self.log_id.hex()}"

    @property
    def genesis(self) -> bytes:
        return sha256(b"doorward/audit/genesis/v1\0", *self)


class OwnSegment(NamedTuple):
    """What a file's own SEGMENT record says (8.1, rule 4)."""

    identity: Identity
    number: int
    seq: int
    previous_h: bytes


def own_segment(data: bytes) -> OwnSegment | None:
    header = well_formed_header(data, 0)
    if header is None or header.type != Type.SEGMENT or len(data) < header.record_bytes:
        return None
    hashed, h = data[: header.record_bytes - HASH_BYTES], data[header.record_bytes - HASH_BYTES : header.record_bytes]
    magic, log_id, number, zero, *keys, _, previous_h = SEGMENT_FIELDS.unpack_from(hashed, HEADER_BYTES)
    if magic != MAGIC or zero or sha256(previous_h, hashed) != h:
        return None
    return OwnSegment(Identity(log_id, *keys), number, header.seq, previous_h)


class Tree:
    """The Merkle tree of section 6, of which only the peaks are kept."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []  # the size of a perfect subtree, and its root

    def add(self, h: bytes) -> None:
        size, node = 1, sha256(b"\0", h)
        while self._peaks and self._peaks[-1][0] == size:
            size, node = 2 * size, sha256(b"\1", self._peaks.pop()[1], node)
        self._peaks.append((size, node))

    def peaks(self) -> bytes:
        return b"".join(node for _, node in self._peaks)

    def root(self) -> bytes:
        root = self._peaks[-1][1]
        for _, node in reversed(self._peaks[:-1]):
            root = sha256(b"\1", node, root)
        return root


class Anchor(NamedTuple):
    seq: int
    rung: int
    log_id: bytes
    head: bytes
    segment: int
    offset: int


class SignatureLine(NamedTuple):
    name: str
    key_id: bytes
    signature: bytes


class Note(NamedTuple):
    """A checkpoint, in a record or outside the log."""

    size: int
    origin: str
    root: bytes
    signed: bytes
    lines: tuple[SignatureLine, ...]

    def signers(self, keys: Mapping[str, bytes]) -> set[str] | None:
        """Whose lines hold, of the keys by name; None if a line of one of them does not."""
        held = set()
        for line in self.lines:
            key = keys.get(line.name)
            if key is None or line.key_id != sha256(line.name.encode(), b"\n\1", key)[:4]:
                continue
            if not holds(key, line.signature, self.signed):
                return None
            held.add(line.name)
        return held


PIN_FIELDS = {"log_id": 16, "audit_key": 64, "first_epoch_key": 64, "root_key": 64}  # hex digits
ANCHOR_FIELDS = {"head": 64, "log_id": 16, "epoch_key": 64}
ANCHOR_NUMBERS = ("offset", "segment", "seq")
SIGNATURE_LINE = "— ([^\\s+]+) ([A-Za-z0-9+/]+={0,2})\n"
NOTE = re.compile(
    "(([^\n]+)\n([1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n)\n((?:" + SIGNATURE_LINE.replace("(", "(?:") + "){1,16})"
)


def parse_fields(data: bytes, limit_bytes: int, hex_digits: Mapping[str, int], others: tuple[str, ...]) -> Any:
    """A JSON object of version 1 with exactly these fields."""
    pairs = json.loads(data.decode(), object_pairs_hook=tuple)
    if not isinstance(pairs, tuple) or len(data) > limit_bytes:
        raise ValueError("not an object, or too large")
    fields = dict(pairs)
    if len(fields) != len(pairs) or fields.keys() != {"version", *hex_digits, *others}:
        raise ValueError("not the fields that it should have")
    if type(fields["version"]) is not int or fields["version"] != 1:
        raise ValueError("not of version 1")
    for name, digits in hex_digits.items():
        if not isinstance(fields[name], str) or not re.fullmatch(f"[0-9a-f]{{{digits}}}", fields[name]):
            raise ValueError(f"{name} is not in lower-case hex")
    return fields


def parse_pin(data: bytes) -> Identity:
    fields = parse_fields(data, PIN_BYTES_MAX, PIN_FIELDS, ())
    return Identity(**{name: bytes.fromhex(fields[name]) for name in PIN_FIELDS})


def parse_anchor(data: bytes, rung: str) -> Anchor:
    fields = parse_fields(data, ANCHOR_BYTES_MAX, ANCHOR_FIELDS, (*ANCHOR_NUMBERS, "check"))
    check = fields.pop("check")
    if any(type(fields[name]) is not int or not 0 <= fields[name] <= SEQ_MAX for name in ANCHOR_NUMBERS):
        raise ValueError("an anchor's number is out of range")
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))[1:-1]
    if check != sha256(canonical.encode()).hex()[:16]:
        raise ValueError("an anchor's check does not fit")
    head, log_id = bytes.fromhex(fields["head"]), bytes.fromhex(fields["log_id"])
    return Anchor(fields["seq"], RUNGS.index(rung), log_id, head, fields["segment"], fields["offset"])


def decode_base64(text: str) -> bytes:
    decoded = base64.b64decode(text, validate=True)
    if base64.b64encode(decoded).decode() != text:
        raise ValueError("not the one base64 of these bytes")
    return decoded


def note_of(found: re.Match[str]) -> Note:
    signed, origin, size, root, signatures = found.groups()
    lines = []
    for name, encoded in re.findall(SIGNATURE_LINE, signatures):
        decoded = decode_base64(encoded)
        if len(decoded) < 4:
            raise ValueError("a signature line has no key id")
        lines.append(SignatureLine(name, decoded[:4], decoded[4:]))
    if len(found[0].encode()) > NOTE_BYTES_MAX:
        raise ValueError("a note is too long")
    return Note(int(size), origin, decode_base64(root), signed.encode(), tuple(lines))


def parse_note(data: bytes) -> Note:
    found = NOTE.fullmatch(data.decode())
    if not found:
        raise ValueError("not a signed note")
    return note_of(found)


def parse_checkpoint_file(data: bytes) -> list[Note]:
    text, start, notes = data.decode(), 0, list[Note]()
    while start < len(text) or not notes:
        found = NOTE.match(text, start)
        if len(data) > CHECKPOINT_FILE_BYTES_MAX or not found or text[found.end() : found.end() + 1] not in ("", "\n"):
            raise ValueError("not a row of signed notes")
        notes.append(note_of(found))
        start = found.end() + 1
    return notes

"""Somebody with every key of a log, who writes records in any order and with any fault, hashed and signed as asked.

Written from docs/audit-format.md; what lies in `directory` afterwards, and the files of knowledge beside it, are for
verifiers to judge. A step without a fault makes a record that the text allows at its place.
"""

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fakes.forger import CHECKPOINT, COMMIT, END, EPOCH, EVENT, HEADER, RECOVERY, SEGMENT

NEXT = {
    SEGMENT: [EPOCH],
    EPOCH: [COMMIT, EVENT, CHECKPOINT],
    EVENT: [COMMIT, EVENT, CHECKPOINT],
    COMMIT: [EPOCH, EVENT, SEGMENT, CHECKPOINT, RECOVERY],
    CHECKPOINT: [COMMIT, EVENT, EPOCH, END],
    RECOVERY: [EPOCH],
    END: [COMMIT],
}
AFTER_THE_LAST_COMMIT = [EPOCH, RECOVERY, SEGMENT]
FAULTS = (
    "payload",
    "length",
    "epoch",
    "seq",
    "seq hashed as due",
    "hash",
    "flags",
    "order",
    "signer",
    "note",
    "endorser",
    "zeros",
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """`choice` picks among the records that may follow, `value` picks what is left open; `fault` may be none."""

    choice: int
    value: int
    fault: str | None


def private(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def root_of(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(leaves[:half]) + root_of(leaves[half:])).digest()


def peaks_of(leaves: list[bytes]) -> bytes:
    found, start = b"", 0
    for bit in reversed(range(len(leaves).bit_length())):
        if len(leaves) >> bit & 1:
            found += root_of(leaves[start : start + (1 << bit)])
            start += 1 << bit
    return found


@dataclass
class Scribe:
    directory: Path
    log_id: bytes = b"scribe's"
    audit_key: bytes = bytes(range(32))
    root: Ed25519PrivateKey = field(default_factory=lambda: private("root"))
    key: Ed25519PrivateKey = field(default_factory=lambda: private("epoch 1"))
    number: int = 0
    epoch: int = 0
    last: int = 0
    over: bool = False  # the last record is the COMMIT of an END
    content: bytes = b""
    leaves: list[bytes] = field(default_factory=list)
    commits: list[tuple[int, int, int]] = field(default_factory=list)  # segment, end, seq

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.first_key = public(self.key)
        keys = self.audit_key + self.first_key + public(self.root)
        self.h = hashlib.sha256(b"doorward/audit/genesis/v1\0" + self.log_id + keys).digest()

    @property
    def origin(self) -> str:
        return f"doorward/{self.log_id.hex()}"

    def write(self, steps: list[Step]) -> None:
        for step in steps:
            self._write(step)

    def may_follow(self) -> list[int]:
        return AFTER_THE_LAST_COMMIT if self.over else NEXT.get(self.last, [SEGMENT])

    def _write(self, step: Step) -> None:
        kinds = (
            [EPOCH, EVENT, COMMIT, CHECKPOINT, RECOVERY, END, SEGMENT] if step.fault == "order" else self.may_follow()
        )
        kind = kinds[step.choice % len(kinds)]
        if kind == SEGMENT and (step.fault != "order" or self.number == 0):
            self.number, self.content = self.number + 1, b""
        epoch = self.epoch + (kind == EPOCH)
        size = len(self._payload(kind, step, bytes(HEADER.size)))
        header = HEADER.pack(16 + size, kind, 0, 0, epoch + (step.fault == "epoch"), len(self.leaves))
        payload = self._payload(kind, step, header)
        if kind == EPOCH:
            self.key = self._epoch_key(epoch)
        if step.fault == "payload":
            at = step.value % size
            payload = payload[:at] + bytes([payload[at] ^ 1 << step.value % 8]) + payload[at + 1 :]
        if step.fault == "length":
            payload += bytes(step.value % 64)
            header = HEADER.pack(16 + len(payload), *HEADER.unpack(header)[1:])
        self._append(step, header, payload)
        self.over = kind == COMMIT and self.last == END
        self.epoch, self.last = epoch, kind
        if kind == COMMIT:
            self.commits.append((self.number, len(self.content), len(self.leaves) - 1))

    def _append(self, step: Step, header: bytes, payload: bytes) -> None:
        hashed = header
        if step.fault in ("seq", "seq hashed as due"):
            header = header[:12] + struct.pack(">Q", max(0, len(self.leaves) + step.value % 5 - 2))
        if step.fault == "seq":
            hashed = header
        if step.fault == "flags":
            hashed = header = header[:5] + bytes([1]) + header[6:]
        self.h = hashlib.sha256(self.h + hashed + payload).digest()
        if step.fault == "hash":
            self.h = self.h[:-1] + bytes([self.h[-1] ^ 1])
        written = header + payload + self.h
        if step.fault == "zeros":
            written = bytes(len(written)) if step.value % 2 else written[: -step.value % 200] + bytes(step.value % 600)
        self.leaves.append(self.h)
        self.content += written
        (self.directory / f"{self.number:08}.seg").write_bytes(self.content)

    def _payload(self, kind: int, step: Step, header: bytes) -> bytes:
        value = step.value
        match kind:
            case 1:
                keys = self.audit_key + self.first_key + public(self.root) + public(self.key)
                front = b"doorward/audit/1" + self.log_id + struct.pack(">II", self.number, 0)
                return front + keys + self.h + peaks_of(self.leaves)
            case 2:
                return self._epoch_payload(step, header)
            case 3:
                return bytes([value % 256]) * (80 + 64 * (value % 2))
            case 4:
                signer = self.root if step.fault == "signer" else self.key
                return signer.sign(b"doorward/audit/commit/v1\0" + self.log_id + self.h + header)
            case 5:
                return self._note(step)
            case 6:
                here, offset = (self.number + 1, 0) if value % 5 == 0 else (self.number, len(self.content))
                return struct.pack(">IIQQ32sQ", here, 0, offset + (value % 7 == 0), 1, bytes(32), 0)
            case _:
                return bytes([1 + value % 2]) + bytes(7)

    def _epoch_key(self, epoch: int) -> Ed25519PrivateKey:
        return private(f"epoch {epoch}")

    def _epoch_payload(self, step: Step, header: bytes) -> bytes:
        endorser = 2 if self.epoch == 0 else (1, 1, 1, 2)[step.value % 4]
        if self.last in (COMMIT, RECOVERY) and step.value % 5 == 0:
            endorser = 3
        if step.fault == "endorser":
            endorser = step.value % 5
        front = bytes([endorser]) + bytes(7) + public(self._epoch_key(self.epoch + 1))
        sealed = bytes(112)
        message = b"doorward/audit/epoch/v1\0" + self.log_id + self.h + header + front + sealed
        signer = self.root if (endorser == 2) != (step.fault == "signer") else self.key
        return front + (bytes(64) if endorser == 3 else signer.sign(message)) + sealed

    def _note(self, step: Step) -> bytes:
        size, root, origin = len(self.leaves), root_of(self.leaves or [bytes(32)]), self.origin
        lines = [(f"{origin}/epoch/{self.epoch}", self.key)]
        if step.value % 3 == 0:
            lines.append((origin, self.root))
        if step.fault == "signer":
            lines = [(lines[0][0], self.root)]
        if step.fault != "note":
            return signed_note(origin, size, root, lines)
        match step.value % 11:
            case 0:
                return signed_note(origin, size + 1, root, lines)
            case 1:
                return signed_note(origin, size, bytes(32), lines)
            case 2:
                return signed_note(origin[:-1] + "0", size, root, lines)
            case 3:
                return signed_note(origin[:-1] + "0", size, root, [(f"{origin[:-1]}0/epoch/{self.epoch}", self.key)])
            case 4:
                return signed_note(origin, size, root, [(origin, self.root)])
            case 5:
                return signed_note(origin, size, root, lines * 9)
            case 6:
                line = signed_note(origin, size, bytes(32), lines).rpartition("—".encode())[2]
                return signed_note(origin, size, root, lines) + "—".encode() + line
            case 7:
                return signed_note("elsewhere", size, root, [*lines, ("witness", private("witness"))])
            case 9:
                return signed_note(origin, size, root, lines).replace(b"\n\n", "é\n\n".encode())
            case 8:
                return signed_note(origin, size, root, lines).replace(b"=\n", b"\n")
            case _:
                return signed_note(origin, size, root, lines).replace(b"\n\n", b"\nextension\n\n")

    # -- what is kept outside

    def pin(self) -> bytes:
        keys = {"audit_key": self.audit_key, "first_epoch_key": self.first_key, "root_key": public(self.root)}
        fields = {"log_id": self.log_id, **keys}
        return json.dumps({"version": 1, **{name: value.hex() for name, value in fields.items()}}).encode()

    def anchor(self, commit: int) -> bytes:
        segment, offset, seq = self.commits[commit] if self.commits else (1, 0, 0)
        return anchor_line(self.log_id, seq, self.leaves[seq], segment=segment, offset=offset)

    def checkpoint(self, size: int, *, epoch: int = 0) -> bytes:
        """By the root key, or by that of an epoch."""
        line = (f"{self.origin}/epoch/{epoch}", private(f"epoch {epoch}")) if epoch else (self.origin, self.root)
        return signed_note(self.origin, size, root_of(self.leaves[:size]), [line])


def anchor_line(log_id: bytes, seq: int, head: bytes, *, segment: int, offset: int) -> bytes:
    names = {"epoch_key": "0" * 64, "head": head.hex(), "log_id": log_id.hex(), "offset": offset}
    text = json.dumps({**names, "segment": segment, "seq": seq, "version": 1}, separators=(",", ":"))[1:-1]
    check = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'{{"check":"{check}",{text}}}'.encode().ljust(511) + b"\n"


def signed_note(origin: str, size: int, root: bytes, lines: list[tuple[str, Ed25519PrivateKey]]) -> bytes:
    text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    note = text.encode() + b"\n"
    for name, key in lines:
        key_id = hashlib.sha256(f"{name}\n\1".encode() + public(key)).digest()[:4]
        note += f"— {name} {base64.b64encode(key_id + key.sign(text.encode())).decode()}\n".encode()
    return note

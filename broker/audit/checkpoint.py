"""Checkpoints: the size and Merkle root of the log as a signed note (C2SP signed-note and tlog-checkpoint).

Signed by the epoch's key inside the log; a second line by the root key, or by a witness, may follow. Lines of keys
that are not ours are carried and ignored. Anyone can check a note that was kept elsewhere against a later log.
"""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from broker.audit.epoch import EpochKey, signature_holds
from broker.contract.wire import JsonObject, JsonValue
from broker.core.chain import HASH_BYTES, MAX_CHECKPOINT_BYTES

_ED25519 = b"\x01"
_KEY_ID_BYTES = 4
_MAX_SIGNATURES = 16
MAX_FILE_BYTES = 4 << 20  # notes that were kept, one after the other
_SIZE = re.compile(r"[1-9][0-9]{0,18}")
_SIGNATURE_LINE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSignature:
    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A parsed checkpoint. Nothing in it is believed before a signature was checked."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[NoteSignature, ...]

    def body(self) -> bytes:
        return note_body(self.origin, self.size, self.root)

    def signed_by(self, name: str, public: bytes) -> bool | None:
        """None where this key has no line in the note."""
        wanted = key_id(name, public)
        mine = [line.signature for line in self.signatures if (line.name, line.key_id) == (name, wanted)]
        return all(signature_holds(public, signature, self.body()) for signature in mine) if mine else None


def origin_of(log_id: bytes) -> str:
    """The log's name in its notes; also the name of the root key."""
    return f"doorward/{log_id.hex()}"


def epoch_key_name(log_id: bytes, epoch: int) -> str:
    return f"{origin_of(log_id)}/epoch/{epoch}"


def key_id(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:_KEY_ID_BYTES]


def note_body(origin: str, size: int, root: bytes) -> bytes:
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n".encode()


def signature_line(name: str, public: bytes, body: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    blob = key_id(name, public) + sign(body)
    return f"— {name} {base64.b64encode(blob).decode()}\n".encode()


def signed_note(*, log_id: bytes, size: int, root: bytes, key: EpochKey) -> bytes:
    body = note_body(origin_of(log_id), size, root)
    return body + b"\n" + signature_line(epoch_key_name(log_id, key.number), key.public, body, key.sign)


def parse_note(content: bytes) -> Note | None:
    """Strict: the one spelling that `note_body` gives, and one to sixteen well-formed signature lines."""
    if len(content) > MAX_CHECKPOINT_BYTES or not content.endswith(b"\n"):
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = text[:-1].split("\n")
    if not 5 <= len(lines) <= 4 + _MAX_SIGNATURES or not lines[0] or lines[3] or not _SIZE.fullmatch(lines[1]):
        return None
    signatures = [_signature(line) for line in lines[4:]]
    known = tuple(line for line in signatures if line is not None)
    root = _unbase64(lines[2])
    if len(known) != len(signatures) or root is None or len(root) != HASH_BYTES:
        return None
    return Note(origin=lines[0], size=int(lines[1]), root=root, signatures=known)


def parse_notes(content: bytes) -> tuple[Note, ...] | None:
    """The notes of a checkpoint file, an empty line after each; None unless it holds at least one and nothing else."""
    if len(content) > MAX_FILE_BYTES or not content.endswith(b"\n"):
        return None
    closed = content[:-2] if content.endswith(b"\n\n") else content[:-1]
    halves = closed.split(b"\n\n")  # the text, the signatures, the next text
    if len(halves) % 2:
        return None
    pairs = zip(halves[::2], halves[1::2], strict=True)
    notes = [parse_note(b"%b\n\n%b\n" % pair) for pair in pairs]
    known = tuple(note for note in notes if note is not None)
    return known if len(known) == len(notes) else None


def in_figures(seq: int, content: bytes, at_ms: JsonValue) -> JsonObject:
    """A checkpoint of the log for a listing; what can't be read of the note is null."""
    note = parse_note(content)
    names = [] if note is None else [line.name for line in note.signatures]
    origin = None if note is None else note.origin
    epochs = [name.rpartition("/")[2] for name in names if origin is not None and name.startswith(f"{origin}/epoch/")]
    return {
        "seq": seq,
        "at_ms": at_ms,
        "note": content.decode("utf-8", "replace"),
        "size": None if note is None else note.size,
        "epoch": int(epochs[0]) if epochs and epochs[0].isascii() and epochs[0].isdecimal() else None,
        "countersigned": origin in names,
    }


def _signature(line: str) -> NoteSignature | None:
    match = _SIGNATURE_LINE.fullmatch(line)
    blob = None if match is None else _unbase64(match[2])
    if match is None or blob is None or len(blob) < _KEY_ID_BYTES:
        return None
    return NoteSignature(name=match[1], key_id=blob[:_KEY_ID_BYTES], signature=blob[_KEY_ID_BYTES:])


def _unbase64(text: str) -> bytes | None:
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError:  # also where there are other characters than those of ASCII
        return None
    return decoded if base64.b64encode(decoded).decode() == text else None

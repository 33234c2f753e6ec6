"""What is done to copies of the logs, in a form that any program can apply."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.pin import Anchor, Pin
from broker.contract.wire import JsonValue
from tests.fakes.forger import CHECKPOINT, COMMIT, END, EPOCH, EVENT, RECOVERY, SEGMENT, Forger, Raw
from tests.vectors.audit.edits import LOGS

Edit = dict[str, JsonValue]


def edits(records: list[Raw]) -> Iterator[tuple[str, list[Edit]]]:
    """What is done to a copy, in a form that any program can apply."""
    last = records[-1]
    files = sorted({record.file.name for record in records})
    after = f"{len(files) + 1:08d}.seg"
    names = {SEGMENT: "segment", EPOCH: "epoch", EVENT: "event", COMMIT: "commit", CHECKPOINT: "checkpoint"}
    names |= {RECOVERY: "recovery", END: "end"}
    for kind, name in names.items():
        record = [record for record in records if record.kind == kind][:2][-1]
        for field, at in {"length": 3, "type": 4, "flags": 5, "reserved": 6, "epoch": 11, "seq": 19}.items():
            yield f"{name}: {field} bit flipped", [flip(record, at)]
        yield f"{name}: payload bit flipped", [flip(record, 20)]
        yield f"{name}: hash bit flipped", [flip(record, record.size - 1)]
    event, commit = (next(record for record in records if record.kind == kind and record.seq > 8) for kind in (3, 4))
    yield "untouched", []
    yield "event deleted", [splice(event, event.offset, event.end, b"")]
    yield "event repeated", [splice(event, event.offset, event.offset, content(event))]
    yield "event and commit exchanged", [splice(event, event.offset, commit.end, content(commit) + content(event))]
    yield "last commit: signature bit flipped", [flip(last, 20)]
    yield "last commit cut off", [splice(last, last.offset, last.end, b"")]
    yield "cut inside the last commit", [splice(last, last.offset + 30, last.end, b"")]
    before = [record for record in records if record.kind == COMMIT and record.file == last.file][-2]
    yield "cut at the commit before", [splice(last, before.end, last.end, b"")]
    due = replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(80)).header()
    yield "beginning of the due record at the end", [splice(last, last.end, last.end, due + b"sealed")]
    for length in (1, 4, 5, 9, 12, 19):
        yield f"{length} bytes of the due header at the end", [splice(last, last.end, last.end, due[:length])]
    yield (
        "header of the due record with another epoch at the end",
        [splice(last, last.end, last.end, due[:11] + b"\x63" + due[12:])],
    )
    yield "part of a header with another epoch at the end", [splice(last, last.end, last.end, due[:11] + b"\x63")]
    yield "header of a later record at the end", [splice(last, last.end, last.end, due[:19] + bytes([due[19] + 3]))]
    yield (
        "record of a later number at the end",
        [splice(last, last.end, last.end, due[:19] + bytes([due[19] + 3]) + bytes(112))],
    )
    yield "whole record with a wrong hash at the end", [splice(last, last.end, last.end, due + bytes(80) + b"\1" * 32)]
    yield "wrong hash and more at the end", [splice(last, last.end, last.end, due + bytes(80) + b"\1" * 32 + b"more")]
    yield "zeros and then a byte at the end", [splice(last, last.end, last.end, bytes(100) + b"\1")]
    yield "zeros in the place of the last record", [splice(last, last.offset, last.end, bytes(last.size))]
    yield "zeros in the place of a record in the middle", [splice(event, event.offset, event.end, bytes(event.size))]
    yield "zeros at the end", [splice(last, last.end, last.end, bytes(100))]
    yield "garbage at the end", [splice(last, last.end, last.end, b"garbage")]
    unsigned = due + bytes(80)
    chained = unsigned + hashlib.sha256(last.hash + unsigned).digest()
    yield "event without a commit at the end", [splice(last, last.end, last.end, chained)]
    front = replace(last, seq=last.seq + 2).header() + bytes(64)
    forged = front + hashlib.sha256(chained[-32:] + front).digest()
    yield "event and forged commit at the end", [splice(last, last.end, last.end, chained + forged)]
    yield (
        "length that reaches over all that follows",
        [splice(event, event.offset, event.offset + 4, (64 * 4000 + 32).to_bytes(4, "big"))],
    )
    group = next(record for record in records if record.kind == EVENT and record.seq == last.seq - 1)
    boundary = (group.offset // 512 + 1) * 512
    for what, start, end in (("before", group.offset, boundary), ("after", boundary, last.end - 40)):
        yield f"the last group without what lies {what} a block's end", [splice(last, start, end, bytes(end - start))]
    epoch = [record for record in records if record.kind == EPOCH][-1]
    yield "zeros in the place of the last epoch", [splice(epoch, epoch.offset, epoch.end, bytes(epoch.size))]
    yield "length of 0xffffffff", [splice(event, event.offset, event.offset + 4, b"\xff" * 4)]
    yield "first segment removed", [{"op": "remove", "file": "00000001.seg"}]
    yield "middle segment removed", [{"op": "remove", "file": "00000002.seg"}]
    yield "last segment removed", [{"op": "remove", "file": last.file.name}]
    yield "segments exchanged", [{"op": "exchange", "file": "00000001.seg", "with": "00000002.seg"}]
    yield (
        "segment of another log at the end",
        [{"op": "copy", "file": after, "log": "two-segments", "of": "00000002.seg"}],
    )
    yield (
        "segment of another log in the middle",
        [{"op": "copy", "file": "00000002.seg", "log": "two-segments", "of": "00000002.seg"}],
    )
    yield "last segment a second time", [{"op": "copy", "file": after, "log": "whole", "of": last.file.name}]
    yield "empty segment at the end", [{"op": "splice", "file": after, "start": 0, "end": 0, "hex": ""}]
    yield "all segments removed", [{"op": "remove", "file": name} for name in files]
    yield (
        "all segments emptied",
        [{"op": "splice", "file": name, "start": 0, "end": 1 << 30, "hex": ""} for name in files],
    )
    yield (
        "text in the first segment",
        [{"op": "splice", "file": "00000001.seg", "start": 0, "end": 1 << 30, "hex": b"hello".hex()}],
    )
    yield "last segment emptied", [splice(last, 0, last.end, b"")]
    yield "first segment emptied", [{"op": "splice", "file": "00000001.seg", "start": 0, "end": 1 << 30, "hex": ""}]
    yield "foreign file", [{"op": "splice", "file": "note.txt", "start": 0, "end": 0, "hex": "68656c6c6f"}]


def rehashed(log: str) -> Iterator[tuple[str, list[Edit]]]:
    """Changes after which every hash was made anew, as somebody without a key can do."""
    with tempfile.TemporaryDirectory() as place:
        records = _copy(log, Path(place) / "look").records
    events = [record for record in records if record.kind == EVENT]
    last = {kind: [record for record in records if record.kind == kind][-1] for kind in (CHECKPOINT, EPOCH, COMMIT)}
    victims = {"event in an old epoch": events[4], "event in the last epoch": events[-1]}
    victims |= {"checkpoint": last[CHECKPOINT], "epoch": last[EPOCH], "commit": last[COMMIT]}
    for name, victim in victims.items():
        yield f"{name} changed, all hashed anew", _anew(log, spoiling(victim.seq))
    for name, victim in victims.items():
        yield f"{name} left out, all hashed anew", _anew(log, dropping(victim.seq))


def _anew(log: str, change: Callable[[Raw], Raw | None]) -> list[Edit]:
    with tempfile.TemporaryDirectory() as place:
        forger = _copy(log, Path(place) / "copy")
        forger.rechain(change)
        whole = {path.name: path.read_bytes().hex() for path in forger.files}
    return [{"op": "splice", "file": file, "start": 0, "end": 1 << 30, "hex": fresh} for file, fresh in whole.items()]


def _copy(log: str, target: Path) -> Forger:
    place = LOGS / log
    anchor = Anchor.load(place / "anchor.json")
    return Forger(place / "audit", target, pin=Pin.load(place / "pin.json"), anchor=anchor)


def by_a_stranger(log: str) -> Iterator[tuple[str, list[Edit]]]:
    """Somebody who holds no key of the log goes on with it in an epoch of his own."""
    with tempfile.TemporaryDirectory() as place:
        forger = _copy(log, Path(place) / "copy")
        last, epoch = forger.records[-1], forger.last(EPOCH)
        key = Ed25519PrivateKey.generate()
        for endorser, signed in ((3, False), (3, True), (1, True), (2, True), (9, True)):
            yield (
                f"epoch of a stranger, endorser {endorser}, {'signed' if signed else 'zeros'}",
                [splice(last, last.end, last.end, _strange_epoch(forger, key, last, epoch, endorser, signed=signed))],
            )


def _strange_epoch(
    forger: Forger, key: Ed25519PrivateKey, last: Raw, epoch: Raw, endorser: int, *, signed: bool
) -> bytes:
    log_id = bytes.fromhex(forger.pin.log_id)
    front = bytes([endorser]) + bytes(7) + key.public_key().public_bytes_raw()
    began = replace(epoch, epoch=last.epoch + 1, seq=last.seq + 1)
    message = b"doorward/audit/epoch/v1\0" + log_id + last.hash + began.header() + front + bytes(112)
    began = replace(began, payload=front + (key.sign(message) if signed else bytes(64)) + bytes(112))
    first = _chained(began, last.hash)
    event = _chained(replace(began, kind=EVENT, seq=last.seq + 2, payload=bytes(80)), first[-32:])
    commit = replace(began, kind=COMMIT, seq=last.seq + 3, payload=bytes(64))
    message = b"doorward/audit/commit/v1\0" + log_id + event[-32:] + commit.header()
    return first + event + _chained(replace(commit, payload=key.sign(message)), event[-32:])


def _chained(record: Raw, head: bytes) -> bytes:
    front = record.header() + record.payload
    return front + hashlib.sha256(head + front).digest()


def in_a_stretch(log: str, records: list[Raw]) -> Iterator[tuple[str, list[Edit]]]:
    """Changes inside and around a stretch that nobody endorses."""
    began = next(record for record in records if record.kind == EPOCH and record.payload[0] == 3)
    inside = [record for record in records if record.seq > began.seq]
    before = [record for record in records if record.seq < began.seq]
    commit = next(record for record in inside if record.kind == COMMIT)
    event = next(record for record in inside if record.kind == EVENT)
    yield "stretch: untouched", []
    yield "stretch: its epoch's key changed", [flip(began, 30)]
    yield "stretch: its epoch left out", [splice(began, began.offset, began.end, b"")]
    yield "stretch: cut before it", _cut(began.file, began.offset, records)
    yield "stretch: cut inside it", _cut(commit.file, commit.end, records)
    yield "stretch: torn inside it", _cut(event.file, event.offset + 30, records)
    yield "stretch: an event in it changed", [flip(event, 30)]
    yield "stretch: a commit in it changed, all hashed anew", _anew(log, spoiling(commit.seq))
    yield "stretch: an event in it changed, all hashed anew", _anew(log, spoiling(event.seq))
    lost = [record for record in before if record.kind == COMMIT][-1]
    yield "stretch: the commit before it changed, all hashed anew", _anew(log, spoiling(lost.seq))
    early = next(record for record in before if record.kind == EVENT)
    yield "stretch: an event before it changed", [flip(early, 30)]


def _cut(file: Path, size: int, records: list[Raw]) -> list[Edit]:
    later = sorted({record.file.name for record in records if record.file.name > file.name})
    cut: Edit = {"op": "splice", "file": file.name, "start": size, "end": 1 << 30, "hex": ""}
    gone: list[Edit] = [{"op": "remove", "file": name} for name in later]
    return [cut, *gone]


def dropping(seq: int) -> Callable[[Raw], Raw | None]:
    return lambda record: None if record.seq == seq else record


def spoiling(seq: int) -> Callable[[Raw], Raw]:
    """Change the last bit of that record's payload."""

    def change(record: Raw) -> Raw:
        payload = record.payload[:-1] + bytes([record.payload[-1] ^ 1])
        return replace(record, payload=payload) if record.seq == seq else record

    return change


def flip(record: Raw, at: int) -> Edit:
    return {"op": "flip", "file": record.file.name, "offset": record.offset + at, "mask": 1}


def splice(record: Raw, start: int, end: int, fresh: bytes) -> Edit:
    return {"op": "splice", "file": record.file.name, "start": start, "end": end, "hex": fresh.hex()}


def content(record: Raw) -> bytes:
    return record.file.read_bytes()[record.offset : record.end]

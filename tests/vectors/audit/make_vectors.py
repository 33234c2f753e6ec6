"""Makes the vectors of the audit format anew: a small log, its keys, its events, and changed copies with verdicts.

    python -m tests.vectors.audit.make_vectors

Run it only when the format changes, which means a new version of it: keys and records are random each time.
All keys here are made for these vectors and guard nothing.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.limits import WriterLimits
from broker.audit.payload import commit_message, unpack_epoch, unpack_segment
from broker.audit.pin import Anchor, Pin
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason, open_opening
from broker.contract.wire import JsonObject, JsonValue
from tests.fakes.forger import CHECKPOINT, COMMIT, END, EPOCH, EVENT, RECOVERY, SEGMENT, Forger, Raw, records_of
from tests.fakes.logs import SmallLog, new_log, write_events
from tests.vectors.audit.edits import apply_edits, judge

HERE = Path(__file__).resolve().parent
LIMITS = WriterLimits(segment_bytes=2200, epoch_events=6, min_free_bytes=0, reserve_bytes=1024)

Edit = dict[str, JsonValue]


def build(log: SmallLog) -> None:
    """Every record type, three segments, a recovered tear, a lock, and one epoch cut short by a crash."""
    with log.writer(limits=LIMITS) as writer:
        write_events(writer, 3)
    last = log.segments()[-1]
    last.write_bytes(last.read_bytes() + bytes.fromhex("000001600300"))
    writer = log.open(limits=LIMITS)
    write_events(writer, 4, first=3)
    writer.new_epoch_blocking(EpochReason.LOCK)
    for number in range(7, 10):
        write_events(writer, 1, first=number)
    copy = Path(shutil.copytree(log.base, log.base.with_name("kept")))
    writer.close()
    shutil.rmtree(log.base)
    copy.rename(log.base)


def edits(records: list[Raw]) -> Iterator[tuple[str, list[Edit]]]:
    """What is done to a copy, in a form that any program can apply."""
    last = records[-1]
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
    yield "zeros at the end", [splice(last, last.end, last.end, bytes(100))]
    yield "garbage at the end", [splice(last, last.end, last.end, b"garbage")]
    unsigned = due + bytes(80)
    chained = unsigned + hashlib.sha256(last.hash + unsigned).digest()
    yield "event without a commit at the end", [splice(last, last.end, last.end, chained)]
    front = replace(last, seq=last.seq + 2).header() + bytes(64)
    forged = front + hashlib.sha256(chained[-32:] + front).digest()
    yield "event and forged commit at the end", [splice(last, last.end, last.end, chained + forged)]
    yield "length of 0xffffffff", [splice(event, event.offset, event.offset + 4, b"\xff" * 4)]
    yield "first segment removed", [{"op": "remove", "file": "00000001.seg"}]
    yield "middle segment removed", [{"op": "remove", "file": "00000002.seg"}]
    yield "last segment removed", [{"op": "remove", "file": last.file.name}]
    yield "segments exchanged", [{"op": "exchange", "file": "00000001.seg", "with": "00000002.seg"}]
    yield "last segment emptied", [splice(last, 0, last.end, b"")]
    yield "first segment emptied", [{"op": "splice", "file": "00000001.seg", "start": 0, "end": 1 << 30, "hex": ""}]
    yield "foreign file", [{"op": "splice", "file": "note.txt", "start": 0, "end": 0, "hex": "68656c6c6f"}]


def rehashed(log: SmallLog, records: list[Raw]) -> Iterator[tuple[str, list[Edit]]]:
    """Changes after which every hash was made anew, as somebody without a key can do."""
    events = [record for record in records if record.kind == EVENT]
    checkpoint = [record for record in records if record.kind == CHECKPOINT][-1]
    victims = {"event in an old epoch": events[4], "event in the last epoch": events[-1], "checkpoint": checkpoint}
    for name, victim in victims.items():
        with tempfile.TemporaryDirectory() as place:
            forger = Forger(log.directory, Path(place) / "copy", pin=log.pin, anchor=log.anchor)
            forger.rechain(spoiling(victim.seq))
            whole = {path.name: path.read_bytes().hex() for path in forger.files}
        yield (
            f"{name} changed, all hashed anew",
            [{"op": "splice", "file": file, "start": 0, "end": 1 << 30, "hex": fresh} for file, fresh in whole.items()],
        )


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


def primitives(log: SmallLog, records: list[Raw]) -> JsonObject:
    """What each computation of the format gives, step by step, for records of this log."""
    identity = log.pin.identity()
    epoch = next(record for record in records if record.kind == EPOCH)
    event = next(record for record in records if record.kind == EVENT)
    commit = next(record for record in records if record.kind == COMMIT)
    before = {record.seq: records[record.seq - 1].hash for record in (epoch, event, commit)}
    entry = unpack_epoch(epoch.payload)
    segment = unpack_segment(records[0].payload)
    assert entry is not None
    assert segment is not None
    of_event = next(record for record in reversed(records[: event.seq]) if record.kind == EPOCH)
    own = unpack_epoch(of_event.payload)
    assert own is not None
    opening = open_opening(
        own.sealed,
        audit_sk=X25519PrivateKey.from_private_bytes(log.secrets.audit_sk.reveal()),
        log_id=identity.log_id,
        epoch=of_event.epoch,
        epoch_key=own.key,
    )
    assert opening is not None
    secret = opening.secret.reveal()
    return {
        "genesis": identity.genesis().hex(),
        "epoch_of_first_event": {"epoch": of_event.epoch, "secret": secret.hex(), "reason": opening.reason},
        "first_ratchet_step": hashlib.blake2b(b"doorward/audit/ratchet/v1", key=secret).hexdigest(),
        "first_event": {"seq": event.seq, "previous": before[event.seq].hex(), "header": event.header().hex()},
        "first_commit_message": commit_message(identity.log_id, before[commit.seq], commit.header()).hex(),
    }


def save(name: str, value: JsonValue) -> None:
    (HERE / name).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        log = new_log(Path(place) / "log")
        build(log)
        shutil.rmtree(HERE / "log", ignore_errors=True)
        shutil.copytree(log.directory, HERE / "log")
        (HERE / "log" / "reserve").unlink()
        shutil.copy(log.paths.pin, HERE / "pin.json")
        shutil.copy(log.paths.anchor, HERE / "anchor.json")
        records = [record for path in log.segments() for record in records_of(path)]
        save("keys.json", {"audit_sk": log.secrets.audit_sk.reveal().hex(), "only": "made for these vectors"})
        save("primitives.json", primitives(log, records))
        events = read_events(log.directory, log.secrets.audit_sk)
        save("events.json", [{"seq": seq, "event": event} for seq, event in events])
        steps = [*edits(records), *rehashed(log, records)]
        save("cases.json", [case(name, edit) for name, edit in steps])


def case(name: str, steps: list[Edit]) -> JsonObject:
    pin, anchor = Pin.load(HERE / "pin.json"), Anchor.load(HERE / "anchor.json")
    with tempfile.TemporaryDirectory() as place:
        target = apply_edits(HERE / "log", Path(place) / "audit", steps)
        anchored, alone = judge(target, pin, anchor), judge(target, pin, None)
    return {"name": name, "edits": steps, "anchored": anchored, "alone": alone}


if __name__ == "__main__":
    main()

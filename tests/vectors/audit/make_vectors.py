"""Makes the vectors of the audit format anew: small logs, what is known of them outside, changed copies, and answers.

    python -m tests.vectors.audit.make_vectors [--answers]

Keys and records are random each time: run it only when the format changes. With --answers the logs stay as they are,
and the changes and what the verifier says of them are set down anew. All keys here guard nothing.
"""

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.payload import commit_message, unpack_epoch, unpack_segment
from broker.audit.reader import read_events
from broker.audit.seal import open_opening
from broker.contract.wire import JsonObject, JsonValue
from tests.fakes.forger import COMMIT, EPOCH, EVENT, Raw, records_of
from tests.fakes.logs import SmallLog
from tests.vectors.audit.changes import Edit, by_a_stranger, edits, in_a_stretch, rehashed
from tests.vectors.audit.edits import HERE, LOGS, answer, apply_edits, knowledge_of
from tests.vectors.audit.scenes import SCENES, Scene


def keep(name: str, scene: Scene) -> None:
    """The log as it was left, and what is known of it outside; some of that is not true."""
    log, place = scene.log, LOGS / name
    shutil.copytree(log.directory, place / "audit")
    (place / "audit" / "reserve").unlink(missing_ok=True)
    shutil.copy(log.paths.pin, place / "pin.json")
    anchor, notes = log.anchor, scene.notes
    files = {
        "anchor.json": anchor.pack(),
        "older.json": scene.older.pack(),
        "ahead.json": replace(anchor, seq=anchor.seq + 5, head="11" * 32).pack(),
        "rewritten.json": replace(scene.older, head="22" * 32).pack(),
        "checkpoints.txt": b"\n".join(notes),
        "first-checkpoint.txt": notes[0],
        "checkpoint-ahead.txt": _other_line(notes[-1], 1, b"%d" % (anchor.seq + 50)),
        "checkpoint-other-root.txt": _other_line(notes[0], 2, b"A" * 43 + b"="),
        "checkpoint-unsigned.txt": notes[0].replace("— ".encode(), "— elsewhere/".encode()),
        "checkpoint-false.txt": notes[0][:-6] + (b"AAAA" if notes[0][-6:-2] != b"AAAA" else b"BBBB") + notes[0][-2:],
        "not-a-checkpoint.txt": notes[0] + b"\n\n",
    }
    for file, content in files.items():
        (place / file).write_bytes(content)


def _other_line(note: bytes, number: int, fresh: bytes) -> bytes:
    lines = note.split(b"\n")
    return b"\n".join([*lines[:number], fresh, *lines[number + 1 :]])


def records_in(log: str) -> list[Raw]:
    """Up to a torn tail."""
    return [record for path in sorted((LOGS / log / "audit").glob("*.seg")) for record in records_of(path)]


def changes() -> Iterator[tuple[str, str, Sequence[Edit]]]:
    """Log, name, edits."""
    whole = records_in("whole")
    for make in (edits(whole), rehashed("whole"), by_a_stranger("whole")):
        yield from (("whole", name, steps) for name, steps in make)
    for log in ("unendorsed", "endorsed-again"):
        yield from ((log, name, steps) for name, steps in in_a_stretch(log, records_in(log)))
    for log in SCENES:
        yield log, "as it was left", []


def cases() -> Iterator[JsonObject]:
    for log, name, steps in changes():
        with tempfile.TemporaryDirectory() as place:
            target = apply_edits(log, Path(place) / "audit", steps)
            answers = {kind: answer(target, known) for kind, known in knowledge_of(log).items()}
        yield {"name": f"{log}: {name}", "log": log, "edits": list(steps), "answers": answers}


def known() -> Iterator[JsonObject]:
    """Untouched logs against all kinds of knowledge, true and false."""

    def held(log: str, **rungs: str) -> list[JsonValue]:
        return [{"rung": rung, "file": f"{log}/{file}.json"} for rung, file in rungs.items()]

    for log in ("whole", "endorsed-again", "taken-over", "torn", "unendorsed"):
        other = "two-segments"
        kinds: dict[str, tuple[str, list[JsonValue], str | None]] = {
            "one rung behind another": (log, held(log, file="anchor", vault="older"), None),
            "only an older anchor": (log, held(log, keyring="older"), None),
            "the same anchor at two rungs": (log, held(log, file="anchor", keyring="anchor"), None),
            "all rungs": (log, held(log, file="anchor", keyring="older", vault="older"), "checkpoints"),
            "an anchor outside": (log, held(log, outside="older"), None),
            "an anchor of another log": (log, held(log, file="anchor") + held(other, vault="anchor"), None),
            "an anchor ahead": (log, held(log, file="anchor", vault="ahead"), None),
            "an older anchor contradicts": (log, held(log, file="anchor", vault="rewritten"), None),
            "two anchors contradict": (log, held(log, file="rewritten", vault="rewritten"), None),
            "a contradiction and one ahead": (log, held(log, file="ahead", vault="rewritten"), None),
            "a pin of another log": (other, held(log, file="anchor"), None),
            "the first checkpoint": (log, [], "first-checkpoint"),
            "a checkpoint ahead": (log, [], "checkpoint-ahead"),
            "a checkpoint with another root": (log, held(log, file="anchor"), "checkpoint-other-root"),
            "a checkpoint of unknown keys": (log, held(log, file="anchor"), "checkpoint-unsigned"),
            "a checkpoint with a false signature": (log, held(log, file="anchor"), "checkpoint-false"),
            "no checkpoint at all": (log, held(log, file="anchor"), "not-a-checkpoint"),
        }
        for name, (pin, anchors, note) in kinds.items():
            knowledge: JsonObject = {
                "pin": f"{pin}/pin.json",
                "anchors": anchors,
                "checkpoints": None if note is None else f"{log}/{note}.txt",
            }
            told = answer(LOGS / log / "audit", knowledge)
            yield {"name": f"{log}: {name}", "log": log, "knowledge": knowledge, "answer": told}


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


def save_lines(name: str, rows: Iterator[JsonObject]) -> None:
    """A list, one case a line."""
    lines = ",\n".join(json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows)
    (HERE / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def make_logs() -> None:
    shutil.rmtree(LOGS, ignore_errors=True)
    for name, make in SCENES.items():
        with tempfile.TemporaryDirectory() as place:
            scene = Scene(Path(place) / "log")
            make(scene)
            keep(name, scene)
            if name == "whole":
                log = scene.log
                save("keys.json", {"audit_sk": log.secrets.audit_sk.reveal().hex(), "only": "made for these vectors"})
                save("primitives.json", primitives(log, records_in(name)))
                events = read_events(log.directory, log.secrets.audit_sk)
                save("events.json", [{"seq": seq, "event": event} for seq, event in events])


def main() -> None:
    if "--answers" not in sys.argv[1:]:
        make_logs()
    save_lines("cases.json", cases())
    save_lines("knowledge.json", known())


if __name__ == "__main__":
    main()

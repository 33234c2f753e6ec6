"""What the second verifier says of every vector: the text alone is enough to agree."""

import ast
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.second_format import Type, own_segment, well_formed_header
from tests.vectors.second_reader import next_keys, open_epoch, open_events
from tests.vectors.second_verifier import verify

HERE = Path(__file__).parent
VECTORS = HERE / "audit"
LOGS = VECTORS / "logs"
OWN_FILES = ("second_format", "second_walk", "second_verifier", "second_reader")


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def answer_of(*places: Path, **knowledge: Any) -> dict[str, object]:
    answer, exit_code = verify([str(place) for place in places], **knowledge)
    answer.pop("note")
    return answer | {"exit_code": exit_code}


def edit(directory: Path, change: dict[str, Any]) -> None:
    """One edit of section 10."""
    path = directory / change["file"]
    match change["op"]:
        case "flip":
            content = bytearray(path.read_bytes())
            content[change["offset"]] ^= change["mask"]
            path.write_bytes(content)
        case "splice":
            content = bytearray(path.read_bytes() if path.exists() else b"")
            content[change["start"] : change["end"]] = bytes.fromhex(change["hex"])
            path.write_bytes(content)
        case "remove":
            path.unlink()
        case "exchange":
            other = directory / change["with"]
            ours, theirs = path.read_bytes(), other.read_bytes()
            path.write_bytes(theirs)
            other.write_bytes(ours)
        case "copy":
            shutil.copyfile(LOGS / change["log"] / "audit" / change["of"], path)
        case _:
            raise AssertionError(change)


def edited_copy(case: dict[str, Any], directory: Path) -> Path:
    shutil.copytree(LOGS / case["log"] / "audit", directory)
    for change in case["edits"]:
        edit(directory, change)
    return directory


def kinds_of_knowledge(log: str) -> dict[str, dict[str, Any]]:
    pin = str(LOGS / log / "pin.json")
    return {
        "unpinned": {},
        "alone": {"pin": pin},
        "anchored": {"pin": pin, "anchors": [("file", str(LOGS / log / "anchor.json"))]},
        "noted": {"pin": pin, "checkpoints": [str(LOGS / log / "checkpoints.txt")]},
    }


def test_it_imports_nothing_of_the_project() -> None:
    allowed = {*sys.stdlib_module_names, "cryptography", *(f"tests.vectors.{name}" for name in OWN_FILES)}

    def imported(name: str) -> Iterator[str]:
        for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                yield str(node.module)

    foreign = {
        module
        for name in OWN_FILES
        for module in imported(name)
        if module not in allowed and module.partition(".")[0] not in allowed
    }

    assert set() == foreign


def test_it_agrees_about_every_edited_log(tmp_path: Path) -> None:
    for case in vectors("cases"):
        directory = edited_copy(case, tmp_path / "audit")
        for kind, knowledge in kinds_of_knowledge(case["log"]).items():
            assert (case["name"], kind, case["answers"][kind]) == (
                case["name"],
                kind,
                answer_of(directory, **knowledge),
            )
        shutil.rmtree(directory)


@pytest.mark.parametrize("case", vectors("knowledge"), ids=lambda case: case["name"])
def test_it_agrees_about_all_outside_knowledge(case: dict[str, Any]) -> None:
    given = case["knowledge"]
    knowledge = {
        "pin": given["pin"] and str(LOGS / given["pin"]),
        "anchors": [(anchor["rung"], str(LOGS / anchor["file"])) for anchor in given["anchors"]],
        "checkpoints": [str(LOGS / given["checkpoints"])] if given["checkpoints"] else [],
    }

    assert case["answer"] == answer_of(LOGS / case["log"] / "audit", **knowledge)


def test_its_primitives_are_those_of_the_text() -> None:
    assert vectors("primitives") == computed_primitives((LOGS / "whole" / "audit" / "00000001.seg").read_bytes())


def computed_primitives(data: bytes) -> dict[str, object]:
    """The first of each kind in a log, step by step."""
    own = own_segment(data)
    assert own
    identity, start, epoch, commit_message = own.identity, 0, b"", b""
    while (header := well_formed_header(data, start)) and header.type != Type.EVENT:
        if header.type == Type.EPOCH:
            epoch = data[start : start + header.record_bytes]
        if header.type == Type.COMMIT and not commit_message:
            commit_message = b"doorward/audit/commit/v1\0" + identity.log_id + data[start - 32 : start + 20]
        start += header.record_bytes
    assert header
    secret = bytes.fromhex(vectors("keys")["audit_sk"])
    opening = open_epoch(secret, identity.log_id, header.epoch, epoch[20:-32])
    return {
        "genesis": identity.genesis.hex(),
        "first_commit_message": commit_message.hex(),
        "epoch_of_first_event": {
            "epoch": header.epoch,
            "reason": opening.reason,
            "secret": opening.epoch_secret.hex(),
        },
        "first_event": {
            "header": header.packed.hex(),
            "previous": data[start - 32 : start].hex(),
            "seq": header.seq,
        },
        "first_ratchet_step": b"".join(next_keys(opening.epoch_secret)).hex(),
    }


def test_it_opens_every_event() -> None:
    secret = bytes.fromhex(vectors("keys")["audit_sk"])

    opened = [{"event": event, "seq": seq} for seq, event in open_events(LOGS / "whole" / "audit", secret)]

    assert vectors("events") == opened


def test_its_command_prints_the_answer_and_exits_with_its_code(tmp_path: Path) -> None:
    log = LOGS / "two-segments"
    answer = answer_of(log / "audit", pin=str(log / "pin.json"), anchors=[("vault", str(log / "anchor.json"))])
    command = [sys.executable, str(HERE / "second_verifier.py"), "--pin", str(log / "pin.json")]
    command += ["--anchor", f"vault={log / 'anchor.json'}", str(log / "audit")]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)

    printed = json.loads(done.stdout)
    assert printed.pop("note")
    assert answer == printed | {"exit_code": done.returncode}


def test_beside_a_writer_a_tail_is_a_group_that_is_being_written(tmp_path: Path) -> None:
    directory = shutil.copytree(LOGS / "two-segments" / "audit", tmp_path / "audit")
    last = directory / "00000002.seg"
    last.write_bytes(last.read_bytes()[:-10])
    writer = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(writer, fcntl.LOCK_EX)
        beside_it = answer_of(directory)
    finally:
        os.close(writer)

    assert (True, "OK_UNANCHORED") == (beside_it["live"], beside_it["verdict"])
    assert (False, "TORN_OR_TAMPERED") == (answer_of(directory)["live"], answer_of(directory)["verdict"])


HOSTILE = {
    "deep": b"[" * 4096,
    "number": b'{"version":' + b"9" * 4000 + b"}",
    "number alone": b"7",
    "not utf-8": b"\xff\xfe{}",
    "surrogate": b'{"version":1,"log_id":"\\ud800","audit_key":1,"first_epoch_key":[],"root_key":{}}',
    "empty": b"",
    "zeros": bytes(600),
    "size": b"doorward/0123456789abcdef\n" + b"9" * 5000 + b"\n" + b"A" * 43 + b"=\n\n",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_knowledge_is_called_unreadable(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "hostile").write_bytes(content)
    hostile, log = str(tmp_path / "hostile"), LOGS / "torn" / "audit"

    assert "UNREADABLE" == answer_of(log, pin=hostile)["verdict"]
    assert "UNREADABLE" == answer_of(log, anchors=[("file", hostile)])["verdict"]
    assert "UNREADABLE" == answer_of(log, checkpoints=[hostile])["verdict"]

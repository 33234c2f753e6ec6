"""The vectors of docs/audit-format.md, which any second implementation must meet as well."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.audit.payload import unpack_epoch
from broker.audit.pin import Pin
from broker.audit.reader import read_events
from broker.audit.seal import open_opening
from broker.audit.verdict import Rung, VerdictName
from broker.core.secret import Secret
from tests.fakes.forger import EPOCH, EVENT, records_of
from tests.vectors.audit.edits import answer, apply_edits, knowledge_of

VECTORS = Path(__file__).parents[1] / "vectors" / "audit"
CASES = json.loads((VECTORS / "cases.json").read_text())
KNOWLEDGE = json.loads((VECTORS / "knowledge.json").read_text())
PRIMITIVES = json.loads((VECTORS / "primitives.json").read_text())
AUDIT_SK = bytes.fromhex(json.loads((VECTORS / "keys.json").read_text())["audit_sk"])
WHOLE = VECTORS / "logs" / "whole"
PIN = Pin.load(WHOLE / "pin.json")
RECORDS = [record for path in sorted((WHOLE / "audit").glob("*.seg")) for record in records_of(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_each_case_has_the_verdicts_that_were_set_down(case: dict[str, Any], tmp_path: Path) -> None:
    target = apply_edits(case["log"], tmp_path / "audit", case["edits"])
    told = {kind: answer(target, known) for kind, known in knowledge_of(case["log"]).items()}

    assert case["answers"] == told


@pytest.mark.parametrize("case", KNOWLEDGE, ids=lambda case: case["name"])
def test_what_is_known_outside_is_weighed_as_was_set_down(case: dict[str, Any]) -> None:
    assert case["answer"] == answer(VECTORS / "logs" / case["log"] / "audit", case["knowledge"])


def test_the_cases_reach_every_verdict_that_a_changed_log_can_have() -> None:
    assert set(VerdictName) == {told["verdict"] for case in CASES for told in case["answers"].values()}


def test_every_rung_is_reached_by_some_knowledge() -> None:
    assert set(Rung) == {case["answer"]["rung"] for case in KNOWLEDGE}


def test_the_events_open_as_they_were_set_down() -> None:
    expected = json.loads((VECTORS / "events.json").read_text())

    assert expected == [{"seq": seq, "event": event} for seq, event in read_events(WHOLE / "audit", Secret(AUDIT_SK))]


def test_the_genesis_hash_is_the_one_set_down_and_begins_the_chain() -> None:
    parts = bytes.fromhex(PIN.log_id + PIN.audit_key + PIN.first_epoch_key + PIN.root_key)
    genesis = hashlib.sha256(b"doorward/audit/genesis/v1\0" + parts).digest()

    assert PRIMITIVES["genesis"] == genesis.hex()
    assert hashlib.sha256(genesis + RECORDS[0].header() + RECORDS[0].payload).digest() == RECORDS[0].hash


def test_the_first_event_opens_step_by_step() -> None:
    event = next(record for record in RECORDS if record.kind == EVENT)
    epoch = next(record for record in reversed(RECORDS[: event.seq]) if record.kind == EPOCH)
    entry = unpack_epoch(epoch.payload)
    assert entry is not None
    opening = open_opening(
        entry.sealed,
        audit_sk=X25519PrivateKey.from_private_bytes(AUDIT_SK),
        log_id=bytes.fromhex(PIN.log_id),
        epoch=epoch.epoch,
        epoch_key=entry.key,
    )
    assert opening is not None
    step = hashlib.blake2b(b"doorward/audit/ratchet/v1", key=opening.secret.reveal()).digest()
    place = event.header() + RECORDS[event.seq - 1].hash
    plain = ChaCha20Poly1305(step[32:]).decrypt(bytes(12), event.payload, place)

    assert PRIMITIVES["epoch_of_first_event"]["secret"] == opening.secret.reveal().hex()
    assert PRIMITIVES["first_ratchet_step"] == step.hex()
    assert PRIMITIVES["first_event"]["header"] == event.header().hex()
    assert json.loads(plain.rstrip(b"\0")[:-1])["event"] == "action.requested"

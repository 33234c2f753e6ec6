"""A writer that is killed at any instant loses no acknowledged record, and leaves nothing that looks like tampering."""

import random
import subprocess
import sys
from pathlib import Path

from broker.audit.reader import read_events
from broker.audit.verdict import VerdictName
from tests.fakes.log_child import LIMITS
from tests.fakes.logs import SmallLog, new_log

ROUNDS = 20
STEP = 100_000


def acknowledged_before_kill(log: SmallLog, first: int, wanted: int) -> list[int]:
    """Kill the child after that many receipts; also those it printed before it died."""
    command = [sys.executable, "-m", "tests.fakes.log_child", str(log.base), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(wanted)]
        child.kill()
        lines += child.stdout.readlines()
        child.wait(10)
    return [int(line) for line in lines if line.endswith("\n")]


def test_twenty_kills_under_load_lose_nothing_and_accuse_nobody(tmp_path: Path) -> None:
    log, chance, promised = new_log(tmp_path), random.Random(22), set[int]()  # noqa: S311 - when to kill is no secret
    for turn in range(ROUNDS):
        acknowledged = acknowledged_before_kill(log, turn * STEP, chance.randint(1, 60))
        promised |= set(acknowledged)
        verdict = log.verdict()

        assert acknowledged
        assert verdict.verdict in {VerdictName.OK, VerdictName.TORN_TAIL}, verdict.to_json()
    with log.writer(limits=LIMITS) as writer:
        assert writer.poisoned is None
    kept = set()
    for _, event in read_events(log.directory, log.secrets.audit_sk):
        fields = event["fields"]
        assert isinstance(fields, dict)
        kept.add(fields["number"])

    assert promised <= kept
    assert VerdictName.OK == log.verdict().verdict
    assert VerdictName.OK_UNANCHORED == log.verdict(anchored=False).verdict

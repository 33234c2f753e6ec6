"""A writer that is killed at any instant loses no acknowledged record, and leaves nothing that looks like tampering."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from broker.audit.reader import read_events
from broker.audit.verdict import VerdictName
from tests.fakes.log_child import LIMITS
from tests.fakes.logs import SmallLog, new_log

LOGS = 8
KILLS = 25  # of each log
STEP = 100_000
MOST_RECEIPTS = 60  # before the kill
MOST_DELAY_S = 0.004  # after the last of them
UNHARMED = {VerdictName.OK, VerdictName.TORN_TAIL}


@pytest.fixture(scope="module")
def writers() -> Iterator[tuple[IO[str], IO[str]]]:
    """Where writers are asked for, and where they tell of their receipts."""
    command = [sys.executable, "-m", "tests.fakes.log_child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdin, server.stdout
        server.stdin.close()
        server.wait(10)


def acknowledged_before_kill(
    log: SmallLog, writers: tuple[IO[str], IO[str]], first: int, chance: random.Random
) -> list[int]:
    """Kill a writer after some receipts, or none, and a moment more; all that it told of before it died."""
    ask, told = writers
    ask.write(f"{log.base} {first}\n")
    ask.flush()
    pid = int(told.readline().split()[1])
    lines = [told.readline() for _ in range(chance.choice([0, chance.randint(1, MOST_RECEIPTS)]))]
    instant = time.perf_counter() + chance.uniform(0, MOST_DELAY_S)
    while time.perf_counter() < instant:
        pass
    os.kill(pid, signal.SIGKILL)
    while (line := told.readline()) != "dead\n":
        lines.append(line)
    return [int(line) for line in lines]


@pytest.mark.parametrize("seed", range(LOGS))
def test_two_hundred_kills_under_load_lose_nothing_and_accuse_nobody(
    tmp_path: Path, writers: tuple[IO[str], IO[str]], seed: int
) -> None:
    log, chance, promised = new_log(tmp_path), random.Random(seed), set[int]()  # noqa: S311 - when to kill is no secret
    for turn in range(KILLS):
        promised |= set(acknowledged_before_kill(log, writers, turn * STEP, chance))
        verdict, unanchored = log.verdict(), log.verdict(anchored=False)

        assert verdict.verdict in UNHARMED, verdict.to_json()
        assert unanchored.verdict in {VerdictName.OK_UNANCHORED, VerdictName.TORN_OR_TAMPERED}, unanchored.to_json()
        assert (verdict.verdict is VerdictName.OK) == (unanchored.verdict is VerdictName.OK_UNANCHORED)
    with log.writer(limits=LIMITS) as writer:
        assert (None, None, True) == (writer.poisoned, writer.suspended, writer.endorsed)
    kept = set()
    for _, event in read_events(log.directory, log.secrets.audit_sk):
        fields = event["fields"]
        assert isinstance(fields, dict)
        kept.add(fields["number"])

    assert promised
    assert promised <= kept
    assert VerdictName.OK == log.verdict().verdict
    assert VerdictName.OK_UNANCHORED == log.verdict(anchored=False).verdict

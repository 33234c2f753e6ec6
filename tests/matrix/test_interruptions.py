"""What breaks over SSH and within the daemon, as it is run from the command line; and that no point is left out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.matrix.cases import Case, load
from broker.matrix.points import SSH, STEPS, WRITES

pytestmark = pytest.mark.live

CASES = Path(__file__).with_name("cases")
FILES = [CASES / "ssh.yaml", CASES / "daemon.yaml"]
LIMIT_S = 1200.0
ONE_SIDED = {"6_gate": "before", "9_answer": "after"}  # the other side is that of the step beside it
NOT_HERE = {"transport.failed", "deadline.expired"}  # in the place of remote.answered


def cases(name: str) -> list[Case]:
    return load([CASES / f"{name}.yaml"])


def test_every_case_holds() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "matrix", "run", *map(str, FILES), "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    told = json.loads(done.stdout)

    assert [] == [(row["id"], row["breaches"]) for row in told["cases"] if not row["holds"]]
    assert (0, True, len(load(FILES))) == (done.returncode, told["ok"], told["total"])
    assert "canary-" not in done.stdout


def test_every_fault_point_of_ssh_has_a_look_and_a_change() -> None:
    found = {(one.fault.point, one.fault.kind, one.is_read) for one in cases("ssh") if one.fault is not None}

    assert {
        (point, kind, is_read) for point, kinds in SSH.items() for kind in kinds for is_read in (True, False)
    } == found


def test_the_founding_case_stands_both_ways() -> None:
    named = {one.id: one for one in cases("ssh")}

    assert 1 == named["C06"].expect.remote.committed
    assert 0 == named["C06-killed"].expect.remote.committed
    assert {3} == {one.repeat for name, one in named.items() if name.startswith("C06")}


def test_the_daemon_is_killed_on_both_sides_of_every_step() -> None:
    found = {(one.fault.step, one.fault.side) for one in cases("daemon") if one.fault and one.fault.point == "at_step"}
    wanted = {(step, side) for step in STEPS for side in ("before", "after") if ONE_SIDED.get(step, side) == side}

    assert wanted == found


def test_every_write_of_the_log_fails_in_every_way() -> None:
    found = {
        (one.fault.step, one.fault.kind) for one in cases("daemon") if one.fault and one.fault.point == "at_audit_write"
    }

    assert {(event, kind) for event in set(WRITES) - NOT_HERE for kind in ("disk_full", "fsync_error", "kill")} == found

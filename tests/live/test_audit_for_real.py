"""A real daemon's log: checkpoints that are kept elsewhere, and a torn end that is mended with the daemon stopped."""

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.audit.checkpoint import parse_notes
from tests.live.house import House, open_house

pytestmark = pytest.mark.live

LIMIT_S = 60.0


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path / "h") as made:
        yield made


def audit(house: House, *words: object) -> tuple[int, Any, str]:
    """One verb of `doorward audit`, as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "broker.cli", "audit", *map(str, words), "--json"],
        env=house.environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def verdict(house: House, *words: object) -> tuple[int, str, str]:
    code, answer, _ = audit(house, "verify", *words)
    return code, answer["verdict"], answer["rung"]


def test_a_checkpoint_is_countersigned_while_the_vault_is_open_and_can_be_held_against_the_log(
    house: House, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    code, opened, _ = audit(house, "checkpoint", "--to", kept)
    assert (0, True) == (code, opened["countersigned"])
    house.human.client.lock()
    code, locked, _ = audit(house, "checkpoint", "--to", kept)
    assert (0, False) == (code, locked["countersigned"])
    assert opened["size"] < locked["size"]
    notes = parse_notes(kept.read_bytes())
    assert notes is not None
    assert [2, 1] == [len(note.signatures) for note in notes]

    assert (0, "OK", "outside") == verdict(house, "--checkpoint", kept)
    house.stop()
    assert (0, "OK", "outside") == verdict(house, "--checkpoint", kept)


def test_asking_again_makes_the_log_no_longer(house: House) -> None:
    first = audit(house, "checkpoint")[1]
    size = sum(path.stat().st_size for path in house.places.audit.glob("*.seg"))

    assert all(first["note"] == audit(house, "checkpoint")[1]["note"] for _ in range(3))
    assert size == sum(path.stat().st_size for path in house.places.audit.glob("*.seg"))


def test_t24_a_shorter_or_older_log_fails_against_what_was_kept(house: House, tmp_path: Path) -> None:
    """T24: though anchor and seeds went back with it, and it grew since; in each form that was kept."""
    places = house.places
    house.stop()
    copy = tmp_path / "copy"
    for part in (places.audit, places.seeds, places.anchor):
        shutil.copytree(part, copy / part.name)
    house.start().human.unlock()
    address, kept = tmp_path / "log", tmp_path / "kept"
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as log:
        log.bind(str(address))
        log.settimeout(10)
        code, answer, _ = audit(house, "checkpoint", "--to", kept, "--syslog-address", address)
        line = log.recv(65536)
    assert 0 == code
    printed, logged = tmp_path / "printed", tmp_path / "logged"
    printed.write_text(answer["note"])
    command = "sed -n 's/.*note=//p' | base64 -d"
    logged.write_bytes(subprocess.run(["/bin/sh", "-c", command], input=line, capture_output=True, check=True).stdout)
    files = (kept, printed, logged)
    assert all((0, "OK", "outside") == verdict(house, "--checkpoint", file) for file in files)

    house.stop()
    for part in (places.audit, places.seeds, places.anchor):
        shutil.rmtree(part)
        shutil.copytree(copy / part.name, part)
    assert (0, "OK", "file") == verdict(house)  # nothing on this machine knows better
    assert all((43, "TRUNCATED", "file") == verdict(house, "--checkpoint", file) for file in files)
    for _ in range(8):
        house.start().stop()
    assert all((48, "ROLLBACK", "file") == verdict(house, "--checkpoint", file) for file in files)


def test_a_torn_end_is_mended_with_the_daemon_stopped_and_told(house: House) -> None:
    house.kill()
    last = max(house.places.audit.glob("*.seg"))
    whole, torn = last.read_bytes(), bytes([0, 0, 1, 0x50, 3, 0, 0])
    last.write_bytes(whole + torn)
    assert (41, "TORN_TAIL", "file") == verdict(house)
    code, answer, _ = audit(house, "repair")
    cut = answer["cut"]

    assert (0, "TORN_TAIL", "OK") == (code, answer["before"]["verdict"], answer["after"]["verdict"])
    assert (last.name, len(whole), len(torn), hashlib.sha256(torn).hexdigest()) == (
        cut["segment"],
        cut["offset"],
        cut["bytes"],
        cut["sha256"],
    )
    assert answer["before"]["proven_to"] == cut["anchored_seq"] == cut["recorded_as"] - 1
    assert torn == (house.places.audit / cut["kept_in"]).read_bytes()
    assert last.read_bytes().startswith(whole)
    assert (0, "OK", "file") == verdict(house)
    assert (0, None) == (audit(house, "repair")[0], audit(house, "repair")[1]["cut"])
    house.start().human.unlock()


def test_an_empty_file_at_the_end_is_taken_away_and_no_cut_is_told(house: House) -> None:
    house.kill()
    empty = house.places.audit / "00000002.seg"
    empty.touch(0o600)
    assert (41, "TORN_TAIL", "file") == verdict(house)
    code, answer, _ = audit(house, "repair")

    assert (0, None, "TORN_TAIL", "OK") == (
        code,
        answer["cut"],
        answer["before"]["verdict"],
        answer["after"]["verdict"],
    )
    assert not empty.exists()


def test_repair_is_refused_beside_a_daemon_and_for_what_is_no_torn_write(house: House) -> None:
    code, _, err = audit(house, "repair")
    assert (1, True) == (code, "a daemon runs" in err)
    house.stop()
    last = max(house.places.audit.glob("*.seg"))
    os.truncate(last, last.stat().st_size - 40)
    before = {path: path.read_bytes() for path in house.places.audit.iterdir()}
    code, answer, _ = audit(house, "repair")

    assert (43, None) == (code, answer["cut"])
    assert before == {path: path.read_bytes() for path in house.places.audit.iterdir()}


def test_verify_beside_a_running_daemon_says_so(house: House) -> None:
    code, answer, _ = audit(house, "verify")

    assert (0, True) == (code, answer["live"])

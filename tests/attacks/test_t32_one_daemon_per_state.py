"""T32: however many daemons start at once on one state, one serves and the others say who does."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.house import DAEMON, House

pytestmark = pytest.mark.live


def refused(house: House, environ: dict[str, str]) -> str:
    """What a daemon says that gives up at once."""
    done = subprocess.run(
        [sys.executable, *DAEMON], env=environ, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert 1 == done.returncode, house.log()
    return done.stderr.decode()


def test_no_other_way_leads_to_a_state_that_is_served(tmp_path: Path) -> None:
    """By another path to it, with other sockets, and after its lock was taken away: one serves, and goes on serving."""
    with House(tmp_path / "h") as house:
        house.init().start()
        assert house.process is not None
        moved = tmp_path / "by-another-name"
        moved.mkdir()
        for name in ("config", "data", "anchor"):
            (moved / name).symlink_to(tmp_path / "h" / name)
        assert "link" in refused(house, {**house.environ, "DOORWARD_HOME": str(moved)})
        (tmp_path / "up").symlink_to(tmp_path)
        again = {**house.environ, "DOORWARD_HOME": str(tmp_path / "up" / "h")}
        assert f"(pid {house.process.pid})" in refused(house, again)
        house.places.lock.unlink()
        assert "in use by another writer" in refused(house, house.environ)
        assert "locked" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]


def test_what_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    with House(tmp_path / "h") as house:
        house.init().start()
        house.kill()
        assert Path(house.places.control_socket).is_socket()
        house.start()

        assert "locked" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]


def test_of_daemons_that_start_together_one_serves(tmp_path: Path) -> None:
    with House(tmp_path / "h") as house:
        house.init()
        started = [
            subprocess.Popen(
                [sys.executable, *DAEMON],
                env=house.environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        try:
            outputs = {process.stdout: process for process in started if process.stdout is not None}
            said: dict[int, bytes] = {}
            while len(said) < len(started):
                ready, _, _ = select.select([pipe for pipe, one in outputs.items() if one.pid not in said], [], [], 30)
                assert ready, "neither served nor refused"
                for pipe in ready:
                    said[outputs[pipe].pid] = pipe.readline()
            serving = [pid for pid, line in said.items() if line == b"ready\n"]
            assert 1 == len(serving)
            for process in started:
                if process.pid not in serving:
                    assert process.stderr is not None
                    assert f"(pid {serving[0]})".encode() in process.stderr.read()
                    assert 1 == process.wait(10)
            assert "locked" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]
        finally:
            for process in started:
                process.kill()
                process.communicate(timeout=10)
    assert not os.access(house.places.control_socket, os.X_OK)

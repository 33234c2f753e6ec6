import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client.places import Places
from tests.fakes.envelopes import envelope
from tests.fakes.unix_daemon import UnixDaemon

SESSION = {"agent": "unidentified", "session": {"id": "se_1"}}
LIMIT_S = 20.0

ORPHAN = """
import os, sys, time
launcher, place = os.getppid(), sys.argv[1]
if os.fork() == 0:
    if os.fork() == 0:
        while os.getppid() not in (launcher, 1):
            time.sleep(0.01)
        open(place, "w").write(str(os.getppid() == launcher))
    os._exit(0)
os.wait()
end = time.monotonic() + 10
children = f"/proc/{launcher}/task/{launcher}/children"
while not (os.path.exists(place) and open(children).read().split() == [str(os.getpid())]):
    if time.monotonic() > end:
        sys.exit(1)
    time.sleep(0.01)
"""
TRAP = """
import signal, sys, time
place = sys.argv[1]
def told(number, _):
    open(place + ".told", "w").write(str(number))
    sys.exit(5)
signal.signal(signal.SIGTERM, told)
open(place, "w").write("ready")
time.sleep(30)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def daemon(home: Path) -> Iterator[UnixDaemon]:
    with UnixDaemon(Path(Places({"DOORWARD_HOME": str(home)}).agent_socket)) as running:
        running.replies["POST /v1/session"] = (200, SESSION)
        yield running


def launcher(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "broker.cli", "run", *arguments],
        env={**os.environ, "DOORWARD_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(home: Path, *arguments: str) -> tuple[int, str, str]:
    with launcher(home, *arguments) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def eventually(what: Callable[[], bool]) -> bool:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.01)
    return False


def test_the_session_is_opened_for_the_whole_tree_before_the_agent_starts(home: Path, daemon: UnixDaemon) -> None:
    code, out, err = finished(home, "--", "sh", "-c", "echo working")

    assert (0, "working\n", "") == (code, out, err)
    assert [{"label": "sh", "tree": True}] == daemon.bodies("POST /v1/session")


def test_a_label_is_passed_on_and_the_agents_own_options_are_its_own(home: Path, daemon: UnixDaemon) -> None:
    code, out, _ = finished(home, "--label", "nightly", "echo", "--json", "--label", "-x")

    assert (0, "--json --label -x\n") == (code, out)
    assert [{"label": "nightly", "tree": True}] == daemon.bodies("POST /v1/session")


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-program-anywhere"], 127),
        (["/etc/hostname"], 126),
    ],
)
def test_the_exit_code_is_the_agents(home: Path, command: list[str], code: int) -> None:
    assert code == finished(home, "--", *command)[0]


def test_without_a_daemon_the_agent_is_not_started(home: Path) -> None:
    code, out, _ = finished(home, "--", "touch", str(home / "started"))

    assert 31 == code
    assert "not_running" in out
    assert not (home / "started").exists()


def test_a_refused_session_is_shown_and_the_agent_is_not_started(home: Path, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/session"] = (503, envelope("broker_unavailable", code="frozen"))
    code, out, _ = finished(home, "--", "touch", str(home / "started"))

    assert (31, True) == (code, "frozen" in out)
    assert not (home / "started").exists()


@pytest.mark.parametrize("line", [[], ["--"], ["--env", "NO_SUCH_VARIABLE_HERE", "--", "true"]])
def test_an_unusable_line_is_usage(home: Path, line: list[str]) -> None:
    assert 64 == finished(home, *line)[0]


@pytest.mark.usefixtures("daemon")
def test_signals_are_handed_on_and_the_agent_decides_what_they_mean(home: Path) -> None:
    place = home / "agent"
    with launcher(home, "--", sys.executable, "-c", TRAP, str(place)) as process:
        assert eventually(place.exists)
        process.send_signal(signal.SIGTERM)

        assert 5 == process.wait(timeout=LIMIT_S)
    assert "15" == (home / "agent.told").read_text()


@pytest.mark.usefixtures("daemon")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the parent-death signal is Linux's")
def test_when_the_launcher_dies_the_agent_is_told(home: Path) -> None:
    place = home / "agent"
    with launcher(home, "--", sys.executable, "-c", TRAP, str(place)) as process:
        assert eventually(place.exists)
        process.kill()
        process.wait(timeout=LIMIT_S)

        assert eventually((home / "agent.told").exists)


@pytest.mark.usefixtures("daemon")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sub-reapers are Linux's")
def test_what_the_agent_leaves_behind_stays_in_the_tree_and_is_buried(home: Path) -> None:
    code, _, err = finished(home, "--", sys.executable, "-c", ORPHAN, str(home / "orphan"))

    assert (0, "True") == (code, (home / "orphan").read_text()), err

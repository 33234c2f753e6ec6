"""T07: no variable changes which daemon is trusted; the socket's owner and mode and the peer are checked."""

import ast
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client.agent import AgentClient
from broker.client.control import ControlClient
from broker.client.faults import Broken
from broker.client.places import Places
from broker.client.transport import Connection, check_place
from tests.fakes.unix_daemon import UnixDaemon

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65_534
CHOOSE_A_STATE = {"DOORWARD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"}
TELL_OF_THE_TERMINAL = {"TMUX", "STY", "DISPLAY", "WAYLAND_DISPLAY", "TERM", "LANG", "LC_ALL", "LC_CTYPE"}
LISTENER = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o600)
os.setgid({uid}); os.setuid({uid})
listener.listen(5)  # the kernel remembers who listened
print("ready", flush=True)
listener.accept()[0].recv(1)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run/agent.sock"


@pytest.fixture
def daemon(path: Path) -> Iterator[UnixDaemon]:
    with UnixDaemon(path) as running:
        running.replies["GET /v1/status"] = (200, {})
        yield running


def given_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a path belong to somebody else: really, where this test may; else by being somebody else ourselves."""
    if os.getuid() == 0:
        os.chown(path, NOBODY, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: NOBODY)


@pytest.mark.parametrize("mode", [0o702, 0o720, 0o777, 0o1777])
def test_a_directory_that_others_may_write_is_refused(daemon: UnixDaemon, path: Path, mode: int) -> None:
    path.parent.chmod(mode)

    with pytest.raises(Broken, match="written by others"):
        Connection(str(path))
    assert [] == daemon.asked


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_a_socket_that_others_may_write_is_refused(daemon: UnixDaemon, path: Path, mode: int) -> None:
    path.chmod(mode)

    with pytest.raises(Broken, match="written by others"):
        Connection(str(path))
    assert [] == daemon.asked


@pytest.mark.parametrize("what", ["directory", "socket"])
def test_what_belongs_to_another_user_is_refused(
    daemon: UnixDaemon, path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_away(path if what == "socket" else path.parent, monkeypatch)

    with pytest.raises(Broken, match="neither to you nor to root"):
        Connection(str(path))
    assert [] == daemon.asked


def test_links_are_not_followed(daemon: UnixDaemon, path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "agent.sock").symlink_to(path)
    (tmp_path / "linked").symlink_to(path.parent)

    with pytest.raises(Broken, match="no socket"):
        Connection(str(elsewhere / "agent.sock"))
    with pytest.raises(Broken, match="no directory"):
        Connection(str(tmp_path / "linked/agent.sock"))
    assert [] == daemon.asked


@pytest.mark.parametrize("kind", ["file", "fifo", "directory"])
def test_what_is_no_socket_is_refused(path: Path, kind: str) -> None:
    path.parent.mkdir(mode=0o700)
    if kind == "file":
        path.write_text("")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()

    with pytest.raises(Broken, match="no socket"):
        check_place(str(path))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can let another user listen on a socket of its own")
def test_another_user_who_listens_on_our_socket_gets_no_byte(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with subprocess.Popen(
        [sys.executable, "-I", "-c", LISTENER.format(uid=NOBODY), str(path)], stdout=subprocess.PIPE, text=True
    ) as stranger:
        try:
            assert stranger.stdout is not None
            assert "ready" == stranger.stdout.readline().strip()
            with pytest.raises(Broken, match=f"user {NOBODY} listens"):
                Connection(str(path))
        finally:
            stranger.kill()


def test_both_clients_check_before_they_speak(tmp_path: Path) -> None:
    places = Places({"DOORWARD_HOME": str(tmp_path)})
    for name, client in (("agent", AgentClient(places)), ("control", ControlClient(places))):
        with UnixDaemon(tmp_path / f"run/{name}.sock") as daemon:
            daemon.path.chmod(0o666)
            with pytest.raises(Broken):
                client.health() if isinstance(client, AgentClient) else client.status()
            assert [] == daemon.asked


def test_the_client_and_the_command_line_read_no_variable_that_could_choose_whom_to_trust() -> None:
    """Every name that is looked up in an environment, in all of their source."""
    found: set[str] = set()
    for file in [*(ROOT / "broker/client").glob("*.py"), *(ROOT / "broker/cli").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="get", value=source), args=[ast.Constant(value=str(name)), *_]
                ) if "environ" in ast.unparse(source):
                    found.add(name)
                case ast.Subscript(value=source, slice=ast.Constant(value=str(name))) if "environ" in ast.unparse(
                    source
                ):
                    found.add(name)
                case ast.Call(func=ast.Attribute(attr="getenv"), args=[ast.Constant(value=str(name)), *_]):
                    found.add(name)
                case _:
                    pass

    assert {"DOORWARD_HOME"} <= found
    assert found <= CHOOSE_A_STATE | TELL_OF_THE_TERMINAL


def test_a_live_socket_is_still_used_when_all_is_in_order(daemon: UnixDaemon, path: Path) -> None:
    with Connection(str(path)) as connection:
        assert 200 == connection.request("GET", "/v1/status").status
    assert 1 == len(daemon.asked)


def test_the_peer_is_asked_for_at_the_connection_not_at_the_path(path: Path) -> None:
    """The check stands between connecting and sending: what is swapped in between is noticed there."""
    path.parent.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    with listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1)
        with Connection(str(path)):
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(0.05)
                started = time.monotonic()
                with pytest.raises(TimeoutError):
                    accepted.recv(1)  # nothing is said before a request is made
                assert time.monotonic() - started < 5

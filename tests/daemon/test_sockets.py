"""Listening sockets: systemd's or our own; a stale one is replaced, a live one never."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.daemon.sockets import listen, notify
from broker.daemon.statehold import StateError
from tests.live.house import ROOT

ACTIVATED = """
import json, os, socket, sys
from broker.daemon.sockets import inherited
from broker.daemon.statehold import StateError
environ = {"LISTEN_FDS": sys.argv[1], "LISTEN_FDNAMES": sys.argv[2], "LISTEN_PID": sys.argv[3] or str(os.getpid())}
try:
    passed = inherited(environ)
except StateError as error:
    print(json.dumps({"refused": str(error)}))
else:
    told = {name: [endpoint.fileno(), os.get_inheritable(endpoint.fileno())] for name, endpoint in passed.items()}
    print(json.dumps({"passed": told, "left": environ}))
"""


def activated(*passed: socket.socket, count: str | None = None, names: str = "", pid: str = "") -> Any:
    """What a process makes of descriptors that are passed to it from 3 on."""
    wanted = [endpoint.fileno() for endpoint in passed]

    def place() -> None:
        held = [fcntl.fcntl(number, fcntl.F_DUPFD, 20) for number in wanted]
        for offset, number in enumerate(held):
            os.dup2(number, 3 + offset)

    told = subprocess.run(
        [sys.executable, "-c", ACTIVATED, count or str(len(passed)), names, pid],
        cwd=ROOT,
        preexec_fn=place,
        close_fds=False,
        capture_output=True,
        check=True,
        timeout=30,
    )
    return json.loads(told.stdout)


def test_sockets_that_were_passed_are_known_by_their_names(tmp_path: Path) -> None:
    with listen(str(tmp_path / "a")) as agent, listen(str(tmp_path / "c")) as control:
        told = activated(agent, control, names="agent:control.sock")

    assert {"passed": {"agent": [3, False], "control": [4, False]}, "left": {}} == told


@pytest.mark.parametrize(("count", "pid"), [("2", "1"), ("", ""), ("two", ""), ("0", "")])
def test_what_was_passed_to_another_process_or_not_at_all_is_left_alone(tmp_path: Path, count: str, pid: str) -> None:
    with listen(str(tmp_path / "a")) as agent:
        assert {"passed": {}, "left": {}} == activated(agent, count=count or " ", pid=pid)


def test_only_a_listening_unix_socket_with_our_names_is_served_on(tmp_path: Path) -> None:
    """A socket of the network would open the broker to who knows whom."""
    with (
        socket.create_server(("127.0.0.1", 0)) as network,
        socket.socket(socket.AF_UNIX) as silent,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        listen(str(tmp_path / "a")) as good,
    ):
        datagrams.bind(str(tmp_path / "d"))
        for endpoint, names in ((network, "agent"), (silent, "agent"), (datagrams, "agent"), (good, "web"), (good, "")):
            assert "FileDescriptorName" in activated(endpoint, names=names).get("refused", ""), names


def test_a_descriptor_that_is_no_socket_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        told = activated(file, names="agent")  # type: ignore[arg-type]  # as much of a socket as its number

    assert "is no socket" in told["refused"]


def test_more_descriptors_than_there_are_and_one_name_twice_are_refused(tmp_path: Path) -> None:
    with listen(str(tmp_path / "a")) as agent, listen(str(tmp_path / "c")) as control:
        more = activated(agent, control, count="999999999", names="agent:control:agent")
        twice = activated(agent, control, names="agent:agent")

    assert ("agent" in more["refused"], "two sockets" in twice["refused"]) == (True, True)


def test_a_descriptor_that_is_not_open_is_refused(tmp_path: Path) -> None:
    with listen(str(tmp_path / "a")) as agent:
        told = activated(agent, count="2", names="agent:control")

    assert "Bad file descriptor" in told["refused"]


def test_a_socket_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = os.umask(0)
    try:
        with listen(str(path)) as endpoint:
            assert 0o600 == path.stat().st_mode & 0o777
            assert not endpoint.getblocking()
            assert not os.get_inheritable(endpoint.fileno())
        assert 0 == os.umask(0), "the mask is put back"
    finally:
        os.umask(before)


def test_a_stale_socket_is_replaced_and_a_live_one_never(tmp_path: Path) -> None:
    """T32."""
    path = tmp_path / "s"
    listen(str(path)).close()
    assert path.is_socket()
    with listen(str(path)):
        inode = path.stat().st_ino
        with pytest.raises(StateError, match="somebody listens"):
            listen(str(path))
        assert inode == path.stat().st_ino


def test_a_socket_whose_queue_is_full_is_alive(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        with socket.socket(socket.AF_UNIX) as second:
            second.setblocking(False)  # noqa: FBT003 - positional-only
            second.connect_ex(str(path))
            with pytest.raises(StateError, match="in use"):
                listen(str(path))


@pytest.mark.parametrize("kind", ["file", "link", "directory", "pipe"])
def test_what_is_no_socket_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "s", tmp_path / "target"
    match kind:
        case "file":
            path.write_text("keep", encoding="ascii")
        case "link":
            target.write_text("keep", encoding="ascii")
            path.symlink_to(target)
        case "directory":
            path.mkdir()
        case _:
            os.mkfifo(path)

    with pytest.raises(StateError, match="is no socket; move it away"):
        listen(str(path))
    assert path.exists()


def test_a_place_where_none_can_be_made_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="can't be made"):
        listen(str(tmp_path / "none" / "s"))


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_is_told_where_it_asks(tmp_path: Path, kind: str) -> None:
    address = str(tmp_path / "n") if kind == "path" else f"@doorward-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if address.startswith("@") else address)
        manager.settimeout(10)
        notify({"NOTIFY_SOCKET": address}, "READY=1")

        assert b"READY=1" == manager.recv(100)


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": "/no"}]
)
def test_nobody_is_told_where_nobody_asks(environ: dict[str, str]) -> None:
    notify(environ, "READY=1")

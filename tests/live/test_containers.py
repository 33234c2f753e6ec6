"""Agents in real namespaces of their own (unshare): known, named by a listener, or refused with the remedy."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.schemas import schema
from tests.live.house import Agent, House, open_house, until
from tests.live.namespaced_house import HUMAN_KDF, NAME, listen, listener_of
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
OWN_PIDS = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
CONTAINER = (*OWN_PIDS, sys.executable, "-I")
LOOK: dict[str, Any] = {"service": "shop", "operation": "orders.list"}
HURRIED = {**LOOK, "wait_s": 0}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("box") / "h", kdf=HUMAN_KDF) as made:
        yield made.init().open(origin=upstream.origin)


def rows(house: House) -> list[dict[str, Any]]:
    return [dict(row) for row in house.human.client.sessions()]


def test_an_agent_in_a_container_is_seen_as_one_and_asks_for_itself(house: House, tmp_path: Path) -> None:
    """It reaches the socket by a bind mount, and its pid is seen from outside."""
    inside = tmp_path / "in-the-box"
    inside.mkdir()
    mounted = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
    bind = f'mount --bind "{Path(house.places.agent_socket).parent}" "{inside}"; exec "$@"'
    words = (*mounted, bind, "sh", sys.executable, "-I")
    with Agent(str(inside / "agent.sock"), words) as boxed, house.agent() as outside:
        assert 1 == boxed.pid, "that is what it calls itself"
        asking = boxed.begin_act(**LOOK)
        shown = house.human.approve(house.human.wait_for_card(), scope="session")
        assert "success" == boxed.end_act(asking)["category"]
        (row,) = rows(house)

        assert shown.card.who.container
        assert ("unnamed", "connection", None) == (row["container"], row["span"], row["named_by"])
        assert row["pid"] != boxed.pid
        assert row["pid"] == shown.card.who.pid
        assert "approval_pending" == outside.act(**HURRIED)["category"]
        assert [None] == [one["container"] for one in rows(house) if one["pid"] == outside.pid]


def test_a_program_mounted_over_another_goes_by_no_absolute_path(tmp_path: Path, upstream: Upstream) -> None:
    """T41, T27: a mount namespace takes no privilege, and puts any file at any path."""
    policy = """
version = 1

[agents.trusted]
exe = "{python}"

[services.open]
kind = "http"
base_url = "{origin}/open"
ad_hoc = ["GET"]

[[rules]]
id = "free"
services = ["open"]
agents = ["trusted"]
approval = "none"
""".replace("{python}", str(tmp_path / "trusted"))
    trusted, forged = tmp_path / "trusted", tmp_path / "forged"
    for place in (trusted, forged):
        place.write_bytes(Path(sys.executable).resolve().read_bytes())
        place.chmod(0o755)
    home = {"PYTHONHOME": sys.base_prefix}
    get = {"service": "open", "method": "GET", "path": "/x", "wait_s": 0}
    over = ("unshare", "--mount", "sh", "-c", f'mount --bind "{forged}" "{trusted}"; exec "$@"', "sh")
    os.environ.update(home)
    try:
        with open_house(tmp_path / "h", origin=upstream.origin, policy=policy) as house:
            with Agent(house.places.agent_socket, (str(trusted),)) as real:
                assert "trusted" == real.ask("GET", "/v1/session")["value"]["agent"]
                assert "success" == real.act(**get)["category"]
            with Agent(house.places.agent_socket, (*over, str(trusted))) as false:
                assert "unidentified" == false.ask("GET", "/v1/session")["value"]["agent"]
                assert "policy_denied" == false.act(**get)["category"]
    finally:
        del os.environ["PYTHONHOME"]


@pytest.fixture
def listener(house: House, tmp_path: Path) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    path = tmp_path / "box" / "agent.sock"
    path.parent.mkdir()
    started = listener_of(house, path)
    try:
        yield path, started
    finally:
        started.kill()
        started.communicate(timeout=15)


def test_what_reaches_a_listener_is_one_session_of_its_name(
    house: House, listener: tuple[Path, "subprocess.Popen[bytes]"]
) -> None:
    path, relay = listener
    with Agent(str(path), CONTAINER) as first, Agent(str(path), CONTAINER) as second:
        asking = first.begin_act(**LOOK)
        shown = house.human.approve(house.human.wait_for_card(), scope="session")
        assert "success" == first.end_act(asking)["category"]
        assert "success" == second.act(**HURRIED)["category"], "one container is one session"
        (row,) = [one for one in rows(house) if one["agent"] == NAME]

        who = shown.card.who
        assert (NAME, True, "container", relay.pid) == (who.agent, who.container, who.span, who.pid)
        assert (NAME, "listener", "container", relay.pid, 1) == (
            row["container"], row["named_by"], row["span"], row["pid"], row["grants"],
        )  # fmt: skip
        declared = first.ask("POST", "/v1/session", {"tree": True, "label": "inside"})["value"]
        assert (NAME, "container") == (declared["agent"], declared["span"]), "doorward run works in there as well"
    with house.agent() as outside:
        assert "approval_pending" == outside.act(**HURRIED)["category"]


def test_a_listeners_process_decides_nothing_and_keeps_no_key(
    house: House, listener: tuple[Path, "subprocess.Popen[bytes]"]
) -> None:
    path, relay = listener
    with Agent(str(path)) as boxed:
        assert 404 == boxed.ask("GET", "/v1/approvals")["status"]
        words = Path(f"/proc/{relay.pid}/cmdline").read_bytes().split(b"\0")
        assert b"broker.cli.relay" in words
    opened = house.human.events("listener.opened")[-1]
    assert (NAME, relay.pid, house.key.key_id) == tuple(opened["fields"][name] for name in ("name", "pid", "key"))


def test_a_lock_ends_what_a_container_was_granted_and_not_its_name(
    house: House, listener: tuple[Path, "subprocess.Popen[bytes]"]
) -> None:
    path, _ = listener
    with Agent(str(path)) as boxed:
        asking = boxed.begin_act(**LOOK)
        house.human.approve(house.human.wait_for_card(), scope="session")
        assert "success" == boxed.end_act(asking)["category"]
        house.human.client.lock()
        house.human.unlock()
        house.human.open_session()

        assert NAME == boxed.ask("GET", "/v1/session")["value"]["agent"]
        assert "approval_pending" == boxed.act(**HURRIED)["category"]


def test_an_agent_names_no_container(house: House) -> None:
    """T04, T28: the name is an approver's word, whoever sends it."""
    with house.agent() as agent:
        told = agent.ask("POST", "/v1/listeners", {"name": NAME}, socket=house.places.control_socket)
        assert told["status"] in {403, 422}
        agent.ask("POST", "/v1/session", {})
        refused = agent.ask("POST", "/v1/listeners", {"name": NAME}, socket=house.places.control_socket)
        assert (403, "agent_session") == (refused["status"], refused["value"]["error"]["code"])
        assert "unidentified" == agent.ask("GET", "/v1/session")["value"]["agent"]


def test_a_listener_makes_its_socket_where_nobody_listens_and_nothing_else_lies(house: House, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("x")
    path = tmp_path / "agent.sock"
    first = listener_of(house, path)
    try:
        for place, why in ((taken, "is no socket"), (path, "somebody listens"), (Path("/" + "x" * 108), "107 bytes")):
            _, said = listen(house, place).communicate(timeout=60)
            assert why in said.decode()
    finally:
        first.kill()
        first.communicate(timeout=15)
    assert path.is_socket(), "it was killed"
    third = listen(house, path, "--json")
    assert third.stdout is not None
    told = json.loads(third.stdout.readline())
    assert {"name": NAME, "pid": third.pid, "path": str(path)} == told
    documented = jsonschema_rs.validator_for(schema("listener-opened"), offline=True)
    documented.validate({"name": told["name"], "pid": told["pid"]})
    third.send_signal(signal.SIGTERM)
    third.communicate(timeout=15)
    assert 0 == third.returncode
    assert not path.exists()


# The other way round: a daemon that sees nothing of the processes outside of its own pid namespace.


@contextmanager
def namespaced(directory: Path, kind: str) -> Iterator["Namespaced"]:
    words = [*OWN_PIDS, sys.executable, "-m", "tests.live.namespaced_house", str(directory), kind]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        made = Namespaced(process)
        try:
            made.listener_pid = made.told()["pid"]
            yield made
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


class Namespaced:
    listener_pid: int | None = None

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def told(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, order: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self.told()


def test_a_caller_outside_of_the_daemons_namespace_is_refused_with_the_remedy_and_served_by_it(tmp_path: Path) -> None:
    with namespaced(tmp_path, "listener") as inside:
        with Agent(str(tmp_path / "h" / "run" / "agent.sock")) as stranger:
            told = stranger.act(**HURRIED)
            assert ("session_denied", "session_ended") == (told["category"], told["code"])
            assert "doorward listen --for NAME PATH" in told["message"]
            assert "none" == told["remote_effect"]
        with Agent(str(tmp_path / "box" / "agent.sock")) as boxed:
            asking = boxed.begin_act(**LOOK)
            (card,) = until(lambda: inside.ask("cards"))
            drawn = inside.ask(f"approve {card['id']} session")
            assert "success" == boxed.end_act(asking)["category"]
            (row,) = inside.ask("sessions")

        assert (NAME, True, "container") == tuple(drawn["who"][name] for name in ("agent", "container", "span"))
        assert (NAME, inside.listener_pid, "container") == (row["agent"], row["pid"], row["span"])


def test_after_the_daemons_end_a_listener_hands_on_nothing(tmp_path: Path) -> None:
    with namespaced(tmp_path, "listener") as inside:
        with Agent(str(tmp_path / "box" / "agent.sock")) as boxed:
            assert NAME == boxed.ask("GET", "/v1/session")["value"]["agent"]
            inside.ask("kill-daemon")
            told = boxed.ask("GET", "/v1/session")

        assert (503, "not_running") == (told["status"], told["value"]["code"])

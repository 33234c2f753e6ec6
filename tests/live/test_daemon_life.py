"""The life of a real daemon: it starts whole or says why not, and leaves nothing half done."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.client.faults import ClientError, NotRunning
from broker.daemon.logs import FIELDS
from broker.daemon.sockets import listen
from tests.live.house import DAEMON, House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

CREATE = {"service": "open", "method": "POST", "path": "/things", "body": {"name": "one"}}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path / "h") as made:
        yield made.init()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


def refused(house: House, *words: str) -> str:
    """The one line with which it does not start."""
    told = house.run_daemon(*words)
    assert (1, b"") == (told.returncode, told.stdout)
    line: str = told.stderr.decode()
    assert 1 == line.count("\n"), line
    return line


def test_a_daemon_without_a_vault_says_what_to_run(tmp_path: Path) -> None:
    assert "doorward setup" in refused(House(tmp_path / "h"))


def test_a_second_daemon_is_refused_and_told_the_first_ones_pid(house: House) -> None:
    """T32: and the first goes on as it was."""
    house.start()
    assert house.process is not None
    assert f"pid {house.process.pid}" in refused(house)
    assert f"pid {house.process.pid}" in refused(house, "--transient")

    assert "locked" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]


def test_making_state_twice_leaves_the_first_as_it_was(house: House) -> None:
    before = house.places.vault.read_bytes()
    request = {
        "kek_b64": "A" * 43 + "=",
        "kdf": house.kdf.to_json(),
        "approver_public_key_b64": "A" * 43 + "=",
    }
    told = house.run_daemon("--init", stdin=json.dumps(request).encode())

    assert "exists" == json.loads(told.stdout)["error"]["code"]
    assert before == house.places.vault.read_bytes()
    house.places.vault.unlink()
    told = house.run_daemon("--init", stdin=json.dumps(request).encode())
    assert "cut off" in json.loads(told.stdout)["error"]["message"], "a log without a vault is not taken over"


@pytest.mark.parametrize(
    "request_",
    [b"{", b"{}", b'{"kek_b64":"x","kdf":{},"approver_public_key_b64":"x"}', b"[]", b" " * 70_000],
)
def test_odd_requests_make_no_state(tmp_path: Path, request_: bytes) -> None:
    house = House(tmp_path / "h")
    told = house.run_daemon("--init", stdin=request_)

    assert 1 == told.returncode
    assert {"code", "message"} == set(json.loads(told.stdout)["error"])
    assert not house.places.vault.exists()


def test_keys_of_the_wrong_length_make_no_state(tmp_path: Path) -> None:
    house = House(tmp_path / "h")
    request = {"kek_b64": "AAAA", "kdf": house.kdf.to_json(), "approver_public_key_b64": "not base64!"}
    told = house.run_daemon("--init", stdin=json.dumps(request).encode())

    assert 1 == told.returncode
    assert not house.places.vault.exists()


def test_a_stale_socket_is_replaced_and_a_live_one_never(house: House) -> None:
    listen(house.places.agent_socket).close()
    listen(house.places.control_socket).close()
    house.start()
    assert "locked" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]
    house.stop()
    Path(house.places.agent_socket).unlink()
    with listen(house.places.agent_socket):
        assert "somebody listens" in refused(house)


def test_a_path_that_is_too_long_is_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "set DOORWARD_HOME to a shorter directory" in refused(House(tmp_path / ("h" * 90)))


@pytest.mark.parametrize("spoiled", ["vault.db", "ledger.db", "audit.pin"])
def test_spoiled_state_is_said_in_one_line(house: House, spoiled: str) -> None:
    path = house.places.data / spoiled
    path.write_bytes(b"spoiled" * 1000)
    path.chmod(0o600)

    assert refused(house).startswith("doorward: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_stops_when_told_and_puts_that_on_record(house: House, number: int) -> None:
    house.start()
    assert house.process is not None
    house.process.send_signal(number)
    assert 0 == house.wait()

    house.start()
    house.human.unlock()
    house.human.open_session()
    names = [record["event"] for record in house.human.events()]
    assert ["daemon.started", "daemon.stopped", "daemon.started"] == [name for name in names if "daemon" in name]


def test_an_action_in_flight_is_finished_and_recorded_at_the_stop(house: House, upstream: Upstream) -> None:
    house.open(origin=upstream.origin)
    upstream.answers.clear()
    with house.agent() as agent, house.agent() as waiting:
        acting = agent.begin_act(**CREATE)
        upstream.wait_for_request()
        two = {"service": "shop", "operation": "orders.create", "args": {"name": "two"}}
        asking = waiting.begin("POST", "/v1/http", two, keep=1)
        house.human.wait_for_card()
        assert house.process is not None
        house.process.send_signal(signal.SIGTERM)
        assert "shutting_down" == waiting.end_act(asking)["code"]
        late = waiting.ask("POST", "/v1/http", CREATE, keep=1)
        assert (503, "shutting_down") == (late["status"], late["value"]["code"])
        assert "ConnectionRefusedError" == waiting.ask("POST", "/v1/http", CREATE)["fault"]
        upstream.answers.set()
        assert "success" == agent.end_act(acting)["category"]
        assert 0 == house.wait()

    house.open()
    results = [event["fields"] for event in house.human.events("action.result")]
    assert ["shutting_down", "ok"] == [fields["code"] for fields in results]
    assert "POST /open/things" in upstream.requests
    assert 1 == len(upstream.requests)


IMPATIENT = """
import asyncio, os
from broker.client.places import Places
from broker.daemon.main import serve
asyncio.run(serve(Places(os.environ), dict(os.environ), drain_s=0.2))
"""


def test_work_that_does_not_end_is_cut_off_and_found_in_doubt(house: House, upstream: Upstream) -> None:
    house.start(program=("-I", "-c", IMPATIENT)).open(origin=upstream.origin)
    upstream.answers.clear()
    with house.agent() as agent:
        acting = agent.begin_act(**CREATE)
        upstream.wait_for_request()
        began = time.monotonic()
        assert 0 == house.stop()
        assert time.monotonic() - began < 10
        told = agent.end(acting)
    assert "fault" in told or told["value"]["remote_effect"] == "unknown"
    assert "cut off" in house.log()

    house.open()
    assert {"in_doubt": 1} == house.human.client.status()["operations"]


def test_a_kill_in_the_middle_leaves_the_change_in_doubt(house: House, upstream: Upstream) -> None:
    house.open(origin=upstream.origin)
    upstream.answers.clear()
    with house.agent() as agent:
        agent.begin_act(**CREATE)
        upstream.wait_for_request()
        house.kill()
    house.open()
    status = house.human.client.status()
    (doubt,) = house.human.client.operations(state="in_doubt")
    with house.agent() as agent:
        repeat = agent.act(**CREATE)

    assert {"in_doubt": 1} == status["operations"]
    assert ("open.POST", "unrecorded", "in_doubt") == (doubt["operation"], doubt["phase"], doubt["state"])
    assert ("reconcile_required", doubt["correlation_id"]) == (repeat["category"], repeat["previous_correlation_id"])
    assert [doubt["correlation_id"]] == [event["correlation_id"] for event in house.human.events("operation.in_doubt")]
    assert 1 == len(upstream.requests)


def test_systemd_is_told_when_it_serves_and_when_it_stops(house: House, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "n"))
        manager.settimeout(30)
        house.start(environ={"NOTIFY_SOCKET": str(tmp_path / "n")})
        assert b"READY=1\nSTATUS=serving" == manager.recv(100)
        house.stop()
        assert b"STOPPING=1" == manager.recv(100)


ACTIVATE = """
import fcntl, os, sys
wanted = [int(number) for number in sys.argv[1:3]]
held = [fcntl.fcntl(number, fcntl.F_DUPFD, 20) for number in wanted]
for offset, number in enumerate(held):
    os.dup2(number, 3 + offset)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "control:agent"}
os.execv(sys.executable, [sys.executable, "-I", "-m", "broker.daemon"])
"""


def test_it_serves_on_sockets_that_systemd_listens_on(house: House, upstream: Upstream) -> None:
    """Requests that came before it started are served as well."""
    with listen(house.places.control_socket) as control, listen(house.places.agent_socket) as agents:
        passed = (control.fileno(), agents.fileno())
        with socket.socket(socket.AF_UNIX) as early:
            early.settimeout(30)
            early.connect(house.places.agent_socket)
            early.sendall(b"GET /v1/health HTTP/1.1\r\nhost: early\r\n\r\n")
            house.start(*map(str, passed), program=("-I", "-c", ACTIVATE), pass_fds=passed)
            assert early.recv(100).startswith(b"HTTP/1.1 200 OK")
        house.open(origin=upstream.origin)
        with house.agent() as agent:
            assert "success" == agent.act(**CREATE)["category"]
        assert 0 == house.stop()


TRANSIENT = """
import subprocess, sys
daemon = subprocess.Popen([sys.executable, *sys.argv[1:]], stdout=subprocess.PIPE)
print(daemon.pid, daemon.stdout.readline().decode().strip(), flush=True)
sys.stdin.read()
"""


def test_a_transient_daemon_serves_humans_alone_and_ends_with_its_parent(house: House) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-c", TRANSIENT, *DAEMON, "--transient"],
        env=house.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid, word = parent.stdout.readline().split()
        assert b"ready" == word
        house.human.unlock()
        assert not Path(house.places.agent_socket).exists()
        parent.kill()

    def gone() -> bool:
        with suppress(ClientError):
            house.human.client.close()
            house.human.client.status()
            return False
        return True

    assert until(gone)
    until(lambda: not Path(f"/proc/{int(pid)}").exists() or b"Z" in Path(f"/proc/{int(pid)}/stat").read_bytes())
    with pytest.raises(NotRunning):
        house.human.client.status()


LOOKED_AT = """
import sys
from broker.client.hardening import dumpable
from broker.daemon import main as daemon
from broker.daemon.__main__ import main
daemon.run = lambda *_, **__: print(dumpable())
main()
"""


def test_the_daemon_can_not_be_looked_into(house: House) -> None:
    """Not dumpable before anything is loaded: no tracing, no memory to be read, no core files."""
    told = subprocess.run(
        [sys.executable, "-I", "-c", LOOKED_AT], env=house.environ, capture_output=True, check=True, timeout=30
    )
    assert b"False\n" == told.stdout
    house.start()
    assert house.process is not None
    place = Path(f"/proc/{house.process.pid}")
    assert "Max core file size        0                    0" in (place / "limits").read_text(encoding="ascii")
    assert {0} == {(place / name).lstat().st_uid for name in ("environ", "mem", "maps")}
    if os.geteuid() != 0:  # root looks into everything
        with pytest.raises(PermissionError):
            (place / "environ").read_bytes()


def test_its_log_holds_lines_of_allowed_fields_and_nothing_of_requests(house: House, upstream: Upstream) -> None:
    """Log lines are read by whoever may read files; the audit log, which is sealed, is the record."""
    house.open(origin=upstream.origin)
    with house.agent() as agent:
        agent.act(service="open", method="POST", path="/canary-path", body={"canary": "body"}, reason="canary reason")
        agent.ask("POST", "/v1/http", raw="e2NhbmFyeQ==")
        agent.ask("GET", "/v1/canary")
    house.stop()

    lines: list[Any] = [json.loads(line) for line in house.log().splitlines()]
    fixed = {"at", "level", "logger", "message", "error", "where"}
    assert lines
    assert {"doorward.daemon"} == {line["logger"] for line in lines}
    assert all(set(line) <= fixed | FIELDS for line in lines)
    assert "canary" not in house.log()


def test_it_takes_as_many_descriptors_as_it_may_have(house: House) -> None:
    house.start()
    assert house.process is not None
    limits = Path(f"/proc/{house.process.pid}/limits").read_text(encoding="ascii")
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    soft, hard = line.split()[3:5]

    assert soft == min(hard, "65536", key=int)


def test_nothing_is_open_to_others(house: House, upstream: Upstream) -> None:
    house.open(origin=upstream.origin)
    with house.agent() as agent:
        agent.act(**CREATE)
    house.stop()

    assert house.places.home is not None
    for path in house.places.home.rglob("*"):
        if not path.is_symlink() and not path.name.endswith(".toml"):
            assert 0 == path.lstat().st_mode & 0o077, path


def test_the_first_look_after_a_process_ended_shows_neither_its_card_nor_its_session(
    house: House, upstream: Upstream
) -> None:
    """No timer stands in between: what the kernel tells of an end is heard before the next question is."""
    house.open(origin=upstream.origin)
    for number in range(3):
        with house.agent() as agent:
            agent.begin_act(service="shop", operation="orders.create", args={"name": f"n{number}"})
            card = house.human.wait_for_card()
            agent.stop()
            sessions, cards = house.human.client.sessions(), house.human.client.approvals()

            assert [] == sessions
            assert {"session_ended"} == {row["ended_by"] for row in cards if row["id"] == card}


def test_agents_that_come_and_go_leave_nothing_open(house: House, upstream: Upstream) -> None:
    house.open(origin=upstream.origin)
    assert house.process is not None
    place = Path(f"/proc/{house.process.pid}/fd")

    def come_and_go(times: int) -> int:
        with house.agent() as parent:
            for _ in range(times):
                parent.child(house.places.agent_socket, "POST", "/v1/http", CREATE)
                parent.child(house.places.agent_socket, "POST", "/v1/session", {"tree": True})
                parent.child(house.places.control_socket, "GET", "/v1/status")
        return len(list(place.iterdir()))

    before = come_and_go(3)
    come_and_go(10)

    until(lambda: len(list(place.iterdir())) <= before)
    assert [] == house.human.client.sessions()


def test_locks_and_unlocks_that_cross_leave_one_whole_state(house: House, upstream: Upstream) -> None:
    """Whatever comes last counts, and all that hangs on the vault is open or closed with it."""
    house.open(origin=upstream.origin)
    key = base64.b64encode(house.keys.vault_kek.reveal()).decode()
    asks: list[tuple[str, object]] = [("/v1/lock", {}), ("/v1/unlock", {"kek_b64": key})] * 6
    statuses: list[tuple[str, int]] = []
    threads = [
        threading.Thread(target=lambda ask=ask: statuses.append((ask[0], house.human.ask("POST", *ask)[0])))
        for ask in asks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert 12 == len(statuses)
    assert {200} == {status for path, status in statuses if path == "/v1/lock"}
    assert {200, 409} >= {status for path, status in statuses if path == "/v1/unlock"}, "a later lock calls it off"

    house.human.unlock()
    house.human.open_session()
    with house.agent() as agent:
        assert "success" == agent.act(**CREATE)["category"]
    events = [event["event"] for event in house.human.events() if event["event"] in {"vault.locked", "vault.unlocked"}]
    assert ["vault.unlocked", "vault.locked"] * (len(events) // 2) == events[: len(events) // 2 * 2], (
        "never twice in a row"
    )


def test_a_daemon_that_idles_costs_nothing(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        assert house.process is not None
        place = Path(f"/proc/{house.process.pid}/stat")

        def ticks() -> int:
            return sum(map(int, place.read_text(encoding="ascii").rsplit(")", 1)[1].split()[11:13]))

        before = ticks()
        time.sleep(1.0)  # the measurement itself

        assert ticks() - before <= 5 * os.sysconf("SC_CLK_TCK") // 100

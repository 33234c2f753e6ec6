"""T33: an agent that is refused as often as it can ask makes the log grow by so much and no more."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.server.floods import IN_FULL
from broker.server.session_records import IN_FULL as SESSIONS_IN_FULL
from tests.live.house import Agent, House, open_house, until

pytestmark = pytest.mark.live

BURST = 400


def burst(house: House, agent: Agent) -> int:
    """So many requests over one connection; how much the log grew."""
    before = sum(path.stat().st_size for path in house.places.audit.glob("*.seg"))
    for number in range(BURST):
        agent.ask("POST", "/v1/http", {"service": "nothing", "method": "GET", "path": f"/{number}"}, keep=1)
    return sum(path.stat().st_size for path in house.places.audit.glob("*.seg")) - before


def test_a_flood_of_refusals_ends_as_a_number(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        with house.agent() as agent:
            grown = [burst(house, agent) for _ in range(3)]
            told = agent.ask("GET", "/v1/health")
        assert grown[0] > BURST * 200, "each is recorded"
        assert grown[2] < grown[0] / 20, "and then none"
        assert 200 == told["status"]
        house.stop()
        house.start()
        house.human.unlock()
        house.human.open_session()

        (summary,) = house.human.events("flood.summary")
        assert 3 * BURST - IN_FULL == summary["fields"]["count"]
        assert "unknown_service" == summary["fields"]["code"]


CHURN = """
import os, socket, sys
REQUEST = (b"POST /v1/session HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
           b"Content-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{}")
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        one = socket.socket(socket.AF_UNIX)
        one.connect(sys.argv[1])
        one.sendall(REQUEST)
        said = b""
        while (part := one.recv(4096)):
            said += part
        os._exit(0 if b" 200 " in said[:20] else 1)
    assert os.waitpid(child, 0)[1] == 0
"""


def churn(house: House, processes: int) -> int:
    """So many processes that open a session and end; how much the log grew."""
    before = sum(path.stat().st_size for path in house.places.audit.glob("*.seg"))
    words = [sys.executable, "-I", "-c", CHURN, house.places.agent_socket, str(processes)]
    subprocess.run(words, check=True, timeout=120)
    until(lambda: house.human.client.sessions() == [])
    return sum(path.stat().st_size for path in house.places.audit.glob("*.seg")) - before


def test_processes_that_come_and_go_without_end_are_a_number(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        grown = [churn(house, SESSIONS_IN_FULL), churn(house, 400)]
        assert grown[0] > SESSIONS_IN_FULL * 400, "each has two records"
        assert grown[1] < grown[0] / 20, "and then none"
        house.stop()
        house.start()
        house.human.unlock()
        house.human.open_session()

        (summary,) = house.human.events("flood.summary")
        told = [len(house.human.events(name)) for name in ("session.opened", "session.ended")]
        assert "session.opened" == summary["fields"]["of"]
        assert [SESSIONS_IN_FULL + 400] * 2 == [number + summary["fields"]["count"] for number in told]


def test_who_was_refused_for_the_lock_may_ask_again_at_once_after_the_unlock(tmp_path: Path) -> None:
    with open_house(tmp_path / "l") as house:
        house.human.client.lock()
        request = {"service": "nothing", "method": "GET", "path": "/"}
        with house.agent() as agent:
            told = [agent.ask("POST", "/v1/http", request, keep=1)["value"]["code"] for _ in range(IN_FULL + 5)]
            house.human.unlock()
            after = agent.ask("POST", "/v1/http", request, keep=1)["value"]["code"]
        house.human.open_session()
        (summary,) = house.human.events("flood.summary")

    assert ["locked"] * IN_FULL + ["local_limit"] * 5 == told
    assert "unknown_service" == after
    assert ("locked", 5) == (summary["fields"]["code"], summary["fields"]["count"])
    assert summary["fields"]["first_ms"] <= summary["fields"]["last_ms"]


def test_a_freeze_that_is_said_again_and_again_is_recorded_once(tmp_path: Path) -> None:
    with open_house(tmp_path / "f") as house:
        for _ in range(3):
            assert house.human.ask("POST", "/v1/freeze", {})[0] == 200

        assert 1 == len(house.human.events("daemon.frozen"))

import subprocess
import sys
from pathlib import Path

import pytest

from broker.client.agent import AgentClient
from broker.client.faults import Broken, NotRunning
from broker.client.places import Places
from tests.fakes.unix_daemon import RawServer, UnixDaemon

ROOT = Path(__file__).resolve().parents[2]
ID = "op_" + "0123456789ab" * 3 + "01234567"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places({"DOORWARD_HOME": str(tmp_path)})


def test_each_verb_asks_its_route(places: Places) -> None:
    with UnixDaemon(Path(places.agent_socket)) as daemon, AgentClient(places) as client:
        for line in (
            "POST /v1/http",
            "POST /v1/explain",
            "GET /v1/services",
            "GET /v1/session",
            "POST /v1/session",
            f"GET /v1/results/{ID}",
            f"DELETE /v1/results/{ID}",
            "POST /v1/reconcile",
            "GET /v1/health",
        ):
            daemon.replies[line] = (200, {"line": line})

        assert {"line": "POST /v1/http"} == client.http({"method": "GET", "url": "https://a"})
        assert {"line": "POST /v1/explain"} == client.explain({"method": "GET", "url": "https://a"})
        assert {"line": "GET /v1/services"} == client.services()
        assert {"line": "GET /v1/session"} == client.session()
        assert {"line": "POST /v1/session"} == client.session(start=True, label="x", tree=True)
        client.session(start=True, ancestor_pid=7)
        assert {"line": f"GET /v1/results/{ID}"} == client.result(ID)
        client.result(ID, wait_s=2.5)
        assert {"line": f"DELETE /v1/results/{ID}"} == client.withdraw(ID)
        assert {"line": "POST /v1/reconcile"} == client.reconcile(ID)
        assert {"line": "GET /v1/health"} == client.health()
        assert [{"label": "x", "tree": True}, {"ancestor_pid": 7}] == daemon.bodies("POST /v1/session")
        assert [{"action": "http", "request": {"method": "GET", "url": "https://a"}}] == daemon.bodies(
            "POST /v1/explain"
        )
        assert f"/v1/results/{ID}?wait_s=2.5" in [asked.target for asked in daemon.asked]


@pytest.mark.parametrize("status", [400, 413, 422, 429, 503])
def test_a_refusal_comes_back_as_its_envelope(places: Places, status: int) -> None:
    with UnixDaemon(Path(places.agent_socket)) as daemon, AgentClient(places) as client:
        daemon.replies["POST /v1/http"] = (status, {"category": "invalid_request"})

        assert {"category": "invalid_request"} == client.http({"wait_s": 0})


def test_an_unknown_route_is_no_answer(places: Places) -> None:
    with UnixDaemon(Path(places.agent_socket)), AgentClient(places) as client, pytest.raises(Broken, match="version"):
        client.services()


@pytest.mark.parametrize("body", [b"", b"nope", b"[]", b'{"a":1,"a":2}', b'{"a":NaN}'])
def test_an_answer_that_is_no_strict_json_is_refused(places: Places, body: bytes) -> None:
    with UnixDaemon(Path(places.agent_socket)) as daemon, AgentClient(places) as client:
        daemon.replies["GET /v1/services"] = (200, body)

        with pytest.raises(Broken) as fault:
            client.services()
        assert fault.value.sent


def test_a_daemon_that_hung_up_between_calls_is_asked_anew(places: Places) -> None:
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{"n": 10}'
    with RawServer(Path(places.agent_socket), answer) as server, AgentClient(places) as client:
        assert {"n": 10} == client.services()
        assert {"n": 10} == client.services()
        assert 2 == len(server.received)


def test_nobody_there_is_typed(places: Places) -> None:
    with AgentClient(places) as client, pytest.raises(NotRunning):
        client.health()


@pytest.mark.parametrize("odd", ["", "../status", "a/b", "a b", "ä", "a?b"])
def test_an_id_cannot_name_another_route(places: Places, odd: str) -> None:
    with AgentClient(places) as client, pytest.raises(ValueError, match="no id"):
        client.result(odd)


def test_importing_the_client_costs_next_to_nothing() -> None:
    script = (
        "import sys; import socket; before = set(sys.modules); import broker.client.agent;"
        "print(' '.join(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30, cwd=ROOT
    ).stdout.split()

    assert {"broker", "broker.client", "broker.client.agent", "broker.client.faults", "broker.client.transport"} == {
        name for name in loaded if name.startswith("broker")
    }
    assert not {"typing", "dataclasses", "asyncio", "http.client", "json", "argparse", "pathlib"} & set(loaded)

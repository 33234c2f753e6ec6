"""T10, T11: without a good yes no byte reaches the target, by whichever face it was asked, however the card ended."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live.house import Agent, House, open_house, until

pytestmark = pytest.mark.live

POLICY = """
version = 1

[[rules]]
id = "each"
services = ["shop"]
approval = "per_call"

[[rules]]
id = "brief"
services = ["brief"]
approval = "per_call"
expires_s = 5

[services.brief]
kind = "http"
base_url = "{origin}/brief"
credential = "shop"
ad_hoc = ["POST"]

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET", "POST"]

[services.shop.operations."orders.list"]
request = {{ method = "GET", path = "/orders", query = ["page"] }}
effect = "read"

[services.shop.operations."stalls.list"]
request = {{ method = "GET", path = "/stalls" }}
effect = "read"

[services.shop.operations."orders.list".completeness]
complete_when = "type(json.orders) == 'array' && json.more == `false`"
examples.match = [{{ status = 200, json = {{ orders = [], more = false }} }}]
examples.no_match = [{{ status = 200, json = {{ orders = [], more = true }} }}]
"""
BUY: dict[str, Any] = {"service": "shop", "method": "POST", "path": "/orders", "body": "{}"}


class Target:
    """A socket that somebody would have to connect to. It counts connections and bytes."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self.octets = 0
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def close(self) -> None:
        self.listener.close()

    def _listen(self) -> None:
        while True:
            try:
                taken, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            with taken:
                self.octets += len(taken.recv(1 << 16))


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, target: Target) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("t10") / "h", origin=target.origin, policy=POLICY) as made:
        yield made


def nothing_reached(target: Target) -> bool:
    return (0, 0) == (target.connections, target.octets)


FACES: dict[str, tuple[str, dict[str, Any]]] = {
    "http": ("/v1/http", BUY),
    "operation": ("/v1/http", {"service": "shop", "operation": "stalls.list", "args": {}}),
    "stream": ("/v1/http/stream", {**BUY, "path": "/orders/stream"}),
    "collect": ("/v1/collect", {"service": "shop", "operation": "orders.list", "args": {}}),
}


@pytest.mark.parametrize("face", FACES)
def test_a_no_is_a_no_at_every_face(house: House, target: Target, face: str) -> None:
    path, request = FACES[face]
    with house.agent() as agent:
        asking = agent.begin("POST", path, {**request, "reason": face})
        house.human.deny(house.human.wait_for_card(), "no")
        told = agent.end(asking)

    assert 200 == told["status"]
    assert "declined" in str(told["value"]) or face == "stream", "what comes in frames is no JSON"
    assert nothing_reached(target)


def test_a_no_is_a_no_to_the_command_line(house: House, target: Target) -> None:
    words = (
        "/usr/bin/env",
        f"DOORWARD_HOME={house.environ['DOORWARD_HOME']}",
        sys.executable,
        "-I",
        "-m",
        "broker.cli",
        "http",
        "GET",
        "shop",
        "/from-the-command-line",
        "--json",
    )
    with house.agent() as agent:
        asking = agent.order("run", argv=list(words))
        house.human.deny(house.human.wait_for_card(), "no")
        told = agent.end(asking)

    assert "declined" in str(told)
    assert nothing_reached(target)


def ends_by_itself(_: House, __: str, ___: Agent) -> None:
    """Nobody answers."""


def is_withdrawn(house: House, _: str, agent: Agent) -> None:
    asked = house.human.events("approval.requested")[-1]
    agent.ask("DELETE", f"/v1/results/{asked['correlation_id']}")


def session_is_revoked(house: House, _: str, __: Agent) -> None:
    (session,) = house.human.client.sessions()
    house.human.client.revoke_session(str(session["id"]))


def is_frozen(house: House, _: str, __: Agent) -> None:
    house.human.client.freeze()


def credential_changes(house: House, _: str, __: Agent) -> None:
    house.human.client.rotate_credential("shop", {"token": "canary-token-of-the-next-day"}, house.key)


def policy_changes(house: House, _: str, __: Agent) -> None:
    path = house.places.policies / "shop.toml"
    house.human.write_policy("shop.toml", path.read_text(encoding="utf-8") + "\n# another day\n")
    house.human.trust()


ENDINGS: dict[str, tuple[Callable[[House, str, Agent], None], str]] = {
    "expired": (ends_by_itself, "approval_expired"),
    "withdrawn": (is_withdrawn, "withdrawn"),
    "revoked": (session_is_revoked, "session_ended"),
    "frozen": (is_frozen, "frozen"),
    "credential": (credential_changes, "approval_void"),
    "policy": (policy_changes, "approval_void"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_card_that_ends_otherwise_is_no_yes(house: House, target: Target, ending: str) -> None:
    end, code = ENDINGS[ending]
    with house.agent() as agent:
        service = "brief" if ending == "expired" else "shop"
        asking = agent.begin_act(**{**BUY, "service": service, "path": f"/orders/{ending}"})
        card = house.human.wait_for_card()
        end(house, card, agent)
        told = agent.end_act(asking)
    if ending == "frozen":
        house.human.client.thaw(house.key)
    decided = [one for one in house.human.events("approval.decided") if one["fields"]["approval_id"] == card]

    assert code == told["code"]
    assert 1 == len(decided), "one record of what became of the card"
    assert nothing_reached(target)


def test_a_crash_of_either_side_is_no_yes(house: House, target: Target) -> None:
    agent = house.agent()
    with agent:
        agent.begin_act(**{**BUY, "path": "/orders/agent-dies"})
        house.human.wait_for_card()
        agent.kill()
        until(lambda: not house.human.cards())
    with house.agent() as other:
        other.begin_act(**{**BUY, "path": "/orders/daemon-dies"})
        house.human.wait_for_card()
        house.kill()
    house.start()
    house.human.unlock()
    house.human.open_session()

    assert [] == house.human.cards()
    assert [] == house.human.events("dispatch.started")
    assert nothing_reached(target)

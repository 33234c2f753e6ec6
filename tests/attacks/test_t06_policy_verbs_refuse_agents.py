"""T06, of policies: whoever holds a session changes no policy, not even with a signature that is good."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.house import Agent, House, open_house
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

LOOSE = 'version = 1\n[[rules]]\nid = "more"\nservices = ["shop"]\napproval = "none"\n'


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving() as upstream, open_house(tmp_path_factory.mktemp("t06") / "h", origin=upstream.origin) as one:
        one.human.write_policy("more.toml", LOOSE)
        yield one


@pytest.fixture(scope="module")
def agent(house: House) -> Iterator[Agent]:
    """It has asked once, so it holds a session."""
    with house.agent() as one:
        one.act(service="open", method="GET", path="/x")
        yield one


def signed(house: House) -> dict[str, Any]:
    pending: Any = house.human.client.policy_pending()
    values = {"policy_digest": pending["digest"], "counter": pending["counter"], "log_id": house.log_id}
    signature = base64.b64encode(house.key.sign_policy(values)).decode()
    return {"policy_digest": pending["digest"], "counter": pending["counter"], "signature": signature}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/policy"), ("GET", "/v1/policy/pending"), ("POST", "/v1/policy/trust"), ("POST", "/v1/explain")],
)
def test_no_policy_verb_answers_what_an_agent_started(house: House, agent: Agent, method: str, path: str) -> None:
    body = None
    if method == "POST":
        body = (
            signed(house) if path.endswith("trust") else {"request": {"service": "open", "method": "GET", "path": "/"}}
        )
    before: Any = house.human.client.policy()
    told = agent.child(house.places.control_socket, method, path, body)

    assert "agent_session" == told["value"]["error"]["code"]
    assert before["digest"] == house.human.client.policy()["digest"]


def test_the_agents_socket_knows_no_policy_verb(house: House, agent: Agent) -> None:
    for path in ("/v1/policy", "/v1/policy/pending", "/v1/policy/trust"):
        assert agent.ask("POST", path, signed(house))["status"] >= 400


def test_the_same_statement_from_a_human_is_taken(house: House) -> None:
    status, told = house.human.ask("POST", "/v1/policy/trust", signed(house))

    assert (200, 2) == (status, told["counter"])

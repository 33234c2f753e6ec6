"""T47: an agent can't make a human type a secret for a host of its choosing; rebinding asks for the value again."""

from collections.abc import Iterator
from typing import Any

import pytest

from broker.client.control_people import People
from broker.client.faults import Refused
from tests.live.house import Agent, House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

POLICY = """
version = 1

[[rules]]
id = "look"
services = ["shop", "stock", "depot", "open"]
effects = ["read"]
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET"]

[services.stock]
kind = "http"
base_url = "{origin}/stock"
credential = "stock-key"
ad_hoc = ["GET"]

[services.depot]
kind = "http"
base_url = "{origin}/depot"
credential = "depot-key"
ad_hoc = ["GET"]

[services.open]
kind = "http"
base_url = "{origin}/open"
ad_hoc = ["GET"]

[services.closed]
kind = "http"
base_url = "{origin}/closed"
credential = "closed-key"
ad_hoc = ["GET"]
"""
ASK = "/v1/credential-requests"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("t47") / "h", origin=upstream.origin, policy=POLICY) as made:
        yield made


def people(house: House) -> People:
    return People(house.human.client)


def waiting(house: House) -> list[dict[str, Any]]:
    return [dict(want) for want in people(house).wants() if want["state"] == "pending"]


def wish(agent: Agent, service: str = "stock", **more: Any) -> dict[str, Any]:
    told = agent.ask("POST", ASK, {"service": service, "purpose": "counting what is left", **more})
    return {**told["value"], "http": told["status"]}


def gist(told: dict[str, Any]) -> tuple[Any, Any]:
    return told["category"], told["code"]


@pytest.mark.parametrize(
    "more",
    [
        {"host": "evil.example"},
        {"url": "https://evil.example/"},
        {"origin": "https://evil.example"},
        {"base_url": "https://evil.example"},
        {"credential": "shop"},
        {"value": "canary-of-the-agent"},
    ],
)
def test_a_wish_takes_a_service_and_a_purpose_and_nothing_else(house: House, more: dict[str, str]) -> None:
    with house.agent() as agent:
        told = wish(agent, **more)

    assert (422, "invalid_request", "schema") == (told["http"], *gist(told))
    assert [] == waiting(house)


@pytest.mark.parametrize(
    ("service", "category", "code"),
    [
        ("evil.example", "invalid_request", "unknown_service"),
        ("closed", "policy_denied", "no_rule"),
        ("shop", "success", "ok"),
        ("open", "success", "ok"),
    ],
    ids=["unknown", "not opened", "there already", "none needed"],
)
def test_nobody_is_asked_for_what_the_policy_does_not_name_or_what_is_there(
    house: House, service: str, category: str, code: str
) -> None:
    before = len(people(house).wants())
    with house.agent() as agent:
        told = wish(agent, service)

    assert (category, code) == gist(told)
    assert before == len(people(house).wants())


def test_the_human_is_shown_the_policys_places_and_the_agent_learns_no_more_than_that_it_is_there(
    house: House, upstream: Upstream
) -> None:
    with house.agent() as agent:
        pending = wish(agent, "depot", wait_s=0)
        assert ("approval_pending", "waiting") == gist(pending)
        (want,) = waiting(house)
        shown = people(house).want(want["id"])
        assert [f"{upstream.origin}/depot"] == shown["origins"]
        assert ("depot-key", "counting what is left") == (shown["credential"], shown["purpose"])
        assert "purpose" not in want, "nothing that an agent wrote is shown before a key was proven"
        same = agent.begin("POST", ASK, {"service": "depot", "purpose": "again"})
        until(lambda: [2] == [one["joined"] for one in waiting(house)])
        house.human.add_bearer("depot-key", "canary-token-of-the-depot", upstream.origin)
        told = agent.end(same)["value"]
        polled = agent.ask("GET", f"/v1/results/{pending['correlation_id']}?wait_s=15")["value"]
        used = agent.act(service="depot", method="GET", path="/x")

    for envelope in (told, polled):
        assert ("success", "ok") == gist(envelope)
        assert upstream.origin not in str(envelope)
        assert "bearer" not in str(envelope)
    assert "success" == used["category"]
    decided = [event["fields"] for event in house.human.events("approval.decided")]
    assert [(want["id"], "provided")] == [(one["approval_id"], one["decision"]) for one in decided]


def test_a_no_is_told_with_its_reason_and_stands_for_a_while(house: House) -> None:
    with house.agent() as agent:
        asking = agent.begin("POST", ASK, {"service": "stock", "purpose": "please"})
        (want,) = until(lambda: waiting(house))
        assert "declined" == people(house).decline(want["id"], "Ask the store first.")["state"]
        told = agent.end(asking)["value"]
        again = wish(agent)
        with pytest.raises(Refused, match="settled already"):
            people(house).decline(want["id"], None)

    assert ("call_denied", "declined") == gist(told)
    assert "Ask the store first." in told["message"]
    assert ("call_denied", "denied_recently") == gist(again)
    assert [] == waiting(house)


def test_an_agent_answers_no_wish_and_reads_none(house: House) -> None:
    with house.agent() as agent:
        wish(agent, wait_s=0)
        for method, path, body in (
            ("GET", ASK, None),
            ("GET", f"{ASK}/cr_0123456789ab", None),
            ("POST", f"{ASK}/cr_0123456789ab/decline", {}),
        ):
            told = agent.ask(method, path, body, socket=house.places.control_socket)
            assert (403, "agent_session") == (told["status"], told["value"]["error"]["code"])


def test_a_rebinding_without_the_value_is_refused_and_changes_nothing(house: House, upstream: Upstream) -> None:
    client, key = house.human.client, house.human.key
    before = client.credentials()
    with pytest.raises(Refused) as refused:
        client.rebind_credential("shop", ["https://evil.example"], {}, key)

    assert "schema" == refused.value.code
    assert before == client.credentials()
    client.rebind_credential("shop", [f"{upstream.origin}/other"], {"token": "canary-typed-again"}, key)
    (after,) = [one for one in client.credentials() if one["name"] == "shop"]
    assert [f"{upstream.origin}/other"] == after["origins"]
    sent = len(upstream.requests)
    with house.agent() as agent:
        assert "success" != agent.act(service="shop", method="GET", path="/x")["category"]
    assert sent == len(upstream.requests)


def test_a_lock_ends_what_waits(house: House) -> None:
    house.human.client.remove_credential("depot-key", house.human.key)
    with house.agent() as agent:
        asking = agent.begin("POST", ASK, {"service": "depot", "purpose": "please"})
        until(lambda: waiting(house))
        house.human.client.lock()
        told = agent.end(asking)["value"]
        assert ("vault_locked", "locked") == gist(told)
        assert ("vault_locked", "locked") == gist(wish(agent, "depot"))
    assert [] == waiting(house)

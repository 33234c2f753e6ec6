"""What comes in between: two who ask for one change, bursts, edits, revokes and restarts, just when they hurt most."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.control_answers import part
from tests.fakes.upstream import Behaviour, Conversation, raw, respond
from tests.live.findings import canaries, gist, in_doubt, trail, verdict
from tests.live.house import Agent, House, open_house, until
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

JSON = ("content-type", "application/json")
MADE = respond(201, b'{"id": "o1"}', headers=(JSON,))
LOST = raw(then="close")
LIMIT_S = 60.0
SLEPT = ("-I", str(Path(__file__).with_name("slept_daemon.py")))
POLICY = """
version = 1

[limits]
prompts_per_minute = 60
idle_lock_s = 7200

[[rules]]
id = "look"
services = ["shop"]
effects = ["read"]
approval = "session"
max_uses = 3

[[rules]]
id = "buy"
services = ["shop"]
effects = ["write"]
approval = "per_call"

[[rules]]
id = "walk"
services = ["lists"]
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}/shop"
credential = "shop"
ad_hoc = ["GET", "POST"]

[services.lists]
kind = "http"
base_url = "{origin}/lists"
credential = "shop"

[services.lists.operations."rows.list"]
effect = "read"
request = {{ method = "GET", path = "/rows", query = ["page"] }}
completeness.items = "json.rows"
completeness.id = "id"
pagination = {{ kind = "body_token", token = "json.next", param = "page", stability = "snapshot" }}

[services.lists.operations."rows.create"]
effect = "write"
request = {{ method = "POST", path = "/rows", body = ["id"] }}
reconcile = {{ operation = "rows.list", args = {{}}, match = "json.rows[?id == $id]" }}
"""


def held(go_on: threading.Event, behaviour: Behaviour) -> Behaviour:
    async def behave(talk: Conversation) -> None:
        while not go_on.is_set():  # noqa: ASYNC110 - it is set by a thread
            await asyncio.sleep(0.01)
        await behaviour(talk)

    return behave


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(scope="module")
def upstream() -> Iterator[RoughUpstream]:
    with misbehaving() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: RoughUpstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("moments") / "h", origin=upstream.origin, policy=POLICY) as made:
        yield made


@pytest.fixture
def agent(house: House) -> Iterator[Agent]:
    with house.agent() as asking:
        yield asking


def buy(name: str) -> dict[str, Any]:
    return {"service": "shop", "method": "POST", "path": f"/orders/{name}", "body": {"name": name}}


def look(number: int) -> dict[str, Any]:
    return {"service": "shop", "method": "GET", "path": f"/things/{number}"}


def two_cards(house: House, one: Agent, other: Agent, request: dict[str, Any]) -> tuple[int, int, list[str]]:
    """The same change, asked for by two sessions, each with a card of its own."""
    first = one.begin_act(**request)
    house.human.wait_for_card()
    second = other.begin_act(**request)
    until(lambda: len(house.human.cards()) == 2)
    return first, second, [card["id"] for card in house.human.cards()]


def test_of_two_yeses_to_one_change_the_second_waits_for_the_first_and_learns_of_its_doubt(
    house: House, upstream: RoughUpstream, agent: Agent, go_on: threading.Event
) -> None:
    upstream.at("/shop/orders/twice", held(go_on, LOST))
    with house.agent() as other:
        first, second, cards = two_cards(house, agent, other, buy("twice"))
        for card in cards:
            house.human.approve(card)
        until(lambda: upstream.seen("/shop/orders/twice"))
        go_on.set()
        told, refused = agent.end_act(first), other.end_act(second)

    assert ("outcome_unknown", "connection_lost", "after_human", "unknown") == gist(told)
    assert ("reconcile_required", "in_doubt", "reconcile_first", "unknown") == gist(refused)
    assert told["correlation_id"] == refused["previous_correlation_id"]
    assert 1 == len(upstream.seen("/shop/orders/twice"))


def test_a_yes_to_a_card_that_was_drawn_before_the_doubt_sends_nothing(
    house: House, upstream: RoughUpstream, agent: Agent
) -> None:
    upstream.at("/shop/orders/late", LOST)
    with house.agent() as other:
        first, second, (early, late) = two_cards(house, agent, other, buy("late"))
        house.human.approve(early)
        assert "outcome_unknown" == agent.end_act(first)["category"]
        house.human.approve(late)
        refused = other.end_act(second)

    assert ("reconcile_required", "in_doubt", "reconcile_first", "unknown") == gist(refused)
    assert 1 == len(upstream.seen("/shop/orders/late"))


def test_a_yes_for_the_session_answers_the_cards_of_a_burst_that_it_covers_and_no_more(
    house: House, upstream: RoughUpstream, agent: Agent
) -> None:
    upstream.at("/shop/orders/beside", MADE)
    for number in range(5):
        upstream.at(f"/shop/things/{number}", respond(200, b"{}", headers=(JSON,)))
    bought = agent.begin_act(**buy("beside"))
    (beside,) = until(house.human.cards)
    burst = [agent.begin_act(**look(number)) for number in range(5)]
    until(lambda: len(house.human.cards()) == 6)
    first = next(card for card in house.human.cards() if card["effect"] == "READ")
    house.human.approve(first["id"], scope="session")
    until(lambda: len(house.human.cards()) == 3)
    left = [card["id"] for card in house.human.cards()]
    for card in left:
        house.human.deny(card)
    told = [agent.end_act(number) for number in burst]

    assert beside["id"] in left, "another rule's card waits for an answer of its own"
    assert ["session_denied"] * 2 + ["success"] * 3 == sorted(envelope["category"] for envelope in told)
    sent = [envelope for envelope in told if envelope["category"] == "success"]
    decided = [
        event["fields"]["decision"]
        for envelope in sent
        for event in trail(house, envelope["correlation_id"])
        if event["event"] == "approval.decided"
    ]
    assert ["approve", "superseded", "superseded"] == sorted(decided)
    assert {"granted"} == {envelope["gate"]["session"] for envelope in sent}
    assert "call_denied" == agent.end_act(bought)["category"]


def rows(seen: list[int], go_on: threading.Event) -> Behaviour:
    """Pages without end, of which the second waits."""

    async def behave(talk: Conversation) -> None:
        seen.append(len(seen) + 1)
        number = seen[-1]
        body = json.dumps({"rows": [{"id": number}], "next": f"p{number}"}).encode()
        answer = respond(200, body, headers=(JSON,))
        await (held(go_on, answer) if number == 2 else answer)(talk)

    return behave


def test_a_session_that_is_revoked_between_two_pages_asks_for_no_further_one(
    house: House, upstream: RoughUpstream, agent: Agent, go_on: threading.Event
) -> None:
    seen: list[int] = []
    upstream.at("/lists/rows", rows(seen, go_on))
    asking = agent.begin("POST", "/v1/collect", {"service": "lists", "operation": "rows.list", "args": {}})
    until(lambda: len(seen) == 2)
    (session,) = [row for row in house.human.client.sessions() if row["pid"] == agent.pid]
    house.human.client.revoke_session(str(session["id"]))
    go_on.set()
    envelope = agent.end(asking)["value"]

    assert ("partial", "incomplete", "never", "none") == gist(envelope)
    told = envelope["completeness"]
    assert (False, 2, None) == (told["complete"], told["returned"], told["next_cursor"])
    assert [("SOURCE_UNAVAILABLE", "broker")] == [(one["code"], one["by"]) for one in told["incomplete_reasons"]]
    assert [1, 2] == seen


def test_an_edit_that_is_refused_ends_no_card(house: House, upstream: RoughUpstream, agent: Agent) -> None:
    upstream.at("/shop/orders/edited", MADE)
    asking = agent.begin_act(**buy("edited"))
    card = house.human.wait_for_card()
    house.human.write_policy("zz.toml", "nosuch = 1\n")
    try:
        until(lambda: house.human.events("policy.edit_refused"))
        house.human.approve(card)
        assert ("success", "ok", "never", "applied") == gist(agent.end_act(asking))
    finally:
        (house.places.policies / "zz.toml").unlink()


def test_a_no_outlasts_a_lock_and_ends_with_the_daemon(house: House, upstream: RoughUpstream, agent: Agent) -> None:
    upstream.at("/shop/orders/denied", MADE)
    asking = agent.begin_act(**buy("denied"))
    house.human.deny(house.human.wait_for_card(), "not today")
    assert "declined" == agent.end_act(asking)["code"]
    house.human.client.lock()
    house.human.unlock()
    house.human.open_session()
    assert "denied_recently" == agent.act(**buy("denied"))["code"]

    house.stop()
    house.start().open()
    asking = agent.begin_act(**buy("denied"))
    house.human.deny(house.human.wait_for_card(), "still not")
    assert "declined" == agent.end_act(asking)["code"]
    assert [] == upstream.seen("/shop/orders/denied")


def test_a_vault_that_locks_for_idleness_lets_a_read_back_end_and_settles_nothing_by_it(
    tmp_path: Path, upstream: RoughUpstream, go_on: threading.Event
) -> None:
    slept = tmp_path / "slept"
    upstream.at("/lists/rows", LOST)
    with House(tmp_path / "h") as other:
        other.init().start(str(slept), program=SLEPT).open(POLICY, origin=upstream.origin)
        with other.agent() as agent:
            lost = agent.act(service="lists", operation="rows.create", args={"id": 7})
            assert "outcome_unknown" == lost["category"]
            whole = respond(200, b'{"rows": [{"id": 7}]}', headers=(JSON,))
            upstream.at("/lists/rows", held(go_on, whole))
            before = len(upstream.seen("/lists/rows"))
            asking = agent.begin("POST", "/v1/reconcile", {"correlation_id": lost["correlation_id"]})
            until(lambda: len(upstream.seen("/lists/rows")) > before, limit_s=LIMIT_S)
            slept.write_text("7300")
            until(lambda: part(other.human.client.status(), "vault")["locked_for"] == "idle", limit_s=LIMIT_S)
            go_on.set()
            told = agent.end(asking)["value"]
        other.human.unlock()
        other.human.open_session()
        assert ("vault_locked", "locked", "after_human", "none") == gist(told)
        assert "stays in doubt" in told["message"]
        assert {lost["correlation_id"]} == in_doubt(other)


def test_after_all_of_it_the_log_verifies_offline_and_nothing_holds_the_credential(house: House) -> None:
    house.stop()

    assert "OK" == verdict(house)
    assert [] == canaries(house)

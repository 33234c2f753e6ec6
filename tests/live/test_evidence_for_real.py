"""Evidence through the real daemon: collected by one request, leaned on by another, and answered by a human."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import accounts_upstream
from tests.live.accounts_upstream import POLICY, Accounts
from tests.live.findings import breaches, in_doubt, trail
from tests.live.house import Agent, House, open_house, until

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-accounts"
PROJECT = "acme-prod"


class World:
    def __init__(self, house: House, accounts: Accounts) -> None:
        self.house = house
        self.human = house.human
        self.accounts = accounts

    def chosen(self, choice: str) -> dict[str, Any]:
        """The human takes another way on the one card that waits; the card."""
        served = self.human.client.approval(self.human.wait_for_card())
        until(lambda: time.time() * 1000 > served.served_at_ms + served.arming_ms + 5)
        told = self.human.client.approve(served, self.human.key, choice=choice)
        assert "superseded" == told["state"]
        return dict(served.raw)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with accounts_upstream.serving() as accounts, open_house(tmp_path / "h") as house:
        house.human.add_bearer("cloud-ops", TOKEN, accounts.origin)
        house.human.write_policy("cloud.toml", POLICY.format(origin=accounts.origin))
        house.human.trust()
        yield World(house, accounts)


@pytest.fixture
def agent(world: World) -> Iterator[Agent]:
    with world.house.agent() as asking:
        yield asking


def collect(agent: Agent, **more: Any) -> dict[str, Any]:
    request = {"service": "cloud", "operation": "accounts.list", "args": {"project": PROJECT}, **more}
    envelope: dict[str, Any] = agent.ask("POST", "/v1/collect", request)["value"]
    assert [] == breaches(envelope)
    return envelope


def request_for(operation: str, **args: Any) -> dict[str, Any]:
    return {"service": "cloud", "operation": operation, "args": {"project": PROJECT, **args}}


def deletion(*names: str) -> dict[str, Any]:
    return request_for("accounts.delete", names=list(names))


def test_what_is_proven_is_asked_about_once_and_done(world: World, agent: Agent) -> None:
    evidence = collect(agent)["evidence"]
    assert (True, 3) == (evidence["complete"], evidence["count"])

    number = agent.begin_act(**deletion("ci-legacy-2", "svc-build-7"), evidence=[evidence["id"]])
    card = world.human.approve(world.human.wait_for_card()).card
    envelope = agent.end_act(number)

    assert "complete" == card.evidence.state
    assert ("success", "applied") == (envelope["category"], envelope["remote_effect"])
    assert ["ci-legacy-5"] == world.accounts.names
    assert 1 == len(world.human.events("evidence.recorded"))


def test_a_card_with_a_gap_is_read_on_and_comes_again(world: World, agent: Agent) -> None:
    cut = collect(agent, budget={"pages": 1})
    assert (False, "partial") == (cut["evidence"]["complete"], cut["category"])

    number = agent.begin_act(**deletion("ci-legacy-2", "svc-build-7"))
    first = world.chosen("collect")["evidence"]
    assert ("incomplete", ["svc-build-7"], ["collect", "limit"]) == (
        first["state"],
        first["items"][0]["unproven"],
        first["choices"],
    )
    served = world.human.approve(world.human.wait_for_card())
    envelope = agent.end_act(number)

    assert ("complete", ()) == (served.card.evidence.state, served.card.evidence.choices)
    assert "success" == envelope["category"]
    assert ["/accounts", "/accounts?after=2", "/accounts:delete"] == [  # it was read on, and not from the beginning
        one.split()[1].removeprefix("/v1/acme-prod") for one in world.accounts.requests
    ]
    decided = [one["fields"] for one in world.human.events("approval.decided")]
    assert ["collect", None] == [one["choice"] for one in decided]


def test_a_limited_request_is_another_one_with_a_card_of_its_own(world: World, agent: Agent) -> None:
    collect(agent)
    number = agent.begin_act(**deletion("ci-legacy-2", "ci-legacy-9"), reason="clean up")
    world.chosen("limit")
    ended = agent.end_act(number)
    assert [] == breaches(ended)
    assert ("approval_timeout", "superseded", "none") == (ended["category"], ended["code"], ended["remote_effect"])

    served = world.human.approve(world.human.wait_for_card())
    limited = ended["next"]["command"].removeprefix("doorward result ")
    envelope = until(lambda: agent.ask("GET", f"/v1/results/{limited}?wait_s=20")["value"])

    assert ("complete", "clean up") == (served.card.evidence.state, served.card.who.says)
    assert ("success", ended["correlation_id"]) == (envelope["category"], envelope["previous_correlation_id"])
    assert ['POST /v1/acme-prod/accounts:delete {"names":["ci-legacy-2"]}'] == world.accounts.changes


def test_a_no_abandons_it(world: World, agent: Agent) -> None:
    number = agent.begin_act(**deletion("ci-legacy-2"))
    world.human.deny(world.human.wait_for_card(), "not without looking")
    envelope = agent.end_act(number)

    assert ("call_denied", "declined") == (envelope["category"], envelope["code"])
    assert [] == world.accounts.changes


def test_absence_has_to_be_proven_where_the_rule_forbids_the_rest(world: World, agent: Agent) -> None:
    create = request_for("accounts.create", name="svc-new-1")
    refused = agent.act(**create)
    assert [] == breaches(refused)
    assert ("evidence_required", "none_recorded", "never", "none") == tuple(
        refused[key] for key in ("category", "code", "retry", "remote_effect")
    )
    assert {"action": "collect", "command": "doorward collect cloud.accounts.list project=acme-prod"} == refused["next"]

    foreseen = agent.ask("POST", "/v1/explain", {"action": "http", "request": create})["value"]
    assert ("deny", "none_recorded") == (foreseen["decision"], foreseen["code"])

    collect(agent)
    assert "allow" == agent.ask("POST", "/v1/explain", {"action": "http", "request": create})["value"]["decision"]
    assert "success" == agent.act(**create)["category"]
    collect(agent)
    again = agent.act(**create)
    assert ("evidence_required", "target_present") == (again["category"], again["code"])
    assert 1 == len(world.accounts.changes)


def test_a_collection_is_of_no_use_to_another_agent(world: World, agent: Agent) -> None:
    evidence = collect(agent)["evidence"]["id"]
    with world.house.agent() as other:
        told = other.act(**request_for("accounts.create", name="svc-new-1"), evidence=[evidence])

    assert ("evidence_required", "none_recorded") == (told["category"], told["code"])
    assert [] == world.accounts.changes


def test_a_collection_outlives_the_daemon_and_a_lock_but_no_new_credential(world: World, agent: Agent) -> None:
    collect(agent)
    world.house.stop()
    world.house.start()
    world.human.unlock()
    world.human.open_session()
    assert "success" == agent.act(**request_for("accounts.create", name="svc-new-1"))["category"]

    world.human.client.rotate_credential("cloud-ops", {"token": TOKEN + "-2"}, world.human.key)
    told = agent.act(**request_for("accounts.create", name="svc-new-2"))
    assert ("evidence_required", "none_recorded") == (told["category"], told["code"])


def test_the_target_is_looked_at_again_just_before(world: World, agent: Agent) -> None:
    world.accounts.busy.add("ci-legacy-2")
    told = agent.act(**request_for("accounts.drop", name="ci-legacy-2"))
    assert [] == breaches(told)
    assert ("evidence_required", "target_changed", "none") == (told["category"], told["code"], told["remote_effect"])
    assert [] == world.accounts.changes
    assert set() == in_doubt(world.house)
    assert ["dispatch.started", "remote.answered", "action.result"] == [
        one["event"] for one in trail(world.house, told["correlation_id"])
    ][-3:]

    world.accounts.busy.clear()
    assert "success" == agent.act(**request_for("accounts.drop", name="ci-legacy-2"))["category"]
    assert ["DELETE /v1/acme-prod/accounts/ci-legacy-2"] == world.accounts.changes


def test_an_agent_can_take_no_other_way_on_its_own_card(world: World, agent: Agent) -> None:
    collect(agent)
    agent.begin_act(**deletion("ci-legacy-2", "ci-legacy-9"))
    card = world.human.wait_for_card()
    refused = agent.run(
        "/usr/bin/env",
        f"DOORWARD_HOME={world.house.environ['DOORWARD_HOME']}",
        sys.executable,
        "-I",
        "-m",
        "broker.cli",
        "approvals",
        "limit",
        card,
        "--yes",
    )

    assert 0 != refused["code"]
    assert [card] == [row["id"] for row in world.human.cards()]

"""Lists of real services walked through the real daemon: result, next action, what the upstream saw, and the trail."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.live.findings import breaches, canaries, trail, verdict
from tests.live.house import Agent, House, open_house
from tests.live.listed_cases import CASES, Listed
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-collections"
POLICY = """
version = 1

[[rules]]
id = "lists"
services = ["lists"]
approval = "none"

[[rules]]
id = "asked"
services = ["lists"]
operations = ["asked"]
approval = "per_call"

[services.lists]
kind = "http"
base_url = "{origin}/lists"
credential = "lists"

"""
ASKED = replace(next(case for case in CASES if case.name == "comp-009"), name="asked")
NEXT = {"never": "none", "bounded": "continue", "after_delay": "wait"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, RoughUpstream, Agent]]:
    behaviours = {f"/lists{case.path}": case.behaviour() for case in (*CASES, ASKED)}
    with misbehaving(behaviours=behaviours) as upstream, open_house(tmp_path_factory.mktemp("lists") / "h") as house:
        house.human.add_bearer("lists", TOKEN, upstream.origin)
        policy = POLICY.format(origin=upstream.origin) + "\n".join(case.policy for case in (*CASES, ASKED))
        house.human.write_policy("lists.toml", policy)
        house.human.trust()
        with house.agent() as agent:
            yield house, upstream, agent


def collected(agent: Agent, case: Listed, **more: Any) -> dict[str, Any]:
    request = {"service": "lists", "operation": case.name, "args": dict(case.args), "budget": dict(case.budget), **more}
    envelope: dict[str, Any] = agent.ask("POST", "/v1/collect", request)["value"]
    assert [] == breaches(envelope)
    return envelope


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_list_is_walked_and_said_to_be_what_it_is(world: tuple[House, RoughUpstream, Agent], case: Listed) -> None:
    house, upstream, agent = world
    envelope = collected(agent, case)
    told = envelope["completeness"]

    assert case.gist == (envelope["category"], envelope["retry"])
    assert case.codes == tuple(one["code"] for one in told["incomplete_reasons"])
    assert list(case.rows) == envelope["http"]["body_json"]
    assert (case.truncated, case.goes_on) == (told["truncated"], told["next_cursor"] is not None)
    assert list(case.warns) == [one["code"] for one in envelope["warnings"]]
    assert NEXT[case.gist[1]] == envelope["next"]["action"]
    assert told["complete"] == envelope["evidence"]["complete"] == envelope["ok"]

    assert len(case.asked) == len(upstream.seen(f"/lists{case.path}"))
    if not case.body:
        assert list(case.asked) == [seen.target.partition("?")[2] for seen in upstream.seen(f"/lists{case.path}")]
    assert {f"Bearer {TOKEN}"} == {seen.headers["authorization"] for seen in upstream.seen(f"/lists{case.path}")}

    events = trail(house, envelope["correlation_id"])
    names = [event["event"] for event in events]
    assert len(case.asked) == names.count("dispatch.started")
    outcomes = [name for name in names if name in {"remote.answered", "deadline.expired", "transport.failed"}]
    assert len(case.asked) == len(outcomes)
    assert ["evidence.recorded", "action.result"] == names[-2:]
    assert "canary-" not in json.dumps([envelope, events])


def test_what_was_cut_is_gone_on_with_until_it_is_whole(world: tuple[House, RoughUpstream, Agent]) -> None:
    _, _, agent = world
    case = next(case for case in CASES if case.name == "comp-045")
    first = collected(agent, case)
    second = collected(agent, case, cursor=first["completeness"]["next_cursor"])

    assert second["completeness"]["complete"]
    assert [{"id": 1}, {"id": 2}, {"id": 3}] == [*first["http"]["body_json"], *second["http"]["body_json"]]
    assert 3 == second["evidence"]["count"]


def test_a_human_sees_one_card_that_tells_how_far_the_walk_may_go(world: tuple[House, RoughUpstream, Agent]) -> None:
    house, upstream, agent = world
    request = {"service": "lists", "operation": "asked", "budget": {"pages": 7}}
    explained = agent.ask("POST", "/v1/explain", {"action": "collect", "request": request})["value"]
    asking = agent.begin("POST", "/v1/collect", request)
    served = house.human.approve(house.human.wait_for_card())
    envelope = agent.end(asking)["value"]

    assert "ask" == explained["decision"]
    assert "up to 7 requests" in served.card.yes.once
    assert envelope["ok"]
    assert ("granted", 2) == (envelope["gate"]["call"], len(upstream.seen("/lists/asked")))
    assert 1 == [event["event"] for event in trail(house, envelope["correlation_id"])].count("approval.requested")


def test_a_cursor_is_of_no_use_to_another_agent(world: tuple[House, RoughUpstream, Agent]) -> None:
    house, upstream, agent = world
    case = next(case for case in CASES if case.name == "comp-045")
    cursor = collected(agent, case)["completeness"]["next_cursor"]
    before = upstream.bytes_received
    with house.agent() as other:
        envelope = collected(other, case, cursor=cursor)

    assert ("invalid_request", "schema") == (envelope["category"], envelope["code"])
    assert before == upstream.bytes_received


def test_an_agent_sees_by_exit_code_whether_all_is_there(world: tuple[House, RoughUpstream, Agent]) -> None:
    house, _, agent = world
    home = f"DOORWARD_HOME={house.environ['DOORWARD_HOME']}"
    words = ["/usr/bin/env", home, sys.executable, "-I", "-m", "broker.cli", "collect"]
    whole = agent.run(*words, "lists.comp-004", "--json")
    part = agent.run(*words, "lists.comp-045", "--pages", "1")
    wrong = agent.run(*words, "lists.comp-045", "--pages", "none")

    assert (0, 3, 64) == (whole["code"], part["code"], wrong["code"])
    assert json.loads(whole["out"])["completeness"]["complete"]
    assert "MORE_PAGES_AVAILABLE" in part["out"]


def test_the_log_verifies_and_no_credential_is_anywhere(world: tuple[House, RoughUpstream, Agent]) -> None:
    house, _, _ = world

    assert verdict(house) in {"OK", "OK_UNANCHORED"}
    assert [] == canaries(house)

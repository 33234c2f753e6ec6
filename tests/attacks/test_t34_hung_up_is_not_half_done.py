"""T34: clients that hang up, are cut off or die: the action is finished and recorded, or it was never begun."""

from typing import Any

import pytest

from tests.live.house import House, until
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

TIP = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}
CREATE = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}


def results(house: House) -> list[tuple[str, str]]:
    return [
        (event["fields"]["category"], event["fields"]["code"])
        for event in house.human.events("action.result")
        if "category" in event["fields"]
    ]


def requested(house: House) -> str:
    """The id of the action that was asked for last."""
    found: str = house.human.events("action.requested")[-1]["correlation_id"]
    return found


def test_who_hangs_up_while_a_human_is_asked_finds_the_result_later(house: House, upstream: Upstream) -> None:
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        card = house.human.wait_for_card()
        agent.hang_up(asking)
        house.human.approve(card)
        until(lambda: ("success", "ok") in results(house))
        told = agent.ask("GET", f"/v1/results/{requested(house)}?wait_s=20")["value"]

    assert "success" == told["category"]
    assert ["POST /orders"] == upstream.requests
    assert 1 == len(results(house))


def test_who_hangs_up_after_it_was_sent_finds_the_result_later(house: House, upstream: Upstream) -> None:
    upstream.answers.clear()
    with house.agent() as agent:
        acting = agent.begin_act(**TIP)
        upstream.wait_for_request()
        agent.hang_up(acting)
        running = agent.ask("GET", f"/v1/results/{requested(house)}")["value"]
        upstream.answers.set()
        until(lambda: results(house))
        told = agent.ask("GET", f"/v1/results/{requested(house)}?wait_s=20")["value"]

    assert ("outcome_unknown", "still_running") == (running["category"], running["code"])
    assert "success" == told["category"]
    assert [("success", "ok")] == results(house)


def test_a_process_that_dies_while_a_human_is_asked_has_nothing_sent(house: House, upstream: Upstream) -> None:
    with house.agent() as agent:
        agent.begin_act(**CREATE)
        card = house.human.wait_for_card()
        agent.kill()
        until(lambda: results(house))

    assert [("session_denied", "session_ended")] == results(house)
    assert [] == upstream.requests
    assert ["session_ended"] == [row["ended_by"] for row in house.human.client.approvals() if row["id"] == card]


def test_a_process_that_dies_after_it_was_sent_leaves_a_recorded_end(house: House, upstream: Upstream) -> None:
    upstream.answers.clear()
    with house.agent() as agent:
        agent.begin_act(**TIP)
        upstream.wait_for_request()
        agent.kill()
        until(lambda: not house.human.client.sessions())
        upstream.answers.set()
        until(lambda: results(house))

    assert [("success", "ok")] == results(house)
    assert [] == house.human.client.operations()


def test_a_repeat_by_the_same_id_after_hanging_up_sends_nothing(house: House, upstream: Upstream) -> None:
    upstream.answers.clear()
    with house.agent() as agent:
        acting = agent.begin_act(**TIP, request_id="tip-1")
        upstream.wait_for_request()
        agent.hang_up(acting)
        repeat = agent.begin_act(**TIP, request_id="tip-1")
        upstream.answers.set()
        first = agent.end_act(repeat)
        again = agent.act(**TIP, request_id="tip-1")
        other = agent.act(**{**TIP, "body": {"cents": 6}}, request_id="tip-1")

    assert "success" == first["category"]
    assert first == again, "byte for byte the recorded outcome"
    assert ("invalid_request", "request_id_conflict") == (other["category"], other["code"])
    assert 1 == len(upstream.requests)


def test_a_withdrawn_request_is_never_sent_and_one_that_was_sent_is_not_withdrawn(
    house: House, upstream: Upstream
) -> None:
    def told(agent: Any, method: str) -> tuple[str, str]:
        value = agent.ask(method, f"/v1/results/{requested(house)}")["value"]
        return value["category"], value["code"]

    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        house.human.wait_for_card()
        assert ("approval_timeout", "withdrawn") == told(agent, "DELETE")
        assert "withdrawn" == agent.end_act(asking)["code"]
        assert [] == house.human.cards()
        upstream.answers.clear()
        acting = agent.begin_act(**TIP)
        upstream.wait_for_request()
        assert ("outcome_unknown", "still_running") == told(agent, "DELETE")
        upstream.answers.set()
        assert "success" == agent.end_act(acting)["category"]
    assert ["POST /open/tips"] == upstream.requests


def test_identical_requests_wait_for_one_answer(house: House, upstream: Upstream) -> None:
    with house.agent() as agent:
        asking = [agent.begin_act(**CREATE) for _ in range(3)]
        card = until(lambda: [row for row in house.human.cards() if row["joined"] == 3])[0]["id"]
        house.human.approve(card)
        told = [agent.end_act(number) for number in asking]

    assert ["success"] * 3 == [envelope["category"] for envelope in told]
    assert 1 == len({envelope["correlation_id"] for envelope in told})
    assert ["POST /orders"] == upstream.requests

"""Identical requests of one session that wait at the same card: one decision, one call, one answer for all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker.contract.wire import JsonObject, dump
from broker.core.approval import Happening
from broker.core.ledger import AttemptState
from broker.core.outcome import RawOutcome
from tests.fakes import market
from tests.fakes.desk_port import Card
from tests.fakes.flow import Flow, gist

Tasks = tuple[asyncio.Task[JsonObject], asyncio.Task[JsonObject]]


@asynccontextmanager
async def two_at_one_card(flow: Flow, *, follower_id: str | None = None) -> AsyncIterator[tuple[Card, Tasks]]:
    async with flow.asking(market.CREATE) as (card, leader), asyncio.TaskGroup() as tasks:
        joined = flow.received(market.CREATE, request_id=follower_id)
        follower = tasks.create_task(flow.perform(joined))
        await flow.until(lambda: _waits(flow, joined.correlation_id))
        yield card, (leader, follower)


def _waits(flow: Flow, correlation_id: str) -> bool:
    run = flow.runs.runs.get(correlation_id)
    return run is not None and run.pending is not None


async def test_two_that_wait_at_one_card_are_sent_once_and_told_the_same() -> None:
    flow = Flow()
    async with two_at_one_card(flow) as (card, (leader, follower)):
        flow.desk.settle(card, Happening.APPROVED)

    assert (1, 1) == (len(flow.desk.cards), len(flow.executor.permits))
    assert gist(leader.result())[:2] == ("success", "ok")
    assert dump(leader.result()) == dump(follower.result())
    assert ["action.requested", "policy.decided", "action.result"] == flow.audit.names(flow.last)
    assert {"recorded": leader.result()["correlation_id"]} == flow.audit.trail(flow.last)[-1].fields


@pytest.mark.parametrize("happening", [Happening.DENIED, Happening.EXPIRED, Happening.WITHDRAWN, Happening.FROZEN])
async def test_a_no_is_a_no_to_both(happening: Happening) -> None:
    flow = Flow()
    async with two_at_one_card(flow, follower_id="r2") as (card, (leader, follower)):
        flow.desk.settle(card, happening)

    assert dump(leader.result()) == dump(follower.result())
    assert [] == flow.executor.permits
    assert [] == flow.ledger.attempts


@pytest.mark.parametrize(
    ("raw", "leaders_state"),
    [(market.answered(201), AttemptState.DONE), (market.LOST, AttemptState.IN_DOUBT)],
    ids=["made", "lost"],
)
async def test_one_that_joined_is_recorded_under_its_own_id_and_not_sent_later(
    raw: RawOutcome, leaders_state: AttemptState
) -> None:
    flow = Flow()
    flow.executor.answers.append(raw)
    async with two_at_one_card(flow, follower_id="r2") as (card, (leader, follower)):
        flow.desk.settle(card, Happening.APPROVED)
    leader_id = str(leader.result()["correlation_id"])
    again = await flow.ask(market.CREATE, request_id="r2")

    assert dump(follower.result()) == dump(again)
    assert 1 == len(flow.executor.permits)
    assert leaders_state is flow.ledger.state(leader_id)
    assert {leaders_state, AttemptState.DONE} == {attempt.state for attempt in flow.ledger.attempts}


async def test_a_lock_in_between_does_not_break_the_one_that_joined() -> None:
    flow = Flow()
    flow.executor.during = flow.vault.lock
    async with two_at_one_card(flow, follower_id="r2") as (card, (leader, follower)):
        flow.desk.settle(card, Happening.APPROVED)

    assert dump(leader.result()) == dump(follower.result())
    assert 1 == len(flow.ledger.attempts)


async def test_another_session_gets_a_card_of_its_own() -> None:
    flow = Flow()
    async with (
        flow.asking(market.CREATE) as (one, _),
        flow.asking(market.CREATE, caller=market.agent(4712)) as (other, _),
    ):
        assert one is not other
        for card in flow.desk.waiting:
            flow.desk.settle(card, Happening.APPROVED)

    assert 2 == len(flow.executor.permits)

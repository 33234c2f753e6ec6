"""Requests for the same change at the same time: one after the other, and none past a doubt that came up meanwhile."""

import asyncio
from dataclasses import replace

import pytest

from broker.contract.wire import JsonObject
from broker.core.frozen import Deadlines
from broker.core.resolve import HttpAsk
from broker.steps import Turns
from tests.fakes import market
from tests.fakes.flow import Flow, gist

REFUSED = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")


async def at_once(flow: Flow, *asks: HttpAsk) -> list[asyncio.Task[JsonObject]]:
    """Ask for all of them; the far side answers when the first of them reached it and the others had time to."""
    flow.executor.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(flow.ask(ask)) for ask in asks]
        for _ in range(100):
            await asyncio.sleep(0)
        flow.executor.may_answer.set()
    return list(asked)


async def test_the_same_change_is_made_one_at_a_time() -> None:
    flow = Flow()
    reached: list[int] = []
    flow.executor.during = lambda: reached.append(len(flow.executor.permits))
    outcomes = await at_once(flow, market.TIP, market.TIP, market.TIP)

    assert [("success", "ok")] * 3 == [gist(task.result())[:2] for task in outcomes]
    assert [1, 2, 3] == reached, "each was sent when the one before had ended"
    assert 0 == len(flow.pipeline._turns)


async def test_what_comes_into_doubt_meanwhile_stops_those_that_waited() -> None:
    """T36: two repeats that start before the first has ended are repeats all the same."""
    flow = Flow()
    flow.executor.answers.append(market.LOST)
    first, *others = await at_once(flow, market.TIP, market.TIP, market.TIP)

    assert "outcome_unknown" == gist(first.result())[0]
    assert [REFUSED] * 2 == [gist(task.result()) for task in others]
    assert 1 == len(flow.executor.permits)


async def test_other_changes_and_reads_wait_for_nobody() -> None:
    flow = Flow()
    reached: list[int] = []
    flow.executor.during = lambda: reached.append(len(flow.executor.permits))
    await at_once(flow, market.AD_HOC, market.READ, market.READ, replace(market.AD_HOC, path="/else"))

    assert [4] * 4 == reached, "all were sent before the first had ended"


async def test_different_writes_that_no_change_key_tells_apart_wait_for_nobody() -> None:
    flow = Flow()
    reached: list[int] = []
    flow.executor.during = lambda: reached.append(len(flow.executor.permits))
    await at_once(flow, market.AD_HOC, replace(market.AD_HOC, body=b'{"n":2}'))

    assert [2] * 2 == reached, "both were sent before the first had ended"


async def test_the_very_same_ad_hoc_write_takes_its_turn() -> None:
    flow = Flow()
    flow.executor.answers.append(market.LOST)
    first, second = await at_once(flow, market.AD_HOC, market.AD_HOC)

    assert ("outcome_unknown", REFUSED) == (gist(first.result())[0], gist(second.result()))
    assert 1 == len(flow.executor.permits)


async def test_who_waits_longer_than_its_own_deadline_is_refused_and_not_sent() -> None:
    flow = Flow()
    hurried = replace(market.TIP, deadlines=Deadlines(total_s=0.01))
    flow.executor.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(flow.ask(market.TIP))
        while not flow.executor.permits:  # noqa: ASYNC110 - the executor tells nobody
            await asyncio.sleep(0)
        assert REFUSED == gist(await flow.ask(hurried))
        flow.executor.may_answer.set()

    assert "success" == gist(first.result())[0]
    assert 1 == len(flow.executor.permits)


async def test_a_turn_that_is_given_up_is_the_next_ones() -> None:
    turns = Turns()
    with pytest.raises(RuntimeError):
        async with turns.take("a", patience_s=1):
            raise RuntimeError
    async with turns.take("a", patience_s=0.01) as has_turn, turns.take("b", patience_s=0.01) as has_other:
        assert (True, True) == (has_turn, has_other)
        async with turns.take("a", patience_s=0.01) as twice:
            assert not twice

    assert 0 == len(turns)

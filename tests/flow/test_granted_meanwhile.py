"""A request whose card a grant took the place of: it goes on under the grant, or asks anew where that is used up."""

import asyncio

from broker.core.approval import GRANTED, Happening
from tests.fakes import market
from tests.fakes.flow import Flow, gist


async def test_it_takes_a_use_of_the_grant_and_is_sent() -> None:
    flow = Flow()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(flow.perform(flow.received(market.LISTING)))
        await flow.until(lambda: len(flow.desk.waiting) == 1)
        second = tasks.create_task(flow.perform(flow.received(market.ask("prices.list", page="2"))))
        await flow.until(lambda: len(flow.desk.waiting) == 2)
        before, behind = flow.desk.waiting
        flow.desk.settle(before, Happening.APPROVED, scope="session")
        told = await first
        flow.desk.choose(behind, GRANTED)

    assert gist(told) == gist(await second)
    assert 2 == len(flow.desk.cards)
    (grant,) = flow.sessions.grants
    assert 2 == grant.used


async def test_where_the_grant_is_gone_by_then_a_human_is_asked_anew_and_nothing_is_sent_before() -> None:
    flow = Flow()
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(flow.perform(flow.received(market.LISTING)))
        await flow.until(lambda: len(flow.desk.waiting) == 1)
        flow.desk.choose(flow.desk.waiting[0], GRANTED)
        await flow.until(lambda: len(flow.desk.cards) == 2)
        flow.desk.settle(flow.desk.waiting[0], Happening.DENIED)

    assert ("session_denied", "declined") == gist(await asked)[:2]
    assert [] == flow.sessions.grants

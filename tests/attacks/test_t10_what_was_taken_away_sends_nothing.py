"""T10: a yes that was taken away sends nothing more, however far the requests are that count on it."""

import asyncio

from broker.contract.wire import JsonObject
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, gist

NOTE: HttpAsk = market.ask("notes.put", note="n-1", text="canary")


async def under_way(flow: Flow, tasks: asyncio.TaskGroup) -> tuple[asyncio.Task[JsonObject], asyncio.Task[JsonObject]]:
    """One change that is at the far side, and the same once more, which waits for its turn; both took the grant."""
    await flow.ask_and_answer(NOTE, scope="session")
    flow.executor.may_answer.clear()
    first = tasks.create_task(flow.perform(flow.received(NOTE)))
    await flow.until(lambda: len(flow.executor.permits) == 2)
    second = tasks.create_task(flow.perform(flow.received(NOTE)))
    await flow.until(lambda: flow.sessions.grants[0].used == 3)
    return first, second


async def test_what_waits_for_its_turn_under_a_grant_that_was_revoked_is_not_sent() -> None:
    flow = Flow()
    async with asyncio.TaskGroup() as tasks:
        first, second = await under_way(flow, tasks)
        flow.sessions.revoke_grants()
        flow.executor.may_answer.set()

    assert "success" == first.result()["category"], "what was sent is finished"
    assert ("approval_timeout", "approval_void", "after_human", "none") == gist(second.result())
    assert 2 == len(flow.executor.permits)


async def test_a_grant_that_was_used_up_by_it_holds_for_what_took_it() -> None:
    flow = Flow()
    async with asyncio.TaskGroup() as tasks:
        first, second = await under_way(flow, tasks)
        flow.executor.may_answer.set()

    assert ["success", "success"] == [task.result()["category"] for task in (first, second)]
    assert 3 == len(flow.executor.permits)

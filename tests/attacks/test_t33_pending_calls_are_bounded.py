"""T33: ten thousand calls that wait for a human are held in bounded memory; the next is refused, and ends free it."""

import asyncio
import tracemalloc

import pytest

from broker.contract.wire import JsonObject
from broker.server.runs import RUNS_MAX, Overloaded, RunTable
from tests.fakes.clock import SetClock
from tests.fakes.faces import fine

KIB_EACH_MAX = 16
OP = "op_" + "0" * 44


async def test_ten_thousand_pending_calls_are_as_many_as_there_may_be() -> None:
    answered = asyncio.Event()

    async def waiting() -> JsonObject:
        await answered.wait()
        return fine(OP)

    async with asyncio.timeout(120), asyncio.TaskGroup() as tasks:
        table = RunTable(tasks=tasks, monotonic_s=SetClock().monotonic_s)
        tracemalloc.start()
        try:
            for number in range(RUNS_MAX):
                correlation_id = f"op_{number:044x}"
                table.start(correlation_id, f"an_{number % 30}", waiting)
                table.waits(correlation_id, {"code": "waiting"})
                table.asked(correlation_id)
            await asyncio.sleep(0)
            held_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        with pytest.raises(Overloaded):
            table.start("op_" + "f" * 44, "an_0", waiting)
        polled = table.find(f"op_{1:044x}", "an_1")
        assert polled is not None
        assert {"code": "waiting"} == {"code": (await table.wait(polled, 0, for_work=False))["code"]}
        assert (10_000, RUNS_MAX) == (RUNS_MAX, table.active)
        assert held_bytes < RUNS_MAX * KIB_EACH_MAX * 1024
        answered.set()
        await table.idle()
        assert "op_next" == table.start("op_next", "an_0", waiting).correlation_id
        await table.idle()

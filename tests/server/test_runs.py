"""Actions under way: they end alone, are found by who asked, and nobody waits for ever."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.contract.wire import JsonObject, dump
from broker.server import runs as runs_module
from broker.server.runs import Overloaded, Run, RunTable, Stopping
from tests.fakes.clock import SetClock
from tests.fakes.faces import fine

OP, OTHER = ("op_" + digit * 44 for digit in "01")


class Work:
    """Work that ends when it may."""

    def __init__(self, envelope: Any = None) -> None:
        self.may_end = asyncio.Event()
        self.envelope = envelope or fine(OP)

    async def __call__(self) -> JsonObject:
        await self.may_end.wait()
        if isinstance(self.envelope, Exception):
            raise self.envelope
        found: JsonObject = self.envelope
        return found


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def table(clock: SetClock) -> AsyncIterator[RunTable]:
    async with asyncio.TaskGroup() as tasks:
        made = RunTable(tasks=tasks, monotonic_s=clock.monotonic_s)
        yield made
        made.abandon()


async def ended(run: Run) -> None:
    async with asyncio.timeout(60):
        await run.ended.wait()


def asking(table: RunTable, pending: JsonObject | None = None, *, correlation_id: str = OP) -> None:
    """A human is asked, and what a poll is told is known."""
    table.waits(correlation_id, pending or {"code": "waiting"})
    table.asked(correlation_id)


async def test_an_answer_is_spelled_once_for_who_waited_and_kept_for_nobody(table: RunTable) -> None:
    waited, alone = Work(), Work()
    run, other = table.start(OP, "an_1", waited), table.start(OTHER, "an_1", alone)
    async with asyncio.timeout(15), asyncio.TaskGroup() as tasks:
        answer = tasks.create_task(table.wait(run, 5))
        await asyncio.sleep(0)
        waited.may_end.set()
        alone.may_end.set()
    await ended(other)

    assert dump(answer.result()) == run.taken(answer.result())
    assert [None, None] == [run.taken(answer.result()), other.taken(alone.envelope)]


async def test_a_run_is_found_by_its_anchor_alone(table: RunTable) -> None:
    run = table.start(OP, "an_1", Work())

    assert run is table.find(OP, "an_1")
    assert table.find(OP, "an_2") is None
    assert table.find(OTHER, "an_1") is None
    assert (1, 1, 0) == (table.active, table.active_of("an_1"), table.active_of("an_2"))


async def test_whoever_waits_gets_the_result(table: RunTable) -> None:
    work = Work()
    run = table.start(OP, "an_1", work)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(table.wait(run, 60)), tasks.create_task(table.wait(run, 0))]
        following = tasks.create_task(table.result(OP))
        await asyncio.sleep(0)
        work.may_end.set()

    assert [fine(OP)] * 3 == [waiting[0].result(), waiting[1].result(), following.result()]
    assert fine(OP) == await table.result(OP)
    assert await table.result(OTHER) is None
    assert (0, 0) == (table.active, table.active_of("an_1"))
    await asyncio.wait_for(table.idle(), 1)


async def test_a_run_that_fails_ends_alone_and_is_said_to_have_failed(
    table: RunTable, caplog: pytest.LogCaptureFixture
) -> None:
    failing, going = Work(ValueError("canary")), Work()
    broken, other = table.start(OP, "an_1", failing), table.start(OTHER, "an_1", going)
    failing.may_end.set()
    told = await table.wait(broken, 60)
    going.may_end.set()

    assert ("broker_unavailable", "internal", "none") == (told["category"], told["code"], told["remote_effect"])
    assert fine(OP) == await table.wait(other, 60)
    assert told == await table.result(OP)
    assert "a run failed" in caplog.text


async def test_a_failure_after_sending_says_that_it_may_have_happened(table: RunTable) -> None:
    work = Work(ValueError("canary"))
    run = table.start(OP, "an_1", work)
    table.dispatched(OP, is_write=True)
    work.may_end.set()
    told = await table.wait(run, 60)

    assert ("unknown", "reconcile_first") == (told["remote_effect"], told["retry"])


async def test_an_answer_that_can_not_be_spelled_ends_nothing_else(table: RunTable) -> None:
    work = Work({"number": float("nan")})
    run = table.start(OP, "an_1", work)
    work.may_end.set()

    assert "internal" == (await table.wait(run, 60))["code"]


async def test_an_abandoned_run_leaves_nobody_waiting(table: RunTable) -> None:
    run = table.start(OP, "an_1", Work())
    table.dispatched(OP, is_write=True)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(table.wait(run, 60))
        await asyncio.sleep(0)
        assert 1 == table.abandon()

    assert ("internal", "unknown") == (waiting.result()["code"], waiting.result()["remote_effect"])
    assert await table.result(OP) is None
    await asyncio.wait_for(table.idle(), 1)
    assert 0 == table.abandon()


async def test_nothing_new_begins_once_the_daemon_stops_but_a_part_of_what_did(table: RunTable) -> None:
    table.start(OP, "an_1", Work())
    table.stop_taking()

    with pytest.raises(Stopping):
        table.start(OTHER, "an_1", Work())
    with pytest.raises(Stopping):
        table.start(OTHER, "an_1", Work(), parent=OTHER)
    assert OTHER == table.start(OTHER, "an_1", Work(), parent=OP).correlation_id


async def test_there_are_so_many_runs_and_so_many_bytes_of_them(
    table: RunTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "RUNS_MAX", 2)
    monkeypatch.setattr(runs_module, "WAITING_BYTES_MAX", 100)
    work = Work()
    heavy = table.start(OP, "an_1", work, weight=100)
    with pytest.raises(Overloaded):
        table.start(OTHER, "an_1", Work(), weight=1)
    table.start(OTHER, "an_1", Work())
    with pytest.raises(Overloaded):
        table.start("op_2", "an_1", Work())
    work.may_end.set()
    await ended(heavy)

    assert 100 == table.start("op_3", "an_1", Work(), weight=100).weight


async def test_who_does_not_wait_is_told_that_a_human_is_waited_for(table: RunTable) -> None:
    run = table.start(OP, "an_1", Work())
    asking(table, {"code": "waiting", "correlation_id": "another"})

    assert {"code": "waiting", "correlation_id": OP} == await table.wait(run, 0)
    asking(table, correlation_id=OTHER)  # whose run was forgotten


async def test_nobody_is_told_of_a_human_who_was_not_asked(table: RunTable) -> None:
    """A muted session and a remembered denial end before any card: then the end is what is told."""
    work = Work()
    run = table.start(OP, "an_1", work)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(table.wait(run, 0))
        await asyncio.sleep(0)
        table.waits(OP, {"code": "waiting"})
        await asyncio.sleep(0)
        work.may_end.set()

    assert fine(OP) == waiting.result()


async def test_after_a_yes_the_result_is_waited_for_again(table: RunTable) -> None:
    work = Work()
    run = table.start(OP, "an_1", work)
    asking(table)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(table.wait(run, 60))
        await asyncio.sleep(0)
        table.dispatched(OP, is_write=True)
        await asyncio.sleep(0)
        work.may_end.set()

    assert fine(OP) == waiting.result()
    assert run.pending is None


async def test_who_waits_for_a_human_is_told_in_time(table: RunTable, clock: SetClock) -> None:
    """The wait of one that is told of a card while it waits ends with its own time."""
    run = table.start(OP, "an_1", Work())
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(table.wait(run, 5))
        await asyncio.sleep(0)
        clock.advance(seconds=6)
        asking(table)

    assert "waiting" == waiting.result()["code"]


async def test_who_only_polls_does_not_wait_for_what_was_sent(table: RunTable) -> None:
    run = table.start(OP, "an_1", Work())
    table.dispatched(OP, is_write=True)

    told = await table.wait(run, 0, for_work=False)
    assert ("outcome_unknown", "still_running", OP) == (told["category"], told["code"], told["correlation_id"])
    assert table.was_sent(OP)
    assert not table.was_sent(OTHER)


async def test_what_a_part_waits_for_and_sends_its_whole_does(table: RunTable) -> None:
    whole, part = table.start(OP, "an_1", Work()), table.start(OTHER, "an_1", Work(), parent=OP)
    asking(table, correlation_id=OTHER)
    assert [OP, OTHER] == [run.pending and run.pending["correlation_id"] for run in (whole, part)]
    table.dispatched(OTHER, is_write=True)

    assert [(None, True)] * 2 == [(run.pending, run.sent) for run in (whole, part)]


async def test_withdrawing_waits_until_it_is_known_where_the_run_is(table: RunTable) -> None:
    steps: list[Callable[[Work], None]] = [
        lambda _: asking(table),
        lambda _: table.dispatched(OP, is_write=True),
        lambda work: work.may_end.set(),
    ]
    for step in steps:
        work = Work()
        run = table.start(OP, "an_1", work)
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
            withdrawing = tasks.create_task(table.withdrawable(run))
            await asyncio.sleep(0)
            assert not withdrawing.done()
            step(work)
        work.may_end.set()
        await ended(run)


async def test_a_repeat_finds_the_first_run_while_it_is_under_way(table: RunTable) -> None:
    work = Work()
    run = table.start(OP, "an_1", work)

    assert table.claim("an_1", "r1", "digest-1", OP) is None
    assert (OP, "digest-1") == table.claim("an_1", "r1", "digest-2", OTHER)
    assert table.claim("an_2", "r1", "digest-1", OTHER) is None, "ids belong to their anchor"
    work.may_end.set()
    await ended(run)
    assert table.claim("an_1", "r1", "digest-2", OTHER) is None


async def test_results_are_kept_within_number_and_bytes(table: RunTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "KEPT_RESULTS", 2)
    going = table.start("op_going", "an_1", Work())
    for number in range(4):
        work = Work()
        work.may_end.set()
        await ended(table.start(f"op_{number}", "an_1", work))
    assert [False, False, True, True] == [table.find(f"op_{number}", "an_1") is not None for number in range(4)]

    monkeypatch.setattr(runs_module, "KEPT_BYTES", 1)
    last = Work()
    last.may_end.set()
    await ended(table.start("op_last", "an_1", last))
    assert [None, None, None] == [table.find(name, "an_1") for name in ("op_2", "op_3", "op_last")]
    assert going is table.find("op_going", "an_1"), "what is under way is never dropped"


async def test_a_result_of_yesterday_is_gone(table: RunTable, clock: SetClock) -> None:
    for name in ("op_old", "op_new"):
        work = Work()
        work.may_end.set()
        await ended(table.start(name, "an_1", work))
        clock.advance(seconds=24 * 3600 + 1)
    work = Work()
    work.may_end.set()
    await ended(table.start("op_last", "an_1", work))

    assert [None, None] == [table.find(name, "an_1") for name in ("op_old", "op_new")]
    assert table.find("op_last", "an_1") is not None

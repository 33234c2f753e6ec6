"""The opened log between unlock and lock: rebuilt, kept up to date, dropped; and the loop stays free meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.audit.limits import WriterLimits
from broker.audit.projection import Projection
from broker.audit.reader import read_events
from broker.audit.writer import AuditWriter
from broker.core.audit_query import AuditQuery
from broker.core.events import EventName
from broker.daemon.reading import WAITING_MOST, AuditReading
from broker.server.faults import ControlError
from tests.fakes.logs import SmallLog, an_event, new_log
from tests.fakes.plain_views import plain_fold

ALL = AuditQuery(limit=1000)
LONGEST_TURN_S = 0.05
TURNS_LEAST = 20


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    return new_log(tmp_path)


@asynccontextmanager
async def reading_of(log: SmallLog, writer: AuditWriter) -> AsyncIterator[AuditReading]:
    async with asyncio.TaskGroup() as tasks:
        reading = AuditReading(directory=log.directory, head=lambda: writer.head[0], tasks=tasks)
        try:
            yield reading
        finally:
            reading.shut()


async def rebuilt(reading: AuditReading) -> dict[str, Any]:
    for _ in range(2000):
        told = dict(await reading.activity(ALL))
        if told["rebuilt"]:
            return told
        await asyncio.sleep(0.01)
    raise AssertionError("the rebuild does not end")


async def comes_to_hold(reading: AuditReading, count: int) -> None:
    held = reading._open
    assert held is not None
    await becomes(held.projection, count)


async def becomes(projection: Projection, count: int) -> None:
    for _ in range(1000):
        if len(projection) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(projection)} events are held, not {count}")


def folded(log: SmallLog) -> list[dict[str, Any]]:
    """The whole log at once, as the plain fold sees it."""
    rows = plain_fold(list(read_events(log.directory, log.secrets.audit_sk)))
    return [row.to_json() for row in reversed(rows)]


async def test_it_answers_from_the_log_alone_and_goes_on_with_it(log: SmallLog) -> None:
    with log.writer() as writer:
        for number in range(30):
            writer.append_blocking(an_event(number))
        async with reading_of(log, writer) as reading:
            reading.open(log.secrets.audit_sk)
            assert folded(log) == (await rebuilt(reading))["rows"]
            for number in range(30, 60):  # over several files and epochs
                await writer.append(an_event(number))
                reading.written()
            assert folded(log) == (await reading.activity(ALL))["rows"]
            assert 60 == len((await reading.events(ALL))["events"])  # type: ignore[arg-type]  # a list


async def test_what_was_posted_is_read_without_being_asked_for(log: SmallLog) -> None:
    with log.writer() as writer:
        async with reading_of(log, writer) as reading:
            reading.open(log.secrets.audit_sk)
            await rebuilt(reading)
            writer.post(an_event(1))
            reading.written()
            await comes_to_hold(reading, 1)


async def test_after_a_lock_nothing_is_held_and_nothing_told(log: SmallLog) -> None:
    with log.writer() as writer:
        for number in range(30):
            writer.append_blocking(an_event(number))
        async with reading_of(log, writer) as reading:
            reading.open(log.secrets.audit_sk)
            before = (await rebuilt(reading))["rows"]
            held = reading._open
            assert held is not None
            late = asyncio.gather(reading.activity(ALL), return_exceptions=True)
            await asyncio.sleep(0)  # it is under way
            reading.close()
            (told,) = await late
            assert isinstance(told, ControlError)
            assert "vault_locked" == told.code
            with pytest.raises(ControlError, match="sealed"):
                await reading.events(ALL)
            await becomes(held.projection, 0)

            reading.open(log.secrets.audit_sk)
            assert before == (await rebuilt(reading))["rows"]


async def test_a_log_that_can_not_be_read_is_told_to_who_asks(log: SmallLog, tmp_path: Path) -> None:
    with log.writer() as writer:
        async with asyncio.TaskGroup() as tasks:
            reading = AuditReading(directory=tmp_path / "nowhere", head=lambda: writer.head[0], tasks=tasks)
            reading.open(log.secrets.audit_sk)
            with pytest.raises(ControlError, match="can't be read"):
                await reading.events(ALL)
            reading.shut()


async def test_no_more_questions_wait_than_there_is_room_for(log: SmallLog) -> None:
    with log.writer() as writer:
        async with reading_of(log, writer) as reading:
            reading.open(log.secrets.audit_sk)
            asked = [reading.events(ALL) for _ in range(WAITING_MOST + 5)]
            told = await asyncio.gather(*asked, return_exceptions=True)

    assert 5 == sum(isinstance(one, ControlError) and one.code == "limit" for one in told)


async def test_the_event_loop_is_not_held_up_by_a_long_log(log: SmallLog) -> None:
    """The log is read in a thread of its own: the loop gets its turns meanwhile, and spends little on any of them."""
    with log.writer(limits=WriterLimits()) as writer:
        for number in range(0, 60_000, 500):
            for more in range(499):
                writer.post(an_event(number + more))
            writer.append_blocking(an_event(number + 499, name=EventName.ACTION_RESULT))
        async with reading_of(log, writer) as reading:
            turns: list[float] = []
            reading.open(log.secrets.audit_sk)
            questions = asyncio.gather(
                *(reading.activity(AuditQuery(limit=1000)) for _ in range(4)),
                *(reading.events(AuditQuery(limit=1000, agent="nobody", before_seq=1 << 40)) for _ in range(4)),
            )
            while not questions.done():
                began = time.thread_time()  # of this thread alone: others may take the processor
                await asyncio.sleep(0.001)
                turns.append(time.thread_time() - began)
            await questions

    assert len(turns) >= TURNS_LEAST
    assert max(turns) < LONGEST_TURN_S

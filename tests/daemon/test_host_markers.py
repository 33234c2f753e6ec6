"""Old markers are taken away in passing: settled ones, now and then, on record, and never at anybody's cost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from broker.core.events import AuditEvent, EventName
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.ledger import attempt_of
from broker.core.resolve import resolve
from broker.core.ssh.lookup import MAX_COLLECTED
from broker.core.ssh.outcome import StoreSeen
from broker.core.ssh.recall import recalled
from broker.daemon.host_markers import EVERY_S, HostMarkers
from broker.operations.ledger import KEPT_MS, LedgerStore
from tests.fakes import https_calls, market
from tests.fakes.attempts import ENVELOPE, OP, opened
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.hosts import STORE, command, frozen
from tests.fakes.ssh_calls import permit

TOUCH = frozen(command("touch x"))
ELSEWHERE = frozen(command("touch x", host="web/web-2"))
ENDED: dict[str, Any] = {**ENVELOPE, "ssh": {"exit_status": 0, "marker": "started"}}
LATE_S = KEPT_MS // 1000 + 1


class Host:
    """What a host answers, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.gone: int | Exception | None = 1

    async def collect(self, permit: Permit, settled: tuple[str, ...]) -> int | None:
        del permit
        self.asked.append(settled)
        if isinstance(self.gone, Exception):
            raise self.gone
        return self.gone


class ToldAudit(MemoryAudit):
    """Sets `collected` once a host's answer is on record."""

    def __init__(self) -> None:
        super().__init__()
        self.collected = asyncio.Event()

    @override
    def post(self, event: AuditEvent) -> None:
        super().post(event)
        self.collected.set()


class Bench:
    def __init__(self, path: Path) -> None:
        self.clock = SetClock()
        self.audit = ToldAudit()
        self.ledger = opened(path, self.clock)
        self.host = Host()

    async def settle(self, correlation_id: str = OP) -> None:
        made = attempt_of(
            TOUCH, correlation_id=correlation_id, request_id=None, caller=market.agent(), session_id="se_1", now_ms=1
        )
        await self.ledger.begin(made)
        await self.ledger.finish(correlation_id, in_doubt=False, envelope=ENDED)

    async def use(self, *permits: Permit) -> None:
        """Commands that ended well, one after the other, until all is quiet."""
        async with asyncio.TaskGroup() as tasks:
            markers = self.markers(tasks)
            for one in permits or (permit(TOUCH),):
                markers.used(one, self.host.collect)

    def markers(self, tasks: asyncio.TaskGroup) -> HostMarkers:
        return HostMarkers(ledger=self.ledger, audit=self.audit, clock=self.clock, tasks=tasks)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "ledger.db")
    yield made
    made.ledger.close()


async def test_a_settled_marker_is_collected_once_and_that_is_on_record(bench: Bench) -> None:
    await bench.settle()
    await bench.use()
    assert [] == bench.host.asked, "it is not old yet"
    bench.clock.advance(seconds=LATE_S)
    await bench.use()
    await bench.use()

    assert [(OP,)] == bench.host.asked
    assert [EventName.MARKERS_ASKED, EventName.MARKERS_COLLECTED] == [event.name for event in bench.audit.events]
    fields = bench.audit.events[-1].fields
    assert ("web-1", TOUCH.host.url, 1, 1) == tuple(fields[name] for name in ("host", "place", "asked", "gone"))


async def test_so_many_at_a_time_and_a_host_once_an_hour(bench: Bench) -> None:
    ids = [f"op_{number:012x}" for number in range(MAX_COLLECTED + 3)]
    for one in ids:
        await bench.settle(one)
    bench.clock.advance(seconds=LATE_S)
    async with asyncio.TaskGroup() as tasks:
        markers = bench.markers(tasks)
        for seconds in (0, int(EVERY_S) - 1):
            bench.clock.advance(seconds=seconds)
            markers.used(permit(TOUCH), bench.host.collect)
            markers.used(permit(ELSEWHERE), bench.host.collect)
        await bench.audit.collected.wait()
        bench.clock.advance(seconds=1)
        markers.used(permit(TOUCH), bench.host.collect)

    assert [tuple(ids[:MAX_COLLECTED]), tuple(ids[MAX_COLLECTED:])] == bench.host.asked


@pytest.mark.parametrize("answer", [None, RuntimeError("the host is odd")])
async def test_a_host_that_does_not_answer_is_asked_again_later(bench: Bench, answer: Exception | None) -> None:
    await bench.settle()
    bench.clock.advance(seconds=LATE_S)
    bench.host.gone = answer
    await bench.use()
    bench.host.gone = 1
    await bench.use()

    assert [(OP,), (OP,)] == bench.host.asked


async def test_nothing_is_sent_that_can_not_be_recorded(bench: Bench) -> None:
    await bench.settle()
    bench.clock.advance(seconds=LATE_S)
    bench.audit.has_room = False
    await bench.use()
    bench.audit.has_room = True
    bench.audit.break_at(EventName.MARKERS_ASKED)
    await bench.use()

    assert [] == bench.host.asked


async def test_a_lock_meanwhile_and_another_channel_end_it(bench: Bench) -> None:
    await bench.settle()
    bench.clock.advance(seconds=LATE_S)
    bench.ledger.lock()
    await bench.use()
    await bench.use(http_permit())

    assert [] == bench.host.asked


async def test_a_daemon_that_stops_collects_nothing(bench: Bench) -> None:
    async with asyncio.TaskGroup() as tasks:
        markers = bench.markers(tasks)
    markers.used(permit(TOUCH), bench.host.collect)

    assert [] == bench.host.asked


async def test_the_store_of_a_command_is_in_the_ledger(bench: Bench) -> None:
    made = attempt_of(TOUCH, correlation_id=OP, request_id=None, caller=market.agent(), session_id="se_1", now_ms=1)
    await bench.ledger.begin(made)
    async with asyncio.TaskGroup() as tasks:
        await bench.markers(tasks).bound(OP, STORE)

    assert STORE == await since(bench.ledger)


def http_permit() -> Permit:
    request = resolve(market.POLICY, market.CREATE)
    assert isinstance(request, FrozenRequest)
    return https_calls.permit(request)


async def since(ledger: LedgerStore) -> StoreSeen:
    found = await ledger.by_id(OP)
    assert found is not None
    told = (recalled(found.args) or {})["since"]
    assert isinstance(told, dict)
    return StoreSeen(path=str(told["path"]), id=str(told["id"]), boot=str(told["boot"]))

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.daemon.repeated_refusals import RepeatedRefusals
from broker.daemon.upkeep import notice_dead_log, upkeep
from broker.server import floods as floods_module
from broker.server.floods import Floods
from broker.server.office import Refused
from broker.server.session_records import SessionRecords
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.kept_details import Kept


class Registry:
    """As much of the sessions as the upkeep looks at."""

    def __init__(self, records: SessionRecords) -> None:
        self.records = records


async def test_counts_go_on_record_and_old_details_go_without_anybody_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods_module, "IN_FULL", 0)
    monkeypatch.setattr("broker.daemon.repeated_refusals.IN_FULL", 0)
    monkeypatch.setattr("broker.server.session_records.IN_FULL", 0)
    audit, clock, kept = MemoryAudit(), SetClock(), Kept(tmp_path / "d")
    floods, refusals = Floods(audit=audit, clock=clock), RepeatedRefusals(audit=audit, clock=clock)
    records = SessionRecords(audit=audit, clock=clock)
    registry: Any = Registry(records)
    floods.note("an_1", "program", {"category": "policy_denied", "code": "no_rule"})
    assert floods.turns_away("an_1", "program")
    refusals.record(Refused(code="unsigned", route="/v1/thaw"))
    records.opened("se_1", "program", "an_1", {})
    records.ended("se_1", "exited", {})
    kept.keep()
    kept.clock.advance(seconds=11)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            upkeep(floods=floods, refusals=refusals, sessions=registry, diagnostics=kept.store, every_s=0.01)
        )
        while kept.names() or len(audit.events) < 3:  # noqa: ASYNC110 - it gives no sign
            await asyncio.sleep(0.01)
        running.cancel()

    assert {"action.requested", "control.refused", "session.opened"} == {event.fields["of"] for event in audit.events}
    kept.store.close()


class Writer:
    """As much of the audit writer as is looked at."""

    poisoned: str | None = None


async def test_a_log_that_dies_is_noticed_once() -> None:
    writer: Any = Writer()
    told: list[str] = []
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(notice_dead_log(writer, told.append, every_s=0.01))
        await asyncio.sleep(0.05)
        assert [] == told
        writer.poisoned = "the disk failed"

    assert ["the disk failed"] == told

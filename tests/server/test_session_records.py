"""Processes without end: each session has both its records, or is one of a count."""

import pytest

from broker.contract.wire import JsonObject
from broker.core.events import EventName
from broker.server import session_records as records_module
from broker.server.session_records import IN_FULL, SessionRecords
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock

PROGRAM = (1000, "/opt/agent")
WHO: JsonObject = {"agent": "codex", "pid": 7}


class Records:
    def __init__(self) -> None:
        self.audit = MemoryAudit()
        self.clock = SetClock()
        self.records = SessionRecords(audit=self.audit, clock=self.clock)
        self._count = 0

    def open(self, program: object = PROGRAM) -> str:
        self._count += 1
        session_id = f"se_{self._count}"
        self.records.opened(session_id, program, f"an_{self._count}", WHO)
        return session_id

    def churn(self, times: int) -> None:
        for _ in range(times):
            self.records.ended(self.open(), "exited", {"grants": 0})

    def names(self, session_id: str) -> list[str]:
        return [event.name.value for event in self.audit.events if event.session_id == session_id]

    @property
    def summaries(self) -> list[JsonObject]:
        return [event.fields for event in self.audit.events if event.name is EventName.FLOOD_SUMMARY]


@pytest.fixture
def all_of() -> Records:
    return Records()


def test_a_few_sessions_are_recorded_as_they_come_and_go(all_of: Records) -> None:
    session_id = all_of.open()
    all_of.records.ended(session_id, "exited", {"agent": "codex", "grants": 1})
    all_of.records.summarise()

    assert ["session.opened", "session.ended"] == all_of.names(session_id)
    assert {"why": "exited", "agent": "codex", "grants": 1} == all_of.audit.events[-1].fields


def test_processes_without_end_are_a_number(all_of: Records) -> None:
    all_of.clock.advance(seconds=1)
    began_ms = all_of.clock.now_ms()
    all_of.churn(IN_FULL)
    recorded = len(all_of.audit.events)
    all_of.churn(1000)
    all_of.clock.advance(seconds=5)
    all_of.churn(1)
    assert recorded == len(all_of.audit.events)
    all_of.records.summarise()

    assert [
        {
            "of": "session.opened",
            "anchor": f"an_{IN_FULL + 1001}",
            "code": "exited",
            "count": 1001,
            "first_ms": began_ms,
            "last_ms": began_ms + 5000,
        }
    ] == all_of.summaries


def test_every_session_is_recorded_whole_or_counted_once(all_of: Records) -> None:
    for minute in range(3):
        all_of.churn(IN_FULL + 10 * minute)
        staying = [all_of.open() for _ in range(5)]
        all_of.clock.advance(seconds=60)
        for session_id in staying:
            all_of.records.ended(session_id, "exited", {})
    all_of.records.summarise()
    opened = {event.session_id for event in all_of.audit.events if event.name is EventName.SESSION_OPENED}
    ended = {event.session_id for event in all_of.audit.events if event.name is EventName.SESSION_ENDED}

    assert opened == ended
    assert all_of._count == len(opened) + sum(int(str(told["count"])) for told in all_of.summaries)


@pytest.mark.parametrize("how", ["matters", "tell"])
def test_a_session_that_something_hangs_on_is_recorded_whatever_the_number(all_of: Records, how: str) -> None:
    all_of.churn(IN_FULL)
    session_id = all_of.open()
    assert [] == all_of.names(session_id)
    opened_at_ms = all_of.clock.now_ms()
    all_of.clock.advance(seconds=3)
    for _ in range(2):
        if how == "matters":
            all_of.records.matters(session_id)
        else:
            all_of.records.tell(EventName.GRANT_MADE, session_id, {"grant": "gr_1"})
    all_of.records.ended(session_id, "revoked", {})
    all_of.records.summarise()

    between = ["grant.made"] * 2 if how == "tell" else []
    assert ["session.opened", *between, "session.ended"] == all_of.names(session_id)
    told = next(event for event in all_of.audit.events if event.session_id == session_id)
    assert {**WHO, "opened_at_ms": opened_at_ms} == told.fields
    assert [] == all_of.summaries


def test_a_minute_later_sessions_are_recorded_again(all_of: Records) -> None:
    all_of.churn(IN_FULL + 1)
    all_of.clock.advance(seconds=60)
    session_id = all_of.open()

    assert ["session.opened"] == all_of.names(session_id)
    assert [1] == [told["count"] for told in all_of.summaries]


def test_another_program_is_not_concerned(all_of: Records) -> None:
    all_of.churn(IN_FULL + 1)

    assert ["session.opened"] == all_of.names(all_of.open((1000, "/opt/other")))


def test_programs_without_end_are_counted_within_bounds(all_of: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "PROGRAMS_KEPT", 2)
    monkeypatch.setattr(records_module, "IN_FULL", 0)
    for number in range(5):
        all_of.records.ended(all_of.open((1000, f"/opt/{number}")), "exited", {})
    all_of.records.summarise()

    assert [1] * 5 == [told["count"] for told in all_of.summaries]


def test_what_the_log_does_not_take_now_is_told_later(all_of: Records) -> None:
    all_of.churn(IN_FULL + 3)
    all_of.audit.broken = True
    all_of.records.summarise()
    all_of.records.ended(all_of.open(), "exited", {})  # never raises
    all_of.audit.mend()
    all_of.records.summarise()

    assert [3] == [told["count"] for told in all_of.summaries]

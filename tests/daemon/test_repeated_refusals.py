"""Refusals on record: each in full up to a bound, the rest as a number."""

from dataclasses import replace

import pytest

from broker.daemon import repeated_refusals as refusals_module
from broker.daemon.repeated_refusals import RepeatedRefusals
from broker.server.office import Refused
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock

NO = Refused(code="bad_signature", route="/v1/thaw", agent="codex", pid=7, exe="/opt/agent")


def test_who_was_refused_what_is_on_record() -> None:
    audit = MemoryAudit()
    RepeatedRefusals(audit=audit, clock=SetClock()).record(NO)

    (event,) = audit.events
    assert "control.refused" == event.name
    assert {
        "code": "bad_signature",
        "route": "/v1/thaw",
        "agent": "codex",
        "pid": 7,
        "exe": "/opt/agent",
    } == event.fields


def test_a_flood_of_refusals_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals_module, "IN_FULL", 2)
    audit, clock = MemoryAudit(), SetClock()
    refusals = RepeatedRefusals(audit=audit, clock=clock)
    for _ in range(5):
        refusals.record(NO)
    assert ["control.refused"] * 2 == [event.name for event in audit.events]
    clock.advance(seconds=61)
    refusals.record(NO)

    assert ["flood.summary", "control.refused"] == [event.name for event in audit.events[2:]]
    assert {
        "of": "control.refused",
        "anchor": None,
        "code": "bad_signature",
        "count": 3,
        "first_ms": clock.now_ms() - 61_000,
        "last_ms": clock.now_ms() - 61_000,
    } == audit.events[2].fields
    refusals.summarise()
    assert 4 == len(audit.events), "there is nothing to add"


def test_each_code_has_its_own_number_and_none_is_lost_while_the_log_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals_module, "IN_FULL", 0)
    audit, clock = MemoryAudit(), SetClock()
    refusals = RepeatedRefusals(audit=audit, clock=clock)
    for _ in range(3):
        refusals.record(NO)
    refusals.record(replace(NO, code="unsigned"))
    audit.broken = True
    refusals.summarise()
    audit.mend()
    refusals.summarise()

    assert {"bad_signature": 3, "unsigned": 1} == {
        event.fields["code"]: event.fields["count"] for event in audit.events
    }


def test_a_refusal_stands_though_it_can_not_be_recorded() -> None:
    audit = MemoryAudit()
    audit.broken = True

    RepeatedRefusals(audit=audit, clock=SetClock()).record(NO)

"""Refusals without end: so many in full, then a number, and nobody else is concerned."""

from pathlib import Path

import pytest

from broker.contract.wire import JsonObject
from broker.server import floods as floods_module
from broker.server.floods import IN_FULL, Floods
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.faces import AgentFace

DENIED: JsonObject = {"category": "policy_denied", "code": "no_rule"}
PROGRAM = (1000, "/opt/agent")
FINE: JsonObject = {"category": "success", "code": "ok"}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def audit() -> MemoryAudit:
    return MemoryAudit()


@pytest.fixture
def floods(audit: MemoryAudit, clock: SetClock) -> Floods:
    return Floods(audit=audit, clock=clock)


def test_who_is_refused_without_end_is_turned_away_for_the_rest_of_the_minute(
    floods: Floods, audit: MemoryAudit, clock: SetClock
) -> None:
    for _ in range(IN_FULL):
        assert not floods.turns_away("an_1", PROGRAM)
        floods.note("an_1", PROGRAM, DENIED)
    clock.advance(seconds=30)
    assert [True] * 7 == [floods.turns_away("an_1", PROGRAM) for _ in range(7)]
    assert not floods.turns_away("an_2", PROGRAM)
    assert [] == audit.events
    clock.advance(seconds=30)
    assert not floods.turns_away("an_1", PROGRAM)

    (event,) = audit.events
    assert ("flood.summary", "an_1", "no_rule", 7) == (
        event.name.value, event.fields["anchor"], event.fields["code"], event.fields["count"],
    )  # fmt: skip
    assert 30_000 == int(str(event.fields["last_ms"])) - int(str(event.fields["first_ms"]))


def test_what_something_came_of_is_no_flood(floods: Floods) -> None:
    for _ in range(IN_FULL + 1):
        floods.note("an_1", PROGRAM, FINE)

    assert not floods.turns_away("an_1", PROGRAM)


def test_a_swarm_of_one_program_is_turned_away_as_a_whole(floods: Floods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floods_module, "IN_FULL_OF_A_PROGRAM", 3)
    for number in range(3):
        floods.note(f"an_{number}", PROGRAM, DENIED)

    assert floods.turns_away("an_new", PROGRAM)
    monkeypatch.setattr(floods_module, "KEPT", 2)
    for number in range(3):
        floods.note(f"an_{number}", PROGRAM, DENIED)
    assert floods.turns_away("an_new", PROGRAM), "no swarm is so large that it is forgotten for its own sake"
    assert not floods.turns_away("an_new", (1000, "/opt/other"))


def test_counts_are_kept_within_bounds_and_a_dead_log_is_no_matter(
    floods: Floods, audit: MemoryAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods_module, "KEPT", 2)
    monkeypatch.setattr(floods_module, "IN_FULL", 1)
    floods.note("an_1", PROGRAM, DENIED)
    assert floods.turns_away("an_1", PROGRAM)
    floods.note("an_2", (1000, "/opt/other"), DENIED)
    assert ["an_1"] == [event.fields["anchor"] for event in audit.events]
    assert floods.turns_away("an_2", PROGRAM)
    audit.broken = True
    floods.summarise()

    assert not floods.turns_away("an_2", PROGRAM)


def counted(audit: MemoryAudit) -> list[object]:
    return [event.fields["count"] for event in audit.events]


def flooding(floods: Floods, anchor_id: str, times: int) -> int:
    """How many of so many requests are looked at."""
    looked_at = 0
    for _ in range(times):
        if not floods.turns_away(anchor_id, PROGRAM):
            looked_at += 1
            floods.note(anchor_id, PROGRAM, DENIED)
    return looked_at


def test_who_goes_on_minute_after_minute_is_recorded_ever_less_and_in_full_again_after_a_rest(
    floods: Floods, clock: SetClock
) -> None:
    taken = []
    for _ in range(5):
        taken.append(flooding(floods, "an_1", IN_FULL + 1))
        clock.advance(seconds=60)
    assert [600, 150, 37, 30, 30] == taken
    assert 5 == flooding(floods, "an_1", 5)
    clock.advance(seconds=60)

    assert IN_FULL == flooding(floods, "an_1", IN_FULL + 1)


def test_no_refusal_is_lost_between_what_is_recorded_and_what_is_counted(
    floods: Floods, audit: MemoryAudit, clock: SetClock
) -> None:
    asked, looked_at = 0, 0
    for minute in range(6):
        for anchor in ("an_1", "an_2", "an_3"):
            asked += 700 + minute
            looked_at += flooding(floods, anchor, 700 + minute)
        clock.advance(seconds=61)
    floods.summarise()

    assert asked - looked_at == sum(map(int, map(str, counted(audit))))


def test_an_unlock_begins_afresh_with_the_count_on_record(floods: Floods, audit: MemoryAudit) -> None:
    flooding(floods, "an_1", IN_FULL + 9)
    floods.summarise(afresh=True)

    assert [9] == counted(audit)
    assert IN_FULL == flooding(floods, "an_1", IN_FULL + 1)


def test_what_the_log_does_not_take_now_is_told_later(
    floods: Floods, audit: MemoryAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods_module, "IN_FULL", 1)
    flooding(floods, "an_1", 4)
    audit.broken = True
    floods.summarise()
    audit.mend()
    floods.summarise()

    assert [3] == counted(audit)


def test_what_is_let_go_while_the_log_takes_nothing_is_told_later_as_one_number(
    floods: Floods, audit: MemoryAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floods_module, "IN_FULL", 1)
    monkeypatch.setattr(floods_module, "KEPT", 2)
    audit.broken = True
    for number in range(4):
        flooding(floods, f"an_{number}", 6)
    audit.mend()
    floods.summarise()
    floods.summarise()

    assert 4 * 5 == sum(map(int, map(str, counted(audit))))
    assert 2 == len(audit.events)


async def test_an_agent_that_is_refused_without_end_is_told_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T33."""
    monkeypatch.setattr(floods_module, "IN_FULL", 2)
    request = {"service": "market", "method": "GET", "path": "/x"}
    async with AgentFace(tmp_path) as face:
        told = [await face.ask("POST", "/v1/http", request) for _ in range(3)]
        again = await face.ask("POST", "/v1/reconcile", {"correlation_id": "op_" + "0" * 44})

    assert ["no_rule", "no_rule", "local_limit"] == [one.code for one in told]
    assert (429, "local_limit") == (again.status, again.code)

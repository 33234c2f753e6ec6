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

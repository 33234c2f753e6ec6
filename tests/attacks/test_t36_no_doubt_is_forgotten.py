"""T36: a change in doubt is not sent again because somebody edits, deletes or puts back the ledger's file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.upstream import reset_before_body, respond
from tests.live.house import House, open_house, until
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

ORDER = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}
EDITS = {
    "done": "UPDATE attempts SET state = 'done'",
    "taken away": "DELETE FROM attempts",
    "another change": "UPDATE attempts SET change_key = x'00'",
}


@pytest.fixture
def upstream() -> Iterator[RoughUpstream]:
    with misbehaving() as made:
        made.at("/orders", reset_before_body)
        yield made


@pytest.fixture
def house(tmp_path: Path, upstream: RoughUpstream) -> Iterator[House]:
    with open_house(tmp_path / "h", origin=upstream.origin) as made:
        yield made


def create(house: House) -> dict[str, Any]:
    """Ask for the order; a human says yes where they are asked."""
    with house.agent() as agent:
        asked = agent.begin_act(**ORDER)
        until(lambda: house.human.cards() or not agent._answers[asked].empty())
        for card in house.human.cards():
            house.human.approve(card["id"])
        return agent.end_act(asked)


def execute(house: House, statement: str) -> None:
    with closing(sqlite3.connect(house.places.ledger)) as database, database:
        database.execute(statement)


def refused_as_frozen(house: House) -> None:
    status = house.human.client.status()
    assert status["frozen"] is True
    assert "changes in doubt may be forgotten" in str(status["warnings"])
    assert ("broker_unavailable", "frozen") == ((told := create(house))["category"], told["code"])


@pytest.mark.parametrize("how", [*EDITS, "deleted", "an older copy"])
def test_a_ledger_that_was_touched_while_no_daemon_ran_is_missed(
    house: House, upstream: RoughUpstream, how: str
) -> None:
    older = house.places.ledger.read_bytes()
    assert "outcome_unknown" == create(house)["category"]
    house.kill()  # so that the vault could not take note of anything
    match how:
        case "deleted":
            house.places.ledger.unlink()
        case "an older copy":
            house.places.ledger.write_bytes(older)
        case _:
            execute(house, EDITS[how])
    house.start()
    house.human.unlock()
    upstream.at("/orders", respond(201, b'{"id":"o-1"}'))

    refused_as_frozen(house)
    assert 1 == len(upstream.seen("/orders"))
    house.human.open_session()
    assert "ledger" in str(house.human.events("daemon.frozen")[-1]["fields"])
    house.human.client.thaw(house.human.key)
    assert [] == house.human.client.status()["warnings"]
    house.human.client.lock()
    house.human.unlock()
    assert house.human.client.status()["frozen"] is False, "what a human took as it is stays taken"


@pytest.mark.parametrize("how", EDITS)
def test_a_ledger_that_is_touched_while_the_daemon_runs_is_noticed(
    house: House, upstream: RoughUpstream, how: str
) -> None:
    assert "outcome_unknown" == create(house)["category"]
    execute(house, EDITS[how])
    upstream.at("/orders", respond(201, b'{"id":"o-1"}'))

    assert "broker_unavailable" == create(house)["category"]
    refused_as_frozen(house)
    assert 1 == len(upstream.seen("/orders"))

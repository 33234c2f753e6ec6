"""What the ledger knows of markers: where a command was sent to, and which markers may be taken away."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.contract.wire import JsonObject
from broker.core.ledger import AttemptState, attempt_of
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.recall import recalled
from broker.operations.ledger import KEPT_MS, LedgerChanged, LedgerError, LedgerStore
from broker.operations.marker_rows import FORGOTTEN_MS
from tests.fakes import market
from tests.fakes.attempts import ENVELOPE, OP, OTHER, opened
from tests.fakes.clock import SetClock
from tests.fakes.hosts import STORE, command, frozen, get, operation, put, run_of

TOUCH = frozen(command("touch x"))
PLACE = TOUCH.host.url
ENDED: dict[str, Any] = {**ENVELOPE, "ssh": {"exit_status": 0, "marker": "started"}}
LATE_S = KEPT_MS // 1000 + 1


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path, clock: SetClock) -> Iterator[LedgerStore]:
    made = opened(path, clock)
    yield made
    made.close()


async def begin(store: LedgerStore, correlation_id: str = OP, request: FrozenSsh = TOUCH, **more: Any) -> None:
    made = attempt_of(
        request,
        correlation_id=correlation_id,
        request_id=None,
        caller=market.agent(),
        session_id="se_1",
        now_ms=1,
        **more,
    )
    await store.begin(made)


async def since(store: LedgerStore, correlation_id: str = OP) -> object:
    found = await store.by_id(correlation_id)
    assert found is not None
    return (recalled(found.args) or {})["since"]


async def old(store: LedgerStore, place: str = PLACE) -> tuple[str, ...]:
    return await store.old_markers(place, limit=100)


async def test_the_store_that_a_command_is_sent_into_is_durable_before_it_is_sent(
    store: LedgerStore, path: Path, clock: SetClock
) -> None:
    told = {"path": STORE.path, "id": STORE.id, "boot": STORE.boot}
    await begin(store)
    assert None is await since(store)
    await store.bound(OP, STORE)
    store.lock()
    await store.bound(OP, STORE)
    store.close()

    again = opened(path, clock)
    assert told == await since(again)
    assert AttemptState.RUNNING is getattr(await again.by_id(OP), "state", None)
    assert {**told, "boot": "boot-2"} != await since(again)


async def test_another_store_than_was_known_takes_its_place(store: LedgerStore) -> None:
    await begin(store, since=STORE)
    await store.bound(OP, replace(STORE, boot="boot-2"))

    assert {"path": STORE.path, "id": STORE.id, "boot": "boot-2"} == await since(store)


async def test_what_is_not_written_down_is_bound_to_nothing(store: LedgerStore) -> None:
    await store.bound(OP, STORE)

    assert None is await store.by_id(OP)


async def test_where_the_store_can_not_be_noted_it_is_told(store: LedgerStore) -> None:
    await begin(store)
    store.distrusted = "another hand"

    with pytest.raises(LedgerChanged):
        await store.bound(OP, STORE)


async def test_a_marker_is_old_a_day_after_its_command_was_heard_to_end(store: LedgerStore, clock: SetClock) -> None:
    await begin(store)
    await store.finish(OP, in_doubt=False, envelope=ENDED)
    assert () == await old(store)
    clock.advance(seconds=LATE_S)

    assert (OP,) == await old(store)
    assert () == await old(store, "ssh://deploy@elsewhere:22")
    await begin(store, OTHER)  # forgets the result, and not the marker
    assert None is await store.by_id(OP)
    assert (OP,) == await old(store)
    await store.forget_markers((OP, OTHER))
    assert () == await old(store)


async def test_what_is_asked_about_is_bounded_and_the_oldest_first(store: LedgerStore, clock: SetClock) -> None:
    ids = [f"op_{number:012x}" for number in range(5)]
    for one in ids:
        await begin(store, one)
        await store.finish(one, in_doubt=False, envelope=ENDED)
        clock.advance(seconds=1)
    clock.advance(seconds=LATE_S)

    assert tuple(ids[:3]) == await store.old_markers(PLACE, limit=3)


UNSETTLED: dict[str, JsonObject] = {
    "nothing was started": ENVELOPE,
    "no end was seen": {**ENVELOPE, "ssh": {"exit_status": None, "marker": "started"}},
    "another one ran": {**ENVELOPE, "ssh": {"exit_status": 98, "marker": "duplicate"}},
    "no marker came": {**ENVELOPE, "ssh": {"exit_status": 0, "marker": "missing"}},
}


@pytest.mark.parametrize("why", UNSETTLED)
async def test_a_marker_that_nobody_saw_come_to_its_end_is_left(store: LedgerStore, clock: SetClock, why: str) -> None:
    await begin(store)
    await store.finish(OP, in_doubt=False, envelope=UNSETTLED[why])
    clock.advance(seconds=LATE_S)

    assert () == await old(store)


async def test_a_marker_in_doubt_is_left_until_it_is_settled_for_a_day(store: LedgerStore, clock: SetClock) -> None:
    await begin(store)
    await store.finish(OP, in_doubt=True, envelope=ENDED)
    clock.advance(seconds=2 * LATE_S)
    assert () == await old(store)
    await store.settle(OP, {**ENVELOPE, "ssh": None})
    assert () == await old(store)
    clock.advance(seconds=LATE_S)

    assert (OP,) == await old(store)


async def test_a_fence_is_never_asked_for(store: LedgerStore, clock: SetClock) -> None:
    """It keeps a command that is still on its way from running."""
    await begin(store)
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    await store.settle(OP, {**ENVELOPE, "ssh": {"exit_status": None, "marker": "never_started"}})
    clock.advance(seconds=2 * LATE_S)

    assert () == await old(store)


@pytest.mark.parametrize(
    "request_",
    [frozen(put("/a")), replace(TOUCH, action=replace(run_of(command("touch x")), marker=MarkerMode.OFF))],
    ids=["file", "without"],
)
async def test_what_leaves_no_marker_has_none_to_collect(
    store: LedgerStore, clock: SetClock, request_: FrozenSsh
) -> None:
    await begin(store, request=request_)
    await store.finish(OP, in_doubt=False, envelope=ENDED)
    clock.advance(seconds=LATE_S)

    assert () == await old(store)


async def test_a_host_that_nobody_comes_to_any_more_keeps_its_markers(store: LedgerStore, clock: SetClock) -> None:
    await begin(store)
    await store.finish(OP, in_doubt=False, envelope=ENDED)
    clock.advance(seconds=FORGOTTEN_MS // 1000 + 1)
    await begin(store, OTHER)
    await store.finish(OTHER, in_doubt=False, envelope=ENDED)
    clock.advance(seconds=LATE_S)

    assert (OTHER,) == await old(store)


FORGERIES = {
    "an unsettled one for a settled one": "UPDATE markers SET correlation_id = replace(correlation_id, '0', '1')",
    "an earlier end": "UPDATE markers SET settled_at_ms = 1",
    "rubbish": "UPDATE markers SET proof = x'00'",
}


@pytest.mark.parametrize("how", FORGERIES)
async def test_no_other_hand_gets_a_marker_removed(store: LedgerStore, path: Path, clock: SetClock, how: str) -> None:
    """It would open the id of a change in doubt, and then prove that it was never made."""
    await begin(store)
    await store.finish(OP, in_doubt=False, envelope=ENDED)
    if how != "an earlier end":
        clock.advance(seconds=LATE_S)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(FORGERIES[how])

    assert () == await old(store)


async def test_a_row_that_came_back_for_what_is_in_doubt_again_is_passed_over(
    store: LedgerStore, path: Path, clock: SetClock
) -> None:
    await begin(store)
    await store.finish(OP, in_doubt=False, envelope=ENDED)
    clock.advance(seconds=LATE_S)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE attempts SET state = 'in_doubt'")

    assert () == await old(store)


async def test_a_locked_ledger_names_no_marker(store: LedgerStore) -> None:
    store.lock()

    with pytest.raises(LedgerError):
        await old(store)
    with pytest.raises(LedgerError):
        await store.forget_markers((OP,))


ASKS = {
    "declared": operation("restart", unit="x"),
    "plain": command("systemctl stop x"),
    "open": command("true; systemctl stop x"),
    "file": put("/etc/x"),
}


@pytest.mark.parametrize("doubted", ASKS)
async def test_a_doubt_meets_its_own_change_and_all_where_one_may_be_anything(store: LedgerStore, doubted: str) -> None:
    await begin(store, request=frozen(ASKS[doubted]))
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)

    met = {name for name, ask in ASKS.items() if await store.doubts(key_of(frozen(ask)))}
    assert ({doubted, "open"} if doubted != "open" else set(ASKS)) == met
    assert () == await store.doubts(key_of(frozen(command("true; x", host="web/web-2"))))


async def test_commands_under_way_hide_no_doubt(store: LedgerStore) -> None:
    await begin(store, OP)
    for number in range(40):
        await begin(store, f"op_{number:012x}", frozen(command("touch x; true")))
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)

    assert [OP] == [doubt.correlation_id for doubt in await store.doubts(key_of(frozen(command("touch y; true"))))]


def key_of(request: FrozenSsh) -> str:
    made = attempt_of(request, correlation_id=OP, request_id=None, caller=market.agent(), session_id="se_1", now_ms=1)
    assert made.change_key is not None
    return made.change_key


def test_a_read_of_a_file_changes_nothing() -> None:
    made = attempt_of(
        frozen(get("/a")), correlation_id=OP, request_id=None, caller=market.agent(), session_id="se_1", now_ms=1
    )

    assert None is made.change_key

"""The ledger on disk: durable, sealed, bound, and true over crashes and failing disks."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from broker.core.ledger import AttemptState, LedgerMark
from broker.core.secret import Secret
from broker.operations import ledger_file
from broker.operations.ledger import KEPT_MS, LedgerChanged, LedgerError, LedgerStore
from tests.fakes.attempts import CHANGE, ENVELOPE, OP, OTHER, PRINT, SEAL, attempt, opened
from tests.fakes.clock import SetClock


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


def change(path: Path, statement: str, *values: object) -> None:
    """Write to the file past the store."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)


async def test_an_attempt_is_found_by_its_anchor_and_request_id_alone(store: LedgerStore) -> None:
    await store.begin(attempt())

    assert attempt() == await store.find("an_1", "canary-request-id")
    assert await store.find("an_2", "canary-request-id") is None
    assert await store.find("an_1", "canary-request-id2") is None
    assert attempt() == await store.by_id(OP)
    assert await store.by_id(OTHER) is None


async def test_ids_and_anchors_are_not_run_together(store: LedgerStore) -> None:
    await store.begin(attempt(anchor_id="an_1x", request_id="y"))

    assert await store.find("an_1", "xy") is None


async def test_an_outcome_is_recorded_with_its_attempt(store: LedgerStore) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=False, envelope=ENVELOPE)

    assert attempt(state=AttemptState.DONE, envelope=ENVELOPE) == await store.by_id(OP)
    assert () == await store.doubts(CHANGE)
    assert 0 == store.doubtful


async def test_one_that_ends_while_doubts_are_looked_for_is_in_none(store: LedgerStore) -> None:
    """Changes that may go out side by side are not refused for the sake of one that has just ended well."""
    found = []
    ended = asyncio.Event()

    async def look() -> None:
        while not ended.is_set():
            found.append(await store.doubts(CHANGE))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(look())
        for number in range(100):
            operation = f"op_{number:044x}"
            await store.begin(attempt(operation, request_id=None))
            await asyncio.sleep(0.001)
            await store.finish(operation, in_doubt=False, envelope=ENVELOPE)
        ended.set()

    assert {()} == set(found)


async def test_a_change_in_doubt_is_found_by_whoever_would_repeat_it(store: LedgerStore) -> None:
    await store.begin(attempt())
    assert () == await store.doubts(CHANGE), "what is under way is in no doubt yet"
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)

    (doubt,) = await store.doubts(CHANGE)
    assert (OP, "canary-agent", 1) == (doubt.correlation_id, doubt.agent, doubt.sent_at_ms)
    assert () == await store.doubts("sha256:another")
    assert [OP] == [found.correlation_id for found in await store.in_doubt()]
    assert 1 == store.doubtful


async def test_a_read_leaves_nothing_in_doubt(store: LedgerStore) -> None:
    await store.begin(attempt(change_key=None))
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)

    assert 0 == store.doubtful
    found = await store.by_id(OP)
    assert found is not None
    assert AttemptState.DONE is found.state


async def test_what_is_settled_stays_settled(store: LedgerStore) -> None:
    await store.begin(attempt())
    assert not await store.settle(OP, {"by": "early"}), "it is not in doubt yet"
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    assert await store.settlement(OP) is None
    assert await store.settle(OP, {"by": "first"})
    assert not await store.settle(OP, {"by": "second"})
    assert not await store.settle(OTHER, {"by": "nobody"})

    assert {"by": "first"} == await store.settlement(OP)
    assert await store.settlement(OTHER) is None
    assert () == await store.doubts(CHANGE)


async def test_nothing_of_what_was_asked_or_answered_stands_in_the_file(store: LedgerStore, path: Path) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    await store.settle(OP, {"by": "canary-settlement"})
    store.close()

    for left in path.parent.iterdir():
        assert b"canary" not in left.read_bytes()
        assert 0o600 == left.stat().st_mode & 0o777


async def test_a_locked_ledger_tells_numbers_and_nothing_else(store: LedgerStore) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    store.lock()

    assert 1 == store.doubtful
    for asked in (
        store.find("an_1", "r"),
        store.by_id(OP),
        store.doubts(CHANGE),
        store.in_doubt(),
        store.begin(attempt(OTHER)),
        store.settle(OP, {}),
    ):
        with pytest.raises(LedgerError, match="sealed while the vault is locked"):
            await asked


async def test_work_in_flight_is_recorded_though_the_vault_was_locked(store: LedgerStore) -> None:
    await store.begin(attempt())
    store.lock()
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    store.unlock(seal_key=SEAL, fingerprint_key=PRINT)

    assert [attempt(state=AttemptState.IN_DOUBT, envelope=ENVELOPE)] == await store.in_doubt()


async def test_what_was_under_way_when_the_daemon_died_is_in_doubt(path: Path, clock: SetClock) -> None:
    store = opened(path, clock)
    await store.begin(attempt())
    await store.begin(attempt(OTHER, change_key=None, request_id="read"))
    store.close()  # nothing was recorded of either

    again = opened(path, clock, unlock=False)
    assert [OP] == again.interrupted(), "and a read has just ended"
    assert [] == again.interrupted()
    again.unlock(seal_key=SEAL, fingerprint_key=PRINT)
    assert [OP] == [found.correlation_id for found in await again.in_doubt()]
    read = await again.find("an_1", "read")
    assert read is not None
    assert (AttemptState.DONE, None) == (read.state, read.envelope)
    again.close()


CRASHING = """
import asyncio, os, sys
from pathlib import Path
from tests.fakes.attempts import ENVELOPE, OTHER, attempt, opened
from tests.fakes.clock import SetClock

async def main():
    store = opened(Path(sys.argv[1]), SetClock())
    await store.begin(attempt(OTHER, request_id="done", change_key=None))
    await store.finish(OTHER, in_doubt=False, envelope=ENVELOPE)
    await store.begin(attempt())
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_what_was_begun_outlives_a_kill(path: Path, clock: SetClock) -> None:
    root = Path(__file__).resolve().parents[2]  # noqa: ASYNC240 - where this file is
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CRASHING, str(path)], cwd=root, check=False, timeout=60
    )
    assert -signal.SIGKILL == died.returncode

    store = opened(path, clock)
    assert [OP] == store.interrupted()
    done = await store.find("an_1", "done")
    assert done is not None
    assert ENVELOPE == done.envelope
    store.close()


@pytest.mark.parametrize("field", ["attempt", "envelope", "settlement"])
async def test_a_changed_entry_is_noticed(path: Path, store: LedgerStore, field: str) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    await store.settle(OP, {"by": "me"})
    change(path, f"UPDATE attempts SET {field} = CAST(substr({field}, 1, 20) || x'00' || substr({field}, 22) AS BLOB)")  # noqa: S608

    with pytest.raises(LedgerError, match="was changed"):
        await (store.settlement(OP) if field == "settlement" else store.by_id(OP))


FORGETTING = {
    "done": "UPDATE attempts SET state = 'done'",
    "settled": "UPDATE attempts SET state = 'settled'",
    "taken away": "DELETE FROM attempts",
    "a read": "UPDATE attempts SET change_key = NULL",
    "another change": "UPDATE attempts SET change_key = x'00'",
    "another id": "UPDATE attempts SET correlation_id = 'op_other'",
    "fewer writes": "UPDATE mark SET generation = 0",
    "another file's id": "UPDATE mark SET id = 'another'",
    "no seal": "UPDATE mark SET seal = NULL",
    "no mark": "DELETE FROM mark",
}


@pytest.mark.parametrize("how", FORGETTING)
async def test_a_doubt_that_another_hand_forgot_lets_nothing_through(path: Path, store: LedgerStore, how: str) -> None:
    """T36, while the daemon runs."""
    told: list[str] = []
    store.alarm = told.append
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    change(path, FORGETTING[how])

    for asked in (store.doubts(CHANGE), store.begin(attempt(OTHER)), store.settle(OP, {})):
        with pytest.raises(LedgerChanged):
            await asked
    assert told
    assert store.distrusted is not None
    assert {} == store._under_way


@pytest.mark.parametrize("how", FORGETTING)
async def test_a_doubt_that_was_forgotten_while_no_daemon_ran_is_missed(path: Path, clock: SetClock, how: str) -> None:
    store = opened(path, clock)
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    mark = store.mark
    store.close()
    change(path, FORGETTING[how])

    again = opened(path, clock)
    assert again.hold_against(mark, told=0) is not None
    with pytest.raises(LedgerChanged):
        await again.doubts(CHANGE)
    again.close()


async def test_a_doubt_that_is_made_an_attempt_under_way_blocks_all_the_same(path: Path, store: LedgerStore) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    change(path, "UPDATE attempts SET state = 'running'")

    assert [OP] == [doubt.correlation_id for doubt in await store.doubts(CHANGE)]


async def test_an_attempt_that_came_to_nothing_is_forgotten(store: LedgerStore) -> None:
    await store.begin(attempt())
    there = failing(store)
    await store.abandon(OP)
    store._db = there

    assert () == await store.doubts(CHANGE)
    assert await store.by_id(OP) is None
    assert await store.find("an_1", "canary-request-id") is None
    assert ({}, {}) == (store._under_way, store._owed)


async def test_an_attempt_that_is_under_way_is_no_doubt_yet(store: LedgerStore) -> None:
    await store.begin(attempt())

    assert () == await store.doubts(CHANGE)


async def test_another_or_an_older_file_is_told_by_what_others_remember(path: Path, clock: SetClock) -> None:
    store = opened(path, clock)
    assert 1 == await store.begin(attempt())
    store.close()
    older = path.read_bytes()  # noqa: ASYNC240 - nobody waits
    store = opened(path, clock)
    assert store.hold_against(None, told=0) is None
    assert LedgerMark(id=store.mark.id if store.mark else "", generation=1) == store.mark
    assert 2 == await store.begin(attempt(OTHER, request_id="2"))
    mark = store.mark
    assert mark is not None
    assert store.hold_against(mark, told=2) is None
    store.close()
    path.write_bytes(older)  # noqa: ASYNC240 - likewise

    store = opened(path, clock)
    for known, told in ((mark, 0), (None, 2), (LedgerMark(id="another", generation=0), 0)):
        assert store.hold_against(known, told=told) is not None
        with pytest.raises(LedgerChanged):
            await store.begin(attempt("op_3", request_id="3"))
    assert mark.id == store.adopt().id
    assert store.hold_against(store.mark, told=0) is None
    await store.begin(attempt("op_3", request_id="3"))
    store.close()


async def test_what_became_of_an_attempt_is_written_into_a_changed_file_too(path: Path, store: LedgerStore) -> None:
    await store.begin(attempt())
    change(path, "UPDATE mark SET seal = x'00'")
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)

    found = await store.by_id(OP)
    assert found is not None
    assert AttemptState.IN_DOUBT is found.state
    assert "another hand" in str(store.distrusted)
    with pytest.raises(LedgerChanged):
        await store.doubts(CHANGE)
    store.adopt()
    assert [OP] == [doubt.correlation_id for doubt in await store.doubts(CHANGE)]


async def test_an_entry_put_in_anothers_place_is_noticed(path: Path, store: LedgerStore) -> None:
    await store.begin(attempt())
    await store.begin(attempt(OTHER, request_id="other"))
    change(
        path,
        "UPDATE attempts SET attempt = (SELECT attempt FROM attempts WHERE correlation_id = ?)"
        " WHERE correlation_id = ?",
        OP,
        OTHER,
    )

    with pytest.raises(LedgerError, match="was changed"):
        await store.by_id(OTHER)


async def test_another_vaults_keys_open_nothing(store: LedgerStore) -> None:
    await store.begin(attempt())
    store.unlock(seal_key=Secret(b"x" * 32), fingerprint_key=PRINT)

    with pytest.raises(LedgerError, match="was changed"):
        await store.by_id(OP)


async def test_results_are_kept_a_day_and_doubts_until_they_are_settled(store: LedgerStore, clock: SetClock) -> None:
    for number, (name, in_doubt) in enumerate((("done", False), ("doubt", True), ("settled", True))):
        await store.begin(attempt(f"op_{name}", request_id=name, started_at_ms=number))
        await store.finish(f"op_{name}", in_doubt=in_doubt, envelope=ENVELOPE)
    await store.settle("op_settled", {})
    clock.passed_ms += KEPT_MS
    await store.begin(attempt("op_4", request_id="4"))
    assert await store.by_id("op_done") is not None
    clock.passed_ms += 1
    await store.begin(attempt("op_5", request_id="5"))

    kept = [await store.by_id(f"op_{name}") is not None for name in ("done", "doubt", "settled", "4", "5")]
    assert [False, True, False, True, True] == kept


def failing(store: LedgerStore) -> sqlite3.Connection:
    """Take the disk away; gives back what was there."""
    there = store._db
    store._db = closed = sqlite3.connect(":memory:")
    closed.close()
    return there


async def test_an_outcome_that_could_not_be_written_is_written_before_anything_else(store: LedgerStore) -> None:
    """T36: a disk that fails for a moment must not lose a doubt, and nothing is looked up meanwhile."""
    await store.begin(attempt())
    there = failing(store)
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)  # what became of it is no less true for that
    for asked in (store.doubts(CHANGE), store.begin(attempt(OTHER))):
        with pytest.raises(LedgerError, match="doctor"):
            await asked
    store._db = there

    (doubt,) = await store.doubts(CHANGE)
    assert OP == doubt.correlation_id
    assert {} == store._owed
    assert OTHER not in store._under_way


async def test_the_first_outcome_that_was_known_is_the_one_that_is_written(store: LedgerStore) -> None:
    await store.begin(attempt())
    there = failing(store)
    for in_doubt in (False, True):
        await store.finish(OP, in_doubt=in_doubt, envelope=ENVELOPE)
    store._db = there

    found = await store.by_id(OP)
    assert found is not None
    assert AttemptState.DONE is found.state


async def test_an_outcome_that_is_owed_is_paid_at_the_stop(path: Path, clock: SetClock) -> None:
    store = opened(path, clock)
    await store.begin(attempt())
    there = failing(store)
    await store.finish(OP, in_doubt=False, envelope=ENVELOPE)
    store._db = there
    store.close()

    again = opened(path, clock)
    assert [] == again.interrupted()
    again.close()


async def test_numbers_and_the_start_say_where_the_disk_fails(store: LedgerStore) -> None:
    there = failing(store)
    for look in (lambda: store.doubtful, store.interrupted):
        with pytest.raises(LedgerError, match="doctor"):
            look()
    store._db = there


async def test_a_caller_that_is_cancelled_loses_its_answer_and_not_the_entry(store: LedgerStore) -> None:
    """T34: begun is begun."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(store.begin(attempt()))
        await asyncio.sleep(0)
        task.cancel()

    async with asyncio.timeout(60):
        while await store.by_id(OP) is None:  # noqa: ASYNC110 - what was cancelled tells nobody
            await asyncio.sleep(0.001)


async def test_an_entry_that_is_too_large_to_be_read_is_said_to_be(
    store: LedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.begin(attempt())
    monkeypatch.setattr(ledger_file, "RESULT_BYTES_MAX", 10)

    with pytest.raises(LedgerError, match="can't be read"):
        await store.by_id(OP)


@pytest.mark.parametrize("spoil", ["link", "hard link", "mode", "directory", "no database", "newer"])
def test_a_file_that_is_not_ours_alone_is_refused(path: Path, clock: SetClock, spoil: str) -> None:
    """T31."""
    real = path.with_name("real.db")
    match spoil:
        case "link":
            path.symlink_to(real)
        case "hard link":
            real.touch(0o600)
            os.link(real, path)
        case "mode":
            path.touch()
            path.chmod(0o640)
        case "directory":
            path.mkdir()
        case "no database":
            path.write_bytes(b"no database at all" * 100)
            path.chmod(0o600)
        case _:
            opened(path, clock).close()
            change(path, "PRAGMA user_version=99")

    with pytest.raises(LedgerError):
        opened(path, clock)
    assert not real.exists() or spoil == "hard link"


async def test_a_key_is_kept_with_its_attempt_and_told_with_the_doubt(store: LedgerStore) -> None:
    await store.begin(attempt(idempotency_key="dw-1"))
    await store.finish(OP, in_doubt=True, envelope=ENVELOPE)
    (doubt,) = await store.doubts(CHANGE)

    assert ("dw-1", attempt().request_digest) == (doubt.idempotency_key, doubt.request_digest)
    told: list[str] = []

    async def record() -> None:
        found = await store.by_id(OP)
        assert found is not None
        told.append(found.state.value)

    assert await store.settle_by_repeat(OP, ENVELOPE, record)
    assert () == await store.doubts(CHANGE)
    assert not await store.settle_by_repeat(OP, ENVELOPE, record)
    assert ["in_doubt"] == told  # on record before it is closed, and once
    assert ENVELOPE == await store.settlement(OP)

"""The store of recorded collections: bounded, private, and shut while the vault is."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.evidence import KEPT_MS, EvidenceRecord
from broker.core.secret import Secret
from broker.operations import evidence_store
from broker.operations.evidence_rows import MisshapenError, of_json, to_json
from broker.operations.evidence_store import PER_ANCHOR_MAX, EvidenceStoreFile
from broker.operations.ledger_file import LedgerError
from broker.ports import LedgerSealed
from tests.fakes.clock import SetClock
from tests.fakes.collections_made import RECORD

OPERATION = "cloud.accounts.list"


def fresh(clock: SetClock, **changes: object) -> EvidenceRecord:
    now_ms = clock.now_ms()
    return replace(RECORD, collected_at_ms=now_ms, expires_at_ms=now_ms + 60_000, **changes)  # type: ignore[arg-type]  # fields of a record


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(tmp_path: Path, clock: SetClock) -> Iterator[EvidenceStoreFile]:
    made = EvidenceStoreFile(tmp_path / "evidence.db", now_ms=clock.now_ms)
    made.unlock(seal_key=Secret(b"s" * 32), fingerprint_key=Secret(b"f" * 32))
    yield made
    made.close()


async def found(store: EvidenceStoreFile, anchor_id: str = "anchor-1") -> list[str]:
    return [one.id for one in await store.find(anchor_id, OPERATION)]


async def test_a_collection_comes_back_as_it_was_under_an_id_of_the_stores_own(
    store: EvidenceStoreFile, clock: SetClock
) -> None:
    made = fresh(
        clock,
        reasons=({"code": "ITEM_FAILURES", "limit": None},),
        scope={"resource": "accounts"},
        snapshot="s-1",
        cursor="c",
    )
    kept = await store.record(made)

    assert kept.id.startswith("ev_")
    assert replace(made, id=kept.id) == kept
    assert (kept,) == await store.find("anchor-1", OPERATION)
    assert [] == await found(store, "anchor-2")
    assert () == await store.find("anchor-1", "cloud.accounts.search")


async def test_what_is_expired_is_gone_and_nothing_is_kept_for_longer_than_a_day(
    store: EvidenceStoreFile, clock: SetClock
) -> None:
    await store.record(fresh(clock))
    long = await store.record(replace(fresh(clock), expires_at_ms=clock.now_ms() + 100 * KEPT_MS))
    assert clock.now_ms() + KEPT_MS == long.expires_at_ms

    clock.advance(seconds=61)
    assert [long.id] == await found(store)
    clock.advance(seconds=KEPT_MS // 1000)
    assert [] == await found(store)


async def test_each_anchor_has_its_bound_and_the_oldest_goes_first(store: EvidenceStoreFile, clock: SetClock) -> None:
    other = await store.record(fresh(clock, anchor_id="anchor-2"))
    ids = [(await store.record(fresh(clock))).id for _ in range(PER_ANCHOR_MAX + 3)]

    assert ids[3:] == await found(store)
    assert [other.id] == await found(store, "anchor-2")


async def test_all_together_have_theirs_in_number_and_size(
    store: EvidenceStoreFile, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence_store, "RECORDS_MAX", 3)
    for at in range(5):
        await store.record(fresh(clock, anchor_id=f"a-{at}"))
    assert [0, 0, 1, 1, 1] == [len(await found(store, f"a-{at}")) for at in range(5)]

    monkeypatch.setattr(evidence_store, "TOTAL_BYTES_MAX", 1500)
    last = await store.record(fresh(clock))
    assert [last.id] == await found(store)
    assert [0, 0] == [len(await found(store, f"a-{at}")) for at in (2, 3)]


async def test_a_collection_that_is_too_large_proves_nothing_and_says_why(
    store: EvidenceStoreFile, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence_store, "RECORD_BYTES_MAX", 2000)
    kept = await store.record(fresh(clock, ids=tuple(f"name-{at}" for at in range(1000))))

    assert ((), False, "RESULT_LIMIT_REACHED") == (kept.ids, kept.complete, kept.reasons[-1]["code"])
    assert [kept.id] == await found(store)


async def test_while_the_vault_is_locked_nothing_is_read_or_written(store: EvidenceStoreFile, clock: SetClock) -> None:
    store.lock()

    with pytest.raises(LedgerSealed):
        await store.record(fresh(clock))
    with pytest.raises(LedgerSealed):
        await store.find("anchor-1", OPERATION)


def test_a_file_that_is_not_ours_alone_is_refused(tmp_path: Path, clock: SetClock) -> None:
    link, wide = tmp_path / "link.db", tmp_path / "wide.db"
    link.symlink_to(wide)
    wide.touch()
    wide.chmod(0o644)
    os.link(wide, tmp_path / "second.db")

    for path in (link, wide, tmp_path):
        with pytest.raises(LedgerError):
            EvidenceStoreFile(path, now_ms=clock.now_ms)
    (tmp_path / "second.db").unlink()
    with pytest.raises(LedgerError, match="chmod 600"):
        EvidenceStoreFile(wide, now_ms=clock.now_ms)


async def test_what_can_not_be_read_is_begun_anew(tmp_path: Path, clock: SetClock) -> None:
    path = tmp_path / "evidence.db"
    path.write_bytes(b"no database" * 1000)
    path.chmod(0o600)
    made = EvidenceStoreFile(path, now_ms=clock.now_ms)
    made.unlock(seal_key=Secret(b"s" * 32), fingerprint_key=Secret(b"f" * 32))
    kept = await made.record(fresh(clock))

    assert [kept.id] == await found(made)
    assert 0o600 == path.stat().st_mode & 0o777
    made.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"id": None},
        {"count": "3"},
        {"count": True},
        {"ids": "abc"},
        {"ids": [1]},
        {"args": []},
        {"visibility": "odd"},
        {"warnings": ["odd"]},
        {"odd": 1},
    ],
)
def test_a_row_that_is_not_whole_is_none(changes: dict[str, object]) -> None:
    values = {**to_json(RECORD), **changes}

    with pytest.raises((MisshapenError, ValueError)):
        of_json(values)  # type: ignore[arg-type]  # misshapen on purpose
    assert RECORD == of_json(to_json(RECORD))

"""Who looks on is told when a change comes into doubt, and when out of it; of nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.daemon.told_ledger import ToldLedger
from tests.fakes.attempts import ENVELOPE, OP, PRINT, SEAL, attempt
from tests.fakes.clock import SetClock


@pytest.fixture
def told() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def ledger(tmp_path: Path, told: list[tuple[str, str]]) -> Iterator[ToldLedger]:
    made = ToldLedger(tmp_path / "ledger.db", now_ms=SetClock().now_ms)
    made.unlock(seal_key=SEAL, fingerprint_key=PRINT)
    made.changed = lambda operation_id, state: told.append((operation_id, state))
    yield made
    made.close()


async def test_a_doubt_and_its_end_are_told(ledger: ToldLedger, told: list[tuple[str, str]]) -> None:
    await ledger.begin(attempt())
    assert [] == told
    await ledger.finish(OP, in_doubt=True, envelope=ENVELOPE)
    assert [(OP, "in_doubt")] == told
    assert await ledger.settle(OP, ENVELOPE)
    assert not await ledger.settle(OP, ENVELOPE)

    assert [(OP, "in_doubt"), (OP, "settled")] == told


async def test_what_ended_well_is_nobody_s_news(ledger: ToldLedger, told: list[tuple[str, str]]) -> None:
    await ledger.begin(attempt())
    await ledger.finish(OP, in_doubt=False, envelope=ENVELOPE)

    assert [] == told


async def test_without_anybody_to_tell_it_keeps_its_books(tmp_path: Path) -> None:
    ledger = ToldLedger(tmp_path / "ledger.db", now_ms=SetClock().now_ms)
    ledger.unlock(seal_key=SEAL, fingerprint_key=PRINT)
    await ledger.begin(attempt())
    await ledger.finish(OP, in_doubt=True, envelope=ENVELOPE)

    assert 1 == ledger.doubtful
    ledger.close()

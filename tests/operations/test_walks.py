"""Walks that were cut: found again by their anchor, since the vault was opened last, for an hour."""

import re
from dataclasses import replace

from broker.core.collect.paging import Step
from broker.core.collect.progress import Progress
from broker.core.collect.request import Kept
from broker.operations import walks
from broker.operations.walks import WalkTable
from tests.fakes.clock import SetClock

CLOCK = SetClock()
KEPT = Kept(
    anchor_id="a",
    service="market",
    operation="things.list",
    args={},
    credential="market",
    credential_version=1,
    policy_digest="sha256:0",
    vault_term=1,
    progress=Progress(),
    step=Step(url="/x", mark="m"),
    previous_url="/",
    kept_at_ms=CLOCK.now_ms(),
)


def test_a_walk_is_found_by_its_anchor_alone() -> None:
    table = WalkTable(now_ms=CLOCK.now_ms)
    cursor = table.keep(KEPT)

    assert re.fullmatch("cur_[0-9a-f]{32}", cursor)
    assert KEPT == table.find("a", cursor, vault_term=1)
    assert table.find("b", cursor, vault_term=1) is None
    assert table.find("a", "cur_" + "0" * 32, vault_term=1) is None


def test_no_walk_outlives_a_lock_or_an_hour() -> None:
    clock = SetClock()
    table = WalkTable(now_ms=clock.now_ms)
    locked, old = table.keep(KEPT), table.keep(replace(KEPT, vault_term=2))

    assert table.find("a", locked, vault_term=2) is None
    clock.passed_ms = walks.KEPT_MS
    assert table.find("a", old, vault_term=2) is None
    assert 0 == len(table)


def test_the_oldest_go_first_of_an_anchor_of_all_and_of_those_with_many_ids() -> None:
    table = WalkTable(now_ms=CLOCK.now_ms)
    mine = [table.keep(KEPT) for _ in range(walks.PER_ANCHOR_MAX + 1)]
    assert table.find("a", mine[0], vault_term=1) is None
    assert table.find("a", mine[1], vault_term=1) is not None

    for number in range(walks.WALKS_MAX):
        table.keep(replace(KEPT, anchor_id=str(number)))
    assert walks.WALKS_MAX == len(table)

    large = replace(KEPT, anchor_id="large", progress=Progress(ids=("x",) * (walks.IDS_MAX + 1)))
    cursor = table.keep(large)
    assert 1 == len(table)
    assert table.find("large", cursor, vault_term=1) is not None

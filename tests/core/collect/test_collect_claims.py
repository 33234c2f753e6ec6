"""Properties: complete is claimed only where every item of the declared snapshot was counted, whatever happens."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from hypothesis import given
from hypothesis import strategies as st

from broker.core.frozen import FrozenRequest
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import CompletenessDecl, Pagination, PagingKind, Stability
from broker.core.policy.model import Operation
from tests.fakes.walked import Seen, by_token, listing, page, snapshot_scope, things, walk_it

SIZES = st.integers(1, 7)
ITEMS = st.sets(st.integers(1, 40), max_size=20)
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=12)
BUDGETS = st.fixed_dictionaries(
    {}, optional={"pages": st.integers(1, 9), "items": st.integers(1, 12), "bytes": st.integers(1, 600)}
)
TOTALS = st.booleans()


@dataclass
class Shelf:
    """An upstream whose items come and go between pages: one change before each page but the first."""

    items: set[int]
    size: int
    changes: list[tuple[bool, int]]
    told: bool = False  # whether it tells a total
    version: int = 0
    always: set[int] = field(init=False)  # what was there all the time
    ever: set[int] = field(init=False)
    frozen: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.always, self.ever = set(self.items), set(self.items)

    def change(self) -> None:
        if self.changes:
            adds, item = self.changes.pop(0)
            (self.items.add if adds else self.items.discard)(item)
            self.version += 1
            self.always &= self.items
            self.ever |= self.items

    def total(self, count: int) -> dict[str, int]:
        return {"total": count} if self.told else {}

    def by_snapshot(self, asked: FrozenRequest) -> RawOutcome:
        """The token pins what was listed at the first page."""
        token = _argument(asked, "page")
        if token is None:
            self.frozen[self.version] = sorted(self.items)
            version, start = self.version, 0
        else:
            self.change()
            version, start = map(int, token.split("-"))
        rows = self.frozen[version]
        end = start + self.size
        following = f"{version}-{end}" if end < len(rows) else None
        return page(things(*rows[start:end]), next=following, version=version, **self.total(len(rows)))

    def by_key(self, asked: FrozenRequest) -> RawOutcome:
        """What comes after the last id, as it is now."""
        token = _argument(asked, "page")
        if token is not None:
            self.change()
        rows = sorted(item for item in self.items if item > int(token or 0))
        return page(things(*rows[: self.size]), more=len(rows) > self.size, **self.total(len(self.items)))

    def by_offset(self, asked: FrozenRequest) -> RawOutcome:
        """What stands there now: what slid below the offset is never seen."""
        token = _argument(asked, "page")
        if token is not None:
            self.change()
        start, rows = int(token or 0), sorted(self.items)
        return page(things(*rows[start : start + self.size]), **self.total(len(rows)))


def _argument(asked: FrozenRequest, name: str) -> str | None:
    return parse_qs(asked.query).get(name, [None])[0]


def to_its_end(operation: Operation, upstream: Any, budget: dict[str, Any]) -> tuple[Seen, list[int]]:
    """Calls, each going on with the one before, until nothing is left to go on with; all rows."""
    seen = walk_it(operation, upstream, **budget)
    rows = list(seen.ids)
    for _ in range(60):
        assert seen.ending is not None
        assert seen.complete == (seen.ending.verdict.category.value == "success")
        if seen.kept is None:
            return seen, rows
        assert not seen.complete
        seen = walk_it(operation, upstream, kept=seen.kept, **budget)
        rows += seen.ids
    raise AssertionError("the walk never ended")


def declared(*, told: bool) -> CompletenessDecl:
    return CompletenessDecl(items="json.items", id="id", total="json.total" if told else None)


@given(items=ITEMS, size=SIZES, changes=CHANGES, budget=BUDGETS, told=TOTALS)
def test_a_complete_snapshot_is_the_snapshot(
    *, items: set[int], size: int, changes: list[tuple[bool, int]], budget: dict[str, Any], told: bool
) -> None:
    shelf = Shelf(items, size, changes, told=told)
    before = sorted(items)
    operation = listing(by_token(Stability.SNAPSHOT), declared(told=told), scope=snapshot_scope())
    seen, rows = to_its_end(operation, shelf.by_snapshot, budget)

    assert seen.complete
    assert before == rows


@given(items=ITEMS, size=SIZES, changes=CHANGES, budget=BUDGETS, told=TOTALS)
def test_a_complete_walk_in_order_of_keys_has_all_that_was_there_all_the_time(
    *, items: set[int], size: int, changes: list[tuple[bool, int]], budget: dict[str, Any], told: bool
) -> None:
    paging = Pagination(kind=PagingKind.LAST_ITEM_ID, param="page", stability=Stability.KEYSET)
    shelf = Shelf(items, size, changes, told=told)
    seen, rows = to_its_end(listing(paging, declared(told=told)), shelf.by_key, budget)

    if seen.complete:
        assert shelf.always <= set(rows) <= shelf.ever
        assert len(rows) == len(set(rows))
    if told and seen.complete:
        assert len(rows) == len(shelf.items)


@given(items=ITEMS, size=SIZES, changes=CHANGES, budget=BUDGETS, told=TOTALS)
def test_pages_by_offset_are_complete_only_where_there_is_but_one(
    *, items: set[int], size: int, changes: list[tuple[bool, int]], budget: dict[str, Any], told: bool
) -> None:
    paging = Pagination(kind=PagingKind.OFFSET, param="page")
    shelf = Shelf(items, size, changes, told=told)
    before = sorted(items)
    seen, rows = to_its_end(listing(paging, declared(told=told)), shelf.by_offset, budget)
    assert seen.ending is not None

    if seen.complete:
        assert before == rows
        assert 1 == seen.ending.completeness.pages


@given(items=ITEMS, size=SIZES, hidden=st.sets(st.integers(1, 40), max_size=6), told=TOTALS)
def test_pages_that_go_on_by_what_was_asked_for_are_complete_only_with_every_row(
    *, items: set[int], size: int, hidden: set[int], told: bool
) -> None:
    """An upstream that leaves rows out of its pages, and moves on as if it had served them."""
    listed = sorted(items)

    def serve(asked: FrozenRequest) -> RawOutcome:
        start = int(_argument(asked, "page") or 0)
        shown = [item for item in listed[start : start + size] if item not in hidden]
        return page(things(*shown), **({"total": len(listed)} if told else {}))

    paging = Pagination(
        kind=PagingKind.OFFSET,
        param="page",
        size_param="size",
        size=size,
        counts_size=True,
        stability=Stability.SNAPSHOT,
    )
    seen, rows = to_its_end(listing(paging, declared(told=told)), serve, {})

    assert len(rows) == len(set(rows))
    if seen.complete:
        assert listed == rows
    if told and not hidden & items:
        assert seen.complete


@given(items=ITEMS, size=SIZES, budget=BUDGETS, told=TOTALS)
def test_pages_of_what_stands_still_hold_every_item_once(
    *, items: set[int], size: int, budget: dict[str, Any], told: bool
) -> None:
    for paging, answers in (
        (Pagination(kind=PagingKind.OFFSET, param="page", stability=Stability.SNAPSHOT), "by_offset"),
        (Pagination(kind=PagingKind.LAST_ITEM_ID, param="page", stability=Stability.KEYSET), "by_key"),
        (by_token(Stability.SNAPSHOT), "by_snapshot"),
    ):
        shelf = Shelf(set(items), size, [], told=told)
        seen, rows = to_its_end(listing(paging, declared(told=told)), getattr(shelf, answers), budget)

        assert seen.complete
        assert sorted(items) == rows


@given(items=ITEMS, size=SIZES, changes=CHANGES, restarts=st.booleans())
def test_two_snapshots_are_never_merged(
    *, items: set[int], size: int, changes: list[tuple[bool, int]], restarts: bool
) -> None:
    """An upstream that loses its snapshot and goes on with what is there now."""
    shelf = Shelf(items, size, changes)
    lists: dict[int, list[int]] = {}

    def forgetful(asked: FrozenRequest) -> RawOutcome:
        token = _argument(asked, "page")
        if token is not None:
            shelf.change()
        lists[shelf.version] = sorted(shelf.items)
        start, rows = int(token or 0), sorted(shelf.items)
        end = start + shelf.size
        return page(things(*rows[start:end]), next=str(end) if end < len(rows) else None, version=shelf.version)

    operation = listing(by_token(Stability.SNAPSHOT, restarts=restarts), scope=snapshot_scope())
    seen = walk_it(operation, forgetful)

    assert any(seen.ids == rows[: len(seen.ids)] for rows in lists.values())
    if seen.complete:
        assert seen.ids in lists.values()

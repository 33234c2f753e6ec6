"""What is known of a walk after each page: rows and ids counted, what was said of the whole, what is missing.

Complete is claimed for the whole walk alone, and only where every row was counted: from the first page to a declared
end, over one page, or under one declared snapshot or an order that rows can't leave.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from broker.contract.reasons import IncompleteCode, Retry
from broker.contract.result import IncompleteReason, Warn
from broker.contract.wire import JsonObject
from broker.core.collect.page import Page, reason
from broker.core.collect.paging import Position
from broker.core.paging import cut_size
from broker.core.policy.declarations import PagingKind, Stability
from broker.core.policy.model import Operation

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Everything of a walk but its rows. `rows` is None once some page's could not be counted."""

    pages: int = 0
    rows: int | None = 0
    bytes: int = 0
    ms: int = 0
    ids: tuple[str, ...] = ()
    missing_ids: int = 0
    used: frozenset[str] = frozenset()
    last: str | None = None
    totals: tuple[int, ...] = ()  # as they were told, each once
    snapshots: tuple[str | None, ...] = ()  # likewise
    last_rows: int = 0
    reasons: tuple[IncompleteReason, ...] = ()
    retries: tuple[Retry, ...] = ()
    warnings: tuple[Warn, ...] = ()
    restarts: int = 0
    began_at_ms: int = 0

    def with_page(self, page: Page, *, elapsed_ms: int) -> "Progress":
        count = None if page.rows is None else len(page.rows)
        rows = None if count is None or self.rows is None else self.rows + count
        known = tuple(one for one in page.ids if one is not None)
        return replace(
            self,
            pages=self.pages + 1,
            rows=rows,
            bytes=self.bytes + page.bytes,
            ms=self.ms + elapsed_ms,
            ids=(*self.ids, *known),
            missing_ids=self.missing_ids + len(page.ids) - len(known),
            totals=self.totals if page.total is None else _with(self.totals, page.total),
            snapshots=_with(self.snapshots, page.snapshot),
            last_rows=count or 0,
            reasons=_merged(self.reasons, page.reasons),
            retries=self.retries if page.retry is None else (*self.retries, page.retry),
            warnings=_warned(self.warnings, page.warnings),
        )

    def asking(self, *marks: str) -> "Progress":
        """The same once the page with these marks is asked for; the last of them is its token's."""
        return replace(self, used=self.used | frozenset(marks), last=marks[-1])

    def position(self, args: JsonObject) -> Position:
        return Position(
            args=args,
            rows=self.rows or 0,
            pages=self.pages,
            total=self.totals[-1] if self.totals else None,
            used=self.used,
            last=self.last,
        )

    @property
    def repeats(self) -> int:
        return len(self.ids) - len(set(self.ids))


def doubts_of_whole(operation: Operation, progress: Progress, args: JsonObject) -> tuple[IncompleteReason, ...]:
    """Why a walk that came to its declared end is still not known to hold everything. Empty where it is."""
    return (
        *_of_stability(operation, progress),
        *_of_snapshot(operation, progress),
        *_of_totals(operation, progress),
        *_of_rows(progress),
        *_of_full_page(operation, progress, args),
    )


def drifted(progress: Progress) -> tuple[IncompleteReason, ...]:
    """Totals or snapshots that differ between pages: two lists were seen, and neither whole."""
    if len(progress.totals) > 1:
        told = "The upstream's total changed while it was read: rows may have slid by unseen."
        return (reason(IncompleteCode.SNAPSHOT_CHANGED, told),)
    return ()


def _of_stability(operation: Operation, progress: Progress) -> tuple[IncompleteReason, ...]:
    paging = operation.pagination
    if progress.pages <= 1 or (paging is not None and paging.stability is not Stability.NONE):
        return ()
    if drifted(progress):  # it was seen to change, which says more
        return ()
    told = "The pages are of no declared snapshot or order: what changed in between may be missing."
    return (reason(IncompleteCode.COMPLETENESS_UNVERIFIED, told),)


def _of_snapshot(operation: Operation, progress: Progress) -> tuple[IncompleteReason, ...]:
    if operation.scope is None or operation.scope.snapshot is None:
        return ()
    if None in progress.snapshots:
        told = "The answer lacks the version that the operation declares."
        return (reason(IncompleteCode.COMPLETENESS_UNVERIFIED, told),)
    return ()


def _of_totals(operation: Operation, progress: Progress) -> tuple[IncompleteReason, ...]:
    declared = operation.completeness
    if declared is None or (declared.total is None and declared.cap is None):
        return ()
    rows = progress.rows or 0
    total = max(progress.totals) if progress.totals and declared.total is not None else None
    if declared.cap is not None and (rows if total is None else total) >= declared.cap and rows != total:
        told = "The upstream serves no more rows than this, whatever there is."
        return (reason(IncompleteCode.RESULT_LIMIT_REACHED, told, limit=declared.cap),)
    if declared.total is None or declared.estimated:
        return ()
    if total is None:
        told = "The answer lacks the total that the operation declares."
        return (reason(IncompleteCode.COMPLETENESS_UNVERIFIED, told),)
    if len(progress.totals) == 1 and rows != total:
        told = "As many rows came as the upstream's total does not say."
        return (reason(IncompleteCode.COMPLETENESS_UNVERIFIED, told),)
    return drifted(progress)


def _of_rows(progress: Progress) -> tuple[IncompleteReason, ...]:
    if progress.rows is None:
        return (reason(IncompleteCode.COMPLETENESS_UNVERIFIED, "The rows could not be counted."),)
    found = []
    if progress.repeats:
        told = f"{progress.repeats} rows came more than once: what is listed moved, and others may be missing."
        found.append(reason(IncompleteCode.SNAPSHOT_CHANGED, told))
    if progress.missing_ids:
        told = f"{progress.missing_ids} rows lack the id that the operation declares."
        found.append(reason(IncompleteCode.COMPLETENESS_UNVERIFIED, told))
    return tuple(found)


def _of_full_page(operation: Operation, progress: Progress, args: JsonObject) -> tuple[IncompleteReason, ...]:
    declared, paging = operation.completeness, operation.pagination
    if declared is None or not declared.full_page_means_cut:
        return ()
    if paging is not None and paging.kind is not PagingKind.NONE:
        return ()  # there is a next page, or a declared end
    size = cut_size(operation, args)
    if size is not None and progress.last_rows < size:
        return ()
    told = "As many rows came as were asked for: there may be more."
    return (reason(IncompleteCode.RESULT_LIMIT_REACHED, told, limit=size),)


def _with(seen: tuple[T, ...], one: T) -> tuple[T, ...]:
    return seen if one in seen else (*seen, one)


def _merged(seen: tuple[IncompleteReason, ...], more: Iterable[IncompleteReason]) -> tuple[IncompleteReason, ...]:
    """Each code once from each side: what one page lacks is not said for every page."""
    known = {(one.code, one.by) for one in seen}
    return seen + tuple(one for one in more if (one.code, one.by) not in known)


def merged_reasons(*groups: Iterable[IncompleteReason]) -> tuple[IncompleteReason, ...]:
    found: tuple[IncompleteReason, ...] = ()
    for group in groups:
        for one in group:
            found = _merged(found, (one,))
    return found


def _warned(seen: tuple[Warn, ...], more: Iterable[Warn]) -> tuple[Warn, ...]:
    known = {one.code for one in seen}
    return seen + tuple(one for one in more if one.code not in known)

"""A walk as a value: what it has asked for, and what follows from each page. Sends nothing and waits for nothing.

Rows of two snapshots are never merged: where a later page is of another one, or its token is too old, the walk begins
anew where that is declared and nothing was given out yet, and else it ends with what it has.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from broker.contract.reasons import Category, IncompleteCode
from broker.contract.wire import JsonObject
from broker.core.collect.ending import Capped, Cause, Expired, Lost, Moved, Spent, Unfinished, Withheld, spent_of
from broker.core.collect.page import Page, fits
from broker.core.collect.paging import Astray, Step, first_args, next_of
from broker.core.collect.progress import Progress
from broker.core.collect.request import Kept, is_by_url, page_of, url_mark
from broker.core.continuation import BARE, Shield
from broker.core.frozen import FrozenRequest, WalkBound
from broker.core.outcome import Verdict
from broker.core.policy.model import Operation, Policy

_OUT_OF_TIME = frozenset({"total_timeout", "first_byte_timeout", "connect_timeout", "write_timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """`asked` is the request of the page that is out now; `step` is what led to it, None for a first page."""

    first: FrozenRequest
    operation: Operation
    bound: WalkBound
    args: JsonObject  # of a first page, as sent
    progress: Progress
    before: Progress  # as it was when this call began
    asked: FrozenRequest
    step: Step | None
    sent: int = 1  # requests of this call
    ms: int = 0  # of this call
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """The next page, and the walk once it is asked for. `begins_anew` drops what was read so far."""

    walk: Walk
    begins_anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """The walk ends. `step` leads to the page that was not read; `counted` tells that this page's rows belong to it."""

    walk: Walk
    cause: Cause
    step: Step | None = None
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The first request of all had no usable answer: it stands for itself."""


Move: TypeAlias = On | Over | Plain


def begun(frozen: FrozenRequest, kept: Kept | None, *, now_ms: int) -> Walk:
    """The walk before the first page of this call was sent. Raises ValueError for what is no walk."""
    if frozen.declared is None or frozen.walk is None:
        raise ValueError("a walk is of a declared operation, and bounded")
    progress = Progress(began_at_ms=now_ms) if kept is None else kept.progress
    marks = ([url_mark(frozen)] if is_by_url(frozen.declared) else []) + ([] if kept is None else [kept.step.mark])
    return Walk(
        first=frozen,
        operation=frozen.declared,
        bound=frozen.walk,
        args=first_args(frozen.declared, frozen.args if kept is None else kept.args),
        progress=progress.asking(*marks) if marks else progress,
        before=progress,
        asked=frozen,
        step=None if kept is None else kept.step,
    )


def after(
    walk: Walk,
    verdict: Verdict,
    page: Page,
    *,
    is_clean: bool,
    elapsed_ms: int,
    policy: Policy,
    shield: Shield = BARE,
) -> Move:
    """What follows from a page. `is_clean` tells that all its rows may be given out."""
    walk = replace(walk, ms=elapsed_ms)
    closed = _closed(walk, page)
    if closed is not None:
        return closed
    if not _is_usable(verdict):
        return _after_refusal(walk, verdict)
    if _is_of_another_snapshot(walk, page):
        return _anew(walk, Moved())
    if not is_clean:
        return Over(walk=walk, cause=Withheld())
    passed = elapsed_ms - (walk.progress.ms - walk.before.ms)
    walk = replace(walk, progress=walk.progress.with_page(page, elapsed_ms=max(0, passed)))
    found = next_of(walk.operation, page, walk.progress.position(walk.args), shield=shield)
    if isinstance(found, Step) and page.rows is None:
        found = Astray(message="The rows of a page could not be counted.", code=IncompleteCode.MORE_PAGES_AVAILABLE)
    if not isinstance(found, Step):
        return Over(walk=walk, cause=found, counted=True)
    return _to(walk, found, policy)


def stopped(move: On, cause: Cause) -> Over:
    """The same walk, not gone on with: its next page was not sent."""
    walk = move.walk
    return Over(walk=walk, cause=cause, step=walk.step, counted=True)


def _is_usable(verdict: Verdict) -> bool:
    return verdict.category is Category.SUCCESS or (verdict.category is Category.PARTIAL and verdict.code != "accepted")


def _closed(walk: Walk, page: Page) -> Move | None:
    """A refusal that means what the operation declares of the window, or of the token, and nothing worse."""
    paging = walk.operation.pagination
    if paging is None:
        return None
    if fits(paging.end_error_when, page.view):
        return Over(walk=walk, cause=Capped())
    is_later = walk.step is not None or walk.progress.pages
    return _anew(walk, Expired()) if is_later and fits(paging.expired_when, page.view) else None


def _after_refusal(walk: Walk, verdict: Verdict) -> Move:
    if walk.step is None and not walk.progress.pages:
        return Plain()
    if verdict.category is Category.PARTIAL:
        return Over(walk=walk, cause=Unfinished())
    is_late = verdict.code in _OUT_OF_TIME and walk.ms >= walk.bound.budget.seconds * 1000
    lost = Lost(verdict=verdict, out_of_time=walk.bound.budget.seconds if is_late else None)
    return Over(walk=walk, cause=lost, step=walk.step)


def _anew(walk: Walk, cause: Cause) -> Move:
    """Once, and only where no row of the walk was given out by an earlier call."""
    paging = walk.operation.pagination
    spent = _spent(walk)
    if paging is None or not paging.restarts or walk.restarts or walk.before.pages or spent is not None:
        return Over(walk=walk, cause=cause)
    marks = [url_mark(walk.first)] if is_by_url(walk.operation) else []
    blank = Progress(began_at_ms=walk.progress.began_at_ms)
    return On(
        walk=replace(
            walk,
            progress=blank.asking(*marks) if marks else blank,
            asked=walk.first,
            step=None,
            sent=walk.sent + 1,
            restarts=1,
        ),
        begins_anew=True,
    )


def _is_of_another_snapshot(walk: Walk, page: Page) -> bool:
    seen = walk.progress.snapshots
    scope = walk.operation.scope
    return bool(seen) and scope is not None and scope.snapshot is not None and page.snapshot != seen[0]


def _to(walk: Walk, step: Step, policy: Policy) -> Move:
    spent = _spent(walk)
    if spent is not None:
        return Over(walk=walk, cause=spent, step=step, counted=True)
    page = page_of(policy, walk.first, step, previous_url=walk.asked.url)
    if isinstance(page, Astray):
        return Over(walk=walk, cause=page, counted=True)
    marks = [step.mark]
    if is_by_url(walk.operation):
        marks.insert(0, url_mark(page))
        if marks[0] in walk.progress.used:
            told = "The upstream named a page that was read already; going on would never end."
            return Over(walk=walk, cause=Astray(message=told), counted=True)
        step = replace(step, url=page.url)
    progress = walk.progress.asking(*marks)
    return On(walk=replace(walk, progress=progress, asked=page, step=step, sent=walk.sent + 1))


def _spent(walk: Walk) -> Spent | None:
    read, before = walk.progress, walk.before
    return spent_of(
        walk.bound.budget,
        pages=walk.sent,
        items=(read.rows or 0) - (before.rows or 0),
        bytes_=read.bytes - before.bytes,
        ms=walk.ms,
    )

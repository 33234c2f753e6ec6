"""How a walk ended, as the envelope tells it: category, completeness of the whole, and how one goes on.

Whatever came is kept, whatever is missing is told, and a walk that was cut can be gone on with where its next page is
known. Nothing but a declared end without any doubt is complete.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from broker.contract.reasons import Category, IncompleteCode, RemoteEffect, Retry
from broker.contract.result import Completeness, IncompleteReason
from broker.contract.wire import JsonObject
from broker.core.collect.budget import Budget
from broker.core.collect.page import reason
from broker.core.collect.paging import Astray, End
from broker.core.collect.progress import Progress, doubts_of_whole, drifted, merged_reasons
from broker.core.outcome import Verdict
from broker.core.policy.declarations import Visibility
from broker.core.policy.model import Operation
from broker.core.refusals import Refusal

_TRUNCATING = frozenset(
    {IncompleteCode.OUTPUT_TRUNCATED, IncompleteCode.RESULT_LIMIT_REACHED, IncompleteCode.TIME_BUDGET_EXCEEDED}
)
_FOLLOWED = frozenset(
    {IncompleteCode.SOURCE_UNAVAILABLE, IncompleteCode.TIME_BUDGET_EXCEEDED, IncompleteCode.SNAPSHOT_CHANGED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A part of the budget is used up, and there is a next page."""

    unit: str  # pages | items | bytes | s | requests per minute
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A later page gave no usable answer."""

    verdict: Verdict
    out_of_time: int | None = None  # the budget in seconds, where that ended it


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """A later page was refused, as the operation declares of what is not served any further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A later page was refused because its token was too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A later page is of another version of what is listed; its rows are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """What the decision was made under changed between two pages."""

    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A page came whose rows may not be given out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """The upstream accepted the request for a page and has not finished it."""


Cause: TypeAlias = End | Astray | Spent | Lost | Capped | Expired | Moved | Voided | Withheld | Unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    completeness: Completeness
    verdict: Verdict
    keeps_place: bool  # whether one can go on where it was cut


def concluded(
    operation: Operation, progress: Progress, cause: Cause, *, args: JsonObject, returned: int | None
) -> Ending:
    """`returned` is how many rows are in this answer; `progress` is of the whole walk."""
    reasons = _reasons(operation, progress, cause, args)
    keeps_place = _keeps_place(cause)
    completeness = Completeness(
        complete=not reasons,
        truncated=_is_truncated(operation, progress, reasons, returned),
        returned=returned,
        total=progress.totals[-1] if progress.totals else None,
        reasons=reasons,
        pages=progress.pages,
        items=progress.rows,
        bytes=progress.bytes,
        seconds=progress.ms / 1000,
        continuation={"kind": "none"},
        resource=(operation.scope and operation.scope.resource) or None,
        visibility=_visibility(operation),
        snapshot=progress.snapshots[0] if len(progress.snapshots) == 1 else None,
        defaults=_defaults(operation),
    )
    return Ending(completeness=completeness, verdict=_verdict(progress, cause, completeness), keeps_place=keeps_place)


def with_cursor(ending: Ending, cursor: str) -> Ending:
    """The same with the name under which the broker keeps its place."""
    wait_s = ending.verdict.retry_after_s
    continuation: JsonObject = {"kind": "next_cursor", "cursor": cursor}
    if wait_s is not None:
        continuation = {"kind": "retry_after", "cursor": cursor, "after_s": wait_s}
    return replace(ending, completeness=replace(ending.completeness, next_cursor=cursor, continuation=continuation))


def spent_of(budget: Budget, *, pages: int, items: int, bytes_: int, ms: int) -> Spent | None:
    """Which part of the budget is used up."""
    if pages >= budget.pages:
        return Spent(unit="pages", limit=budget.pages)
    if items >= budget.items:
        return Spent(unit="items", limit=budget.items)
    if bytes_ >= budget.bytes:
        return Spent(unit="bytes", limit=budget.bytes)
    return Spent(unit="s", limit=budget.seconds) if ms >= budget.seconds * 1000 else None


def _reasons(operation: Operation, progress: Progress, cause: Cause, args: JsonObject) -> tuple[IncompleteReason, ...]:
    told: tuple[IncompleteReason, ...]
    match cause:
        case End():
            told = doubts_of_whole(operation, progress, args)
        case Astray(message=message, code=code):
            told = (reason(code, message), *drifted(progress))
        case Spent(unit=unit, limit=limit):
            told = (reason(IncompleteCode.MORE_PAGES_AVAILABLE), _by_broker(unit, limit), *drifted(progress))
        case Lost(out_of_time=None):
            told = (reason(IncompleteCode.SOURCE_UNAVAILABLE, "A later page gave no usable answer."),)
        case Lost(out_of_time=limit):
            told = (reason(IncompleteCode.MORE_PAGES_AVAILABLE), _by_broker("s", limit or 0))
        case Capped():
            told = (reason(IncompleteCode.RESULT_LIMIT_REACHED),)
        case Expired():
            told = (reason(IncompleteCode.CURSOR_EXPIRED),)
        case Moved():
            told = (reason(IncompleteCode.SNAPSHOT_CHANGED),)
        case Voided():
            message = "The broker read no further: what the decision was made under has changed."
            told = (IncompleteReason(code=IncompleteCode.SOURCE_UNAVAILABLE, message=message, by="broker"),)
        case Withheld():
            message = "The broker withheld a page, for a part of the credential stands in it."
            told = (IncompleteReason(code=IncompleteCode.OUTPUT_TRUNCATED, message=message, by="broker"),)
        case Unfinished():
            told = (reason(IncompleteCode.IN_PROGRESS),)
    return merged_reasons(progress.reasons, told)


def _by_broker(unit: str, limit: int) -> IncompleteReason:
    is_time = unit == "s"
    return IncompleteReason(
        code=IncompleteCode.TIME_BUDGET_EXCEEDED if is_time else IncompleteCode.RESULT_LIMIT_REACHED,
        message="The time for the collection ran out." if is_time else "The budget of the collection is used up.",
        by="broker",
        limit=limit,
        unit=unit,
    )


def _keeps_place(cause: Cause) -> bool:
    match cause:
        case Spent():
            return True
        case Lost(verdict=verdict, out_of_time=limit):
            return limit is not None or verdict.retry in {Retry.BOUNDED, Retry.AFTER_DELAY}
        case _:
            return False


def _is_truncated(
    operation: Operation, progress: Progress, reasons: tuple[IncompleteReason, ...], returned: int | None
) -> bool:
    codes = {one.code for one in reasons}
    if codes & _TRUNCATING:
        return True
    if IncompleteCode.MORE_PAGES_AVAILABLE in codes:
        return bool(returned)
    declared = operation.completeness
    is_exact = declared is not None and not declared.estimated and len(progress.totals) == 1
    return bool(reasons) and is_exact and (progress.rows or 0) < progress.totals[0]


def _verdict(progress: Progress, cause: Cause, completeness: Completeness) -> Verdict:
    if completeness.complete:
        pages = "one page" if progress.pages == 1 else f"{progress.pages} pages"
        return Verdict(
            category=Category.SUCCESS,
            code="ok",
            retry=Retry.NEVER,
            remote_effect=RemoteEffect.NONE,
            message=f"The collection is complete: {progress.rows} rows on {pages}.",
        )
    retry, wait_s = _how_to_go_on(progress, cause, completeness)
    return Verdict(
        category=Category.PARTIAL,
        code="accepted" if isinstance(cause, Unfinished) else "incomplete",
        retry=retry,
        retry_after_s=wait_s,
        remote_effect=RemoteEffect.NONE,
        message=f"The collection is not complete: {_named(completeness)}",
    )


def _named(completeness: Completeness) -> str:
    return " ".join(one.message for one in completeness.reasons)[:250]


def _how_to_go_on(progress: Progress, cause: Cause, completeness: Completeness) -> tuple[Retry, int | None]:
    match cause:
        case Spent():
            return Retry.BOUNDED, None
        case Lost(verdict=verdict, out_of_time=limit):
            return (Retry.BOUNDED, None) if limit is not None else (verdict.retry, verdict.retry_after_s)
        case Voided(refusal=refusal):
            return (refusal.retry, None) if refusal.retry is not Retry.AFTER_DELAY else (Retry.AFTER_HUMAN, None)
        case _:
            if progress.retries:
                order = (Retry.AFTER_HUMAN, Retry.NEVER, Retry.BOUNDED)
                return next(one for one in order if one in progress.retries), None
            codes = {one.code for one in completeness.reasons}
            return (Retry.BOUNDED if codes and codes <= _FOLLOWED else Retry.NEVER), None


def _visibility(operation: Operation) -> str | None:
    declared = operation.completeness
    if declared is None:
        return None
    return "readable by this credential" if declared.visibility is Visibility.FILTERED else "full"


def _defaults(operation: Operation) -> tuple[str, ...]:
    scope = operation.scope
    if scope is None:
        return ()
    return scope.defaults if scope.default_region is None else (*scope.defaults, f"region {scope.default_region}")

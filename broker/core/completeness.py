"""Step 9: how much of what was asked for is in an answer. Silence never means complete.

A list without a declared end is unverified. Everything that speaks against it is told, each with who cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from broker.contract.reasons import Category, IncompleteCode, Retry
from broker.contract.result import Completeness, IncompleteReason
from broker.contract.wire import JsonObject
from broker.core.classify.batch import accounts_of
from broker.core.classify.case import Case
from broker.core.outcome import Verdict
from broker.core.paging import (
    NextPage,
    begins_the_list,
    cut_size,
    next_page,
    on_same_origin,
    rows_of,
    total_of,
    total_told,
)
from broker.core.policy.declarations import CompletenessDecl, PagingKind, Visibility
from broker.core.policy.places import at
from broker.core.predicate import holds

_PARTIAL_CONTENT = 206
_TIMEOUTS = frozenset({"write_timeout", "first_byte_timeout", "total_timeout"})
_SOURCELESS = frozenset({Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE})
_CUT = frozenset(
    {
        IncompleteCode.MORE_PAGES_AVAILABLE,
        IncompleteCode.RESULT_LIMIT_REACHED,
        IncompleteCode.TIME_BUDGET_EXCEEDED,
        IncompleteCode.OUTPUT_TRUNCATED,
    }
)
_EXISTS = frozenset({IncompleteCode.COMPLETENESS_UNVERIFIED, IncompleteCode.MORE_PAGES_AVAILABLE})
_AGAIN = frozenset(  # what asking again, or going on, may mend
    {
        IncompleteCode.MORE_PAGES_AVAILABLE,
        IncompleteCode.TIME_BUDGET_EXCEEDED,
        IncompleteCode.SOURCE_UNAVAILABLE,
        IncompleteCode.SNAPSHOT_CHANGED,
        IncompleteCode.CURSOR_EXPIRED,
        IncompleteCode.ITEM_FAILURES,
    }
)
_PROVIDER = {
    IncompleteCode.COMPLETENESS_UNVERIFIED: "Nothing declared tells whether this is everything.",
    IncompleteCode.MORE_PAGES_AVAILABLE: "The upstream says that there is more.",
    IncompleteCode.OUTPUT_TRUNCATED: "The upstream gave a part of what was asked for.",
    IncompleteCode.SOURCE_UNAVAILABLE: "The upstream, or a part of it, gave no usable answer.",
    IncompleteCode.IN_PROGRESS: "The upstream has not finished the work.",
    IncompleteCode.RESULT_LIMIT_REACHED: "The upstream serves no more rows of this than it gave.",
    IncompleteCode.TIME_BUDGET_EXCEEDED: "The upstream ran out of the time that it allows.",
    IncompleteCode.VISIBILITY_RESTRICTED: "The upstream may hold more than it shows to this credential.",
    IncompleteCode.ITEM_FAILURES: "Some of the items were not done.",
    IncompleteCode.CURSOR_EXPIRED: "The token for the next page is too old; the list has to be read anew.",
    IncompleteCode.SNAPSHOT_CHANGED: "The list changed while it was read.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """One reason, and what may be done about it."""

    reason: IncompleteReason
    retry: Retry
    cut: bool = False  # a declared sign says that more exists

    @property
    def code(self) -> IncompleteCode:
        return self.reason.code


def lack(code: IncompleteCode, retry: Retry | None = None, message: str | None = None) -> Lack:
    reason = IncompleteReason(code=code, message=message or _PROVIDER[code], by="provider")
    return Lack(reason=reason, retry=retry or (Retry.BOUNDED if code in _AGAIN else Retry.NEVER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """`retry` is what may be done where a usable answer is incomplete."""

    completeness: Completeness
    retry: Retry = Retry.NEVER


def assess(case: Case, verdict: Verdict) -> Assessment | None:
    """None where the result is a single whole thing, or where nothing can be said of a list that failed."""
    if verdict.category is Category.SUCCESS:
        return _of_success(case)
    declared = _declared_lacks(case, verdict)
    if declared:
        return _incomplete(case, declared)
    if verdict.category is Category.PARTIAL:
        return _of_partial(case, verdict)
    reason = _of_failure(case, verdict) if is_list(case) else None
    return None if reason is None else _incomplete(case, (Lack(reason=reason, retry=verdict.retry),))


def is_list(case: Case) -> bool:
    """Whether the request asks for several things, by its name or declaration, or the answer holds a row of them."""
    if case.is_write or case.frozen.method == "HEAD":
        return False
    named = case.frozen.operation.endswith((".list", ".search"))
    return _declares_list(case) or named or isinstance(case.reading.json, list)


def _declares_list(case: Case) -> bool:
    declared = _declaration(case)
    if case.declared is not None and case.declared.pagination is not None:
        return True
    return declared is not None and (
        declared.complete_when is not None or declared.items is not None or declared.total is not None
    )


def _declaration(case: Case) -> CompletenessDecl | None:
    return None if case.declared is None else case.declared.completeness


def next_of(case: Case) -> NextPage:
    """What the answer says of the page after it."""
    paging = None if case.declared is None else case.declared.pagination
    return next_page(paging, _declaration(case), case.frozen, case.view, case.raw.headers)


def _of_success(case: Case) -> Assessment | None:
    if case.status == _PARTIAL_CONTENT:
        return _incomplete(case, (lack(IncompleteCode.OUTPUT_TRUNCATED),))
    found = (*_told(case), *_left_undone(case))
    if not is_list(case):
        return _incomplete(case, found) if found else _of_single(case)
    page = next_of(case)
    found = (*_more(page), *found, *_bounds(case))
    unproven = _unproven(case, page)
    if unproven is not None and (not found or _is_undeclared(case)):
        found = (*found, unproven)
    return _incomplete(case, found, page=page) if found else _whole(case)


def _is_undeclared(case: Case) -> bool:
    return not _declares_list(case)


def _told(case: Case) -> Iterator[Lack]:
    """Every declared sign that the answer shows."""
    declared = _declaration(case)
    for rule in () if declared is None else declared.incomplete_when:
        if holds(rule.when, case.view) is not False:  # what can't be evaluated has not been ruled out
            yield replace(lack(rule.code, rule.retry), cut=rule.code in _EXISTS)


def _left_undone(case: Case) -> Iterator[Lack]:
    accounts = accounts_of(case)
    if accounts is not None and accounts.left_over and not case.is_write:
        yield lack(IncompleteCode.MORE_PAGES_AVAILABLE, message="The upstream left a part of the request undone.")


def _more(page: NextPage) -> Iterator[Lack]:
    if page.more:
        yield lack(IncompleteCode.MORE_PAGES_AVAILABLE, None if page.cursor is not None else Retry.NEVER)


def _bounds(case: Case) -> Iterator[Lack]:
    """What the declaration says of the list as a whole, whatever the answer looks like."""
    declared = _declaration(case)
    if declared is None:
        return
    total = total_told(declared, case.view)
    if declared.cap is not None and total is not None and total > declared.cap:
        reason = IncompleteReason(
            code=IncompleteCode.RESULT_LIMIT_REACHED,
            message="The upstream holds more rows than it serves of one list.",
            by="provider",
            limit=declared.cap,
            unit="items",
        )
        yield Lack(reason=reason, retry=Retry.NEVER)
    size = None if case.declared is None else cut_size(case.declared, case.frozen.args)
    rows = rows_of(declared, case.view)
    if declared.full_page_means_cut and (rows is None or size is None or len(rows) >= size):
        message = "The answer holds as many rows as were asked for; there may be more."
        yield lack(IncompleteCode.RESULT_LIMIT_REACHED, Retry.BOUNDED, message)
    if declared.visibility is Visibility.FILTERED:
        yield lack(IncompleteCode.VISIBILITY_RESTRICTED)
    if declared.never_provable:
        yield lack(IncompleteCode.COMPLETENESS_UNVERIFIED, message="No answer of this kind proves to be everything.")


def _unproven(case: Case, page: NextPage) -> Lack | None:
    """What is missing from a proof that nothing is missing; None where the proof is there, or more is known to come."""
    declared, paging = _declaration(case), None if case.declared is None else case.declared.pagination
    when = None if declared is None else declared.complete_when
    rows, total = rows_of(declared, case.view), total_of(declared, case.view)
    if page.more:
        return lack(IncompleteCode.COMPLETENESS_UNVERIFIED) if _is_undeclared(case) else None
    ended = (paging is not None and page.more is False) or (
        paging is None and total is not None and rows is not None and len(rows) >= total
    )
    proven = ended if when is None else (holds(when, case.view) is True and (paging is None or ended))
    if not proven:
        return replace(lack(IncompleteCode.COMPLETENESS_UNVERIFIED), cut=when is not None and bool(rows))
    if not begins_the_list(paging, case.frozen, case.raw.headers):
        return lack(
            IncompleteCode.COMPLETENESS_UNVERIFIED, message="This is the end of a list, without what is before."
        )
    is_one_page = paging is None or paging.kind is not PagingKind.OFFSET
    if is_one_page and total is not None and (rows is None or len(rows) < total):
        return lack(
            IncompleteCode.COMPLETENESS_UNVERIFIED, message="The answer holds fewer rows than it says there are."
        )
    return None


def _of_single(case: Case) -> Assessment | None:
    """A body that only the end of the connection delimits may have been cut; whole JSON proves itself."""
    if case.is_write or case.raw.body_provable or case.reading.has_json or not case.raw.body:
        return None
    return _incomplete(case, (lack(IncompleteCode.COMPLETENESS_UNVERIFIED),))


def _declared_lacks(case: Case, verdict: Verdict) -> tuple[Lack, ...]:
    """What a rule that decided says is missing, and what a status that hides things leaves open."""
    if case.is_write or case.declared is None:
        return ()
    if verdict.missing:
        return tuple(lack(code, verdict.retry) for code in verdict.missing)
    if case.status in case.declared.auth.masked_statuses:
        return (lack(IncompleteCode.VISIBILITY_RESTRICTED, verdict.retry),)
    return ()


def _of_partial(case: Case, verdict: Verdict) -> Assessment:
    if verdict.code == "accepted":
        found = _incomplete(case, (lack(IncompleteCode.IN_PROGRESS),))
        continuation: dict[str, int | str] = {"kind": "retry_after"}
        if verdict.retry_after_s is not None:
            continuation["after_s"] = verdict.retry_after_s
        told = case.declared.asynchronous.poll if case.declared is not None and case.declared.asynchronous else ()
        targets = [target for place in told if isinstance(target := at(case.view, place), str) and target]
        cursor = on_same_origin(case.frozen.url, targets[0]) if targets else None
        completeness = replace(found.completeness, continuation=dict(continuation), next_cursor=cursor)
        return replace(found, completeness=completeness)
    code = IncompleteCode.ITEM_FAILURES if verdict.code == "item_failures" else IncompleteCode.COMPLETENESS_UNVERIFIED
    return _incomplete(case, (lack(code, verdict.retry),))


def _of_failure(case: Case, verdict: Verdict) -> IncompleteReason | None:
    if verdict.category is Category.OUTCOME_UNKNOWN and verdict.code in _TIMEOUTS:
        return IncompleteReason(
            code=IncompleteCode.TIME_BUDGET_EXCEEDED,
            message="The time for the call ran out.",
            by="broker",
            limit=round(case.frozen.deadlines.total_s),
            unit="s",
        )
    if verdict.category is Category.MALFORMED_RESPONSE and verdict.code == "too_large":
        return IncompleteReason(
            code=IncompleteCode.OUTPUT_TRUNCATED,
            message="The answer is larger than the limit of this operation.",
            by="broker",
            limit=len(case.raw.body),
            unit="bytes",
        )
    if verdict.category is Category.MALFORMED_RESPONSE and verdict.code == "truncated":
        return lack(IncompleteCode.OUTPUT_TRUNCATED).reason
    if verdict.category in _SOURCELESS or verdict.code == "remote_error":
        return lack(IncompleteCode.SOURCE_UNAVAILABLE).reason
    return None


def _whole(case: Case) -> Assessment:
    return Assessment(completeness=replace(_counted(case), complete=True))


def _incomplete(case: Case, found: tuple[Lack, ...], *, page: NextPage | None = None) -> Assessment:
    by_code = {one.code: one for one in reversed(found)}
    lacks = tuple(by_code[code] for code in dict.fromkeys(one.code for one in found))
    cursor = None if page is None else page.cursor
    is_empty = rows_of(_declaration(case), case.view) == ()
    sure = _CUT - {IncompleteCode.MORE_PAGES_AVAILABLE} if is_empty else _CUT  # a page of none may be followed by none
    completeness = _counted(
        case,
        reasons=tuple(one.reason for one in lacks),
        truncated=any(one.cut or one.code in sure for one in found),
        cursor=cursor,
        continuation=_continuation(cursor, lacks),
    )
    retries = {one.retry for one in found}
    retry = next((one for one in (Retry.BOUNDED, Retry.AFTER_HUMAN) if one in retries), Retry.NEVER)
    return Assessment(completeness=completeness, retry=retry)


def _continuation(cursor: str | None, lacks: tuple[Lack, ...]) -> JsonObject:
    codes = {one.code: one.retry for one in lacks}
    if cursor is not None:
        return {"kind": "next_cursor"}
    if codes.get(IncompleteCode.RESULT_LIMIT_REACHED) is Retry.NEVER:
        return {"kind": "narrow_query"}
    return {"kind": "retry_with_deadline" if IncompleteCode.TIME_BUDGET_EXCEEDED in codes else "none"}


def _counted(
    case: Case,
    *,
    reasons: tuple[IncompleteReason, ...] = (),
    truncated: bool = False,
    cursor: str | None = None,
    continuation: JsonObject | None = None,
) -> Completeness:
    declared, scope = _declaration(case), None if case.declared is None else case.declared.scope
    rows = rows_of(declared, case.view)
    returned = None if rows is None else len(rows)
    snapshot = None if scope is None or scope.snapshot is None else at(case.view, scope.snapshot)
    return Completeness(
        complete=not reasons,
        truncated=truncated,
        returned=returned,
        total=total_told(declared, case.view),
        reasons=reasons,
        items=returned,
        bytes=case.raw.body_bytes,
        seconds=case.raw.elapsed_ms / 1000,
        next_cursor=cursor,
        continuation=continuation or {"kind": "none"},
        resource=None if scope is None else scope.resource or None,
        visibility=None if declared is None else _VISIBILITY[declared.visibility],
        snapshot=str(snapshot) if isinstance(snapshot, str | int) and not isinstance(snapshot, bool) else None,
        defaults=() if scope is None else _defaults(scope.default_region, scope.defaults),
    )


def _defaults(region: str | None, told: tuple[str, ...]) -> tuple[str, ...]:
    return told if region is None else (f"region {region}", *told)


_VISIBILITY = {
    Visibility.FULL: "all that the upstream holds of it",
    Visibility.FILTERED: "what this credential may see",
}

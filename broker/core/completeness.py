"""Step 9: how much of what was asked for is in an answer. Silence never means complete.

A list without a declared end is unverified. A link to a next page makes it incomplete in any case, and is handed on
only if it stays on the same origin.
"""

import re
from collections.abc import Mapping
from urllib.parse import urljoin

from broker.contract.reasons import Category, IncompleteCode
from broker.contract.result import Completeness, IncompleteReason
from broker.contract.wire import JsonObject, JsonValue
from broker.core.classify.case import Case
from broker.core.outcome import Verdict
from broker.core.predicate import holds
from broker.core.urls import canonical_url

_LINK = re.compile(r"<([^<>\s]*)>([^<]*)")
_NEXT = re.compile(r""";\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next(?=[\s;,]|$))""", re.IGNORECASE)
_PARTIAL_CONTENT = 206
_TIMEOUTS = frozenset({"write_timeout", "first_byte_timeout", "total_timeout"})
_SOURCELESS = frozenset({Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE})

_PROVIDER = {
    IncompleteCode.COMPLETENESS_UNVERIFIED: "Nothing declared tells whether this is everything.",
    IncompleteCode.MORE_PAGES_AVAILABLE: "The upstream says that there is a next page.",
    IncompleteCode.OUTPUT_TRUNCATED: "The upstream gave a part of what was asked for.",
    IncompleteCode.SOURCE_UNAVAILABLE: "The upstream gave no usable answer.",
    IncompleteCode.IN_PROGRESS: "The upstream has not finished the work.",
}


def assess(case: Case, verdict: Verdict) -> Completeness | None:
    """None where the result is a single whole thing, or where nothing can be said of a list that failed."""
    if verdict.category is Category.SUCCESS:
        return _of_success(case)
    if verdict.category is Category.PARTIAL:
        accepted = verdict.code == "accepted"
        code = IncompleteCode.IN_PROGRESS if accepted else IncompleteCode.COMPLETENESS_UNVERIFIED
        return _incomplete(case, (_by_provider(code),))
    reason = _of_failure(case, verdict) if is_list(case) else None
    return None if reason is None else _incomplete(case, (reason,))


def is_list(case: Case) -> bool:
    """Whether the request asks for several things, by its name or declaration, or the answer holds a row of them."""
    if case.is_write or case.frozen.method == "HEAD":
        return False
    declared = case.declared is not None and case.declared.complete_when is not None
    named = case.frozen.operation.endswith((".list", ".search"))
    return declared or named or isinstance(case.reading.json, list)


def next_page(case: Case) -> tuple[bool, str | None]:
    """Whether a Link header names a next page, and its URL where it stays on the same origin."""
    for name, value in case.raw.headers:
        if name != "link":
            continue
        for target, parameters in _LINK.findall(value):
            if _NEXT.search(parameters):
                return True, _on_same_origin(case.frozen.url, target)
    return False, None


def _of_success(case: Case) -> Completeness | None:
    if case.status == _PARTIAL_CONTENT:
        return _incomplete(case, (_by_provider(IncompleteCode.OUTPUT_TRUNCATED),))
    if not is_list(case):
        return _of_single(case)
    has_next, url = next_page(case)
    when = None if case.declared is None else case.declared.complete_when
    if when is not None and not has_next and holds(when, case.view) is True:
        returned = _count(case.reading.json)
        return Completeness(
            complete=True, returned=returned, items=returned, bytes=len(case.raw.body), seconds=_seconds(case)
        )
    codes = [IncompleteCode.MORE_PAGES_AVAILABLE] if has_next else []
    if when is None or not has_next:
        codes.append(IncompleteCode.COMPLETENESS_UNVERIFIED)
    return _incomplete(case, tuple(_by_provider(code) for code in codes), next_cursor=url)


def _of_single(case: Case) -> Completeness | None:
    """A body that only the end of the connection delimits may have been cut; whole JSON proves itself."""
    if case.is_write or case.raw.body_provable or case.reading.has_json or not case.raw.body:
        return None
    return _incomplete(case, (_by_provider(IncompleteCode.COMPLETENESS_UNVERIFIED),))


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
        return _by_provider(IncompleteCode.OUTPUT_TRUNCATED)
    if verdict.category in _SOURCELESS or verdict.code == "remote_error":
        return _by_provider(IncompleteCode.SOURCE_UNAVAILABLE)
    return None


def _by_provider(code: IncompleteCode) -> IncompleteReason:
    return IncompleteReason(code=code, message=_PROVIDER[code], by="provider")


def _incomplete(case: Case, reasons: tuple[IncompleteReason, ...], *, next_cursor: str | None = None) -> Completeness:
    returned = _count(case.reading.json)
    continuation: JsonObject = {"kind": "none" if next_cursor is None else "next_cursor"}
    return Completeness(
        complete=False,
        truncated=any(reason.code is IncompleteCode.OUTPUT_TRUNCATED for reason in reasons),
        returned=returned,
        reasons=reasons,
        items=returned,
        bytes=len(case.raw.body),
        seconds=_seconds(case),
        next_cursor=next_cursor,
        continuation=continuation,
    )


def _count(value: JsonValue) -> int | None:
    """Rows of a list, or of the one list that an object holds; None where that is not clear."""
    if isinstance(value, list):
        return len(value)
    if isinstance(value, Mapping):
        rows = [item for item in value.values() if isinstance(item, list)]
        return len(rows[0]) if len(rows) == 1 else None
    return None


def _seconds(case: Case) -> float:
    return case.raw.elapsed_ms / 1000


def _on_same_origin(base: str, target: str) -> str | None:
    """The canonical URL of a link, None where it leads elsewhere or can be read in two ways."""
    try:
        url = canonical_url(urljoin(base, target))
        return url.url if url.origin == canonical_url(base).origin else None
    except ValueError:
        return None

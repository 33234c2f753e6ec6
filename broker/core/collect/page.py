"""One page as a walk looks at it: its rows and their ids, what it says of the whole, and what it lacks.

Reads the answer as it was received, so nothing of it may leave; what leaves is taken from the scrubbed one.
"""

from dataclasses import dataclass

from broker.contract.reasons import Category, IncompleteCode, Retry, WarningCode
from broker.contract.result import Completeness, IncompleteReason, Warn
from broker.contract.wire import JsonObject, JsonValue
from broker.core.classify.reading import Reading, read_body
from broker.core.evidence import id_text
from broker.core.frozen import FrozenRequest
from broker.core.outcome import RawOutcome
from broker.core.paging import rows_of, whole_number
from broker.core.policy.declarations import Consistency, Visibility
from broker.core.policy.model import Operation
from broker.core.policy.places import at
from broker.core.predicate import AnswerView, Predicate, answer_view, holds
from broker.core.xml_tree import XmlError, tree_of

_MESSAGES = {
    IncompleteCode.MORE_PAGES_AVAILABLE: "The upstream says that there is more.",
    IncompleteCode.RESULT_LIMIT_REACHED: "The upstream serves no more than this of a result.",
    IncompleteCode.TIME_BUDGET_EXCEEDED: "The upstream's time for the answer ran out.",
    IncompleteCode.SOURCE_UNAVAILABLE: "A source of the upstream's gave nothing.",
    IncompleteCode.VISIBILITY_RESTRICTED: "The upstream shows this credential a part.",
    IncompleteCode.ITEM_FAILURES: "The upstream failed for single items.",
    IncompleteCode.OUTPUT_TRUNCATED: "The upstream gave a part of what was asked for.",
    IncompleteCode.CURSOR_EXPIRED: "The upstream's token is too old.",
    IncompleteCode.SNAPSHOT_CHANGED: "What is listed changed while it was read.",
    IncompleteCode.COMPLETENESS_UNVERIFIED: "Nothing declared tells whether this is everything.",
    IncompleteCode.IN_PROGRESS: "The upstream has not finished the work.",
}
_OF_THE_WALK = frozenset(
    {
        IncompleteCode.MORE_PAGES_AVAILABLE,
        IncompleteCode.COMPLETENESS_UNVERIFIED,
        IncompleteCode.RESULT_LIMIT_REACHED,
        IncompleteCode.SNAPSHOT_CHANGED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`rows` is None where no list could be found; `ids` has one for each row, None where a row has none."""

    view: AnswerView
    rows: tuple[JsonValue, ...] | None
    ids: tuple[str | None, ...]
    total: int | None
    snapshot: str | None
    bytes: int
    reasons: tuple[IncompleteReason, ...]
    retry: Retry | None  # the least hopeful that a sign of something missing declares
    warnings: tuple[Warn, ...]


def read_page(
    operation: Operation, frozen: FrozenRequest, raw: RawOutcome, assessed: Completeness | None = None
) -> Page:
    """What a page of the operation says. The verdict on it was made elsewhere.

    `assessed` is how whole the page is by itself: what of that concerns the page alone is said of the walk too.
    """
    view = view_of(read_body(raw, method=frozen.method), raw)
    completeness, scope = operation.completeness, operation.scope
    rows = rows_of(completeness, view)
    reasons, retry = _missing(operation, view)
    return Page(
        view=view,
        rows=rows,
        ids=_ids(rows or (), None if completeness is None else completeness.id),
        total=whole_number(at(view, completeness.total)) if completeness and completeness.total else None,
        snapshot=id_text(at(view, scope.snapshot)) if scope is not None and scope.snapshot is not None else None,
        bytes=len(raw.body),
        reasons=(*reasons, *_of_itself(assessed, reasons)),
        retry=retry,
        warnings=_warnings(operation, view),
    )


def view_of(reading: Reading, raw: RawOutcome) -> AnswerView:
    xml: JsonValue = None
    if reading.media is not None and reading.media.endswith("xml") and reading.text is not None:
        xml = tree_or_none(reading.text)
    return answer_view(status=raw.status or 0, headers=raw.headers, json=reading.json, text=reading.text, xml=xml)


def tree_or_none(text: str) -> JsonObject | None:
    try:
        return tree_of(text)
    except XmlError:
        return None


def reason(code: IncompleteCode, message: str | None = None, *, limit: int | None = None) -> IncompleteReason:
    """A reason for which the upstream stands."""
    return IncompleteReason(code=code, message=message or _MESSAGES[code], by="provider", limit=limit)


def fits(predicate: Predicate | None, view: AnswerView) -> bool:
    return predicate is not None and holds(predicate, view) is True


def _missing(declared: Operation, view: AnswerView) -> tuple[tuple[IncompleteReason, ...], Retry | None]:
    """All signs of something missing, and how one goes on at the worst of them."""
    codes: list[IncompleteCode] = []
    retries: list[Retry] = []
    decided = next((rule for rule in declared.errors if fits(rule.when, view)), None)
    if decided is not None:  # of the answers that are usable, it speaks of incomplete ones
        if decided.category is Category.PARTIAL:
            codes += decided.reasons or (IncompleteCode.COMPLETENESS_UNVERIFIED,)
        retries += [] if decided.retry is None else [decided.retry]
    completeness = declared.completeness
    if completeness is not None:
        for rule in completeness.incomplete_when:
            if holds(rule.when, view) is not False:  # what can't be told is not taken for a good sign
                codes.append(rule.code if fits(rule.when, view) else IncompleteCode.COMPLETENESS_UNVERIFIED)
                retries += [] if rule.retry is None else [rule.retry]
        if completeness.visibility is Visibility.FILTERED:
            codes.append(IncompleteCode.VISIBILITY_RESTRICTED)
        if completeness.never_provable:
            codes.append(IncompleteCode.COMPLETENESS_UNVERIFIED)
    order = (Retry.AFTER_HUMAN, Retry.NEVER, Retry.BOUNDED)
    worst = next((retry for retry in order if retry in retries), None)
    return tuple(reason(code) for code in dict.fromkeys(codes)), worst


def _of_itself(assessed: Completeness | None, known: tuple[IncompleteReason, ...]) -> tuple[IncompleteReason, ...]:
    """What a page lacks by itself; how the walk goes on from it, and whether it is the last, the walk knows better."""
    told = () if assessed is None else assessed.reasons
    codes = _OF_THE_WALK | {one.code for one in known}
    return tuple(one for one in told if one.code not in codes)


def _ids(rows: tuple[JsonValue, ...], place: str | None) -> tuple[str | None, ...]:
    return () if place is None else tuple(id_text(at(row, place)) for row in rows)


def _warnings(declared: Operation, view: AnswerView) -> tuple[Warn, ...]:
    found: list[Warn] = []
    completeness, scope = declared.completeness, declared.scope
    if completeness is not None:
        age = whole_number(at(view, "headers.age"))
        is_old = completeness.max_age_s is not None and age is not None and age > completeness.max_age_s
        if completeness.consistency is Consistency.EVENTUAL or is_old:
            found.append(Warn(code=WarningCode.STALE_INDEX, message="What is listed may lag behind what is there."))
        if completeness.estimated:
            found.append(Warn(code=WarningCode.COUNT_ESTIMATED, message="The upstream's total is an estimate."))
    if scope is not None and (scope.defaults or scope.default_region is not None):
        message = "The upstream leaves out by itself what the operation's scope says."
        found.append(Warn(code=WarningCode.DEFAULT_SCOPE_APPLIED, message=message))
    found += [
        Warn(code=rule.code, message="The operation declares this of such answers.")
        for rule in declared.warnings
        if fits(rule.when, view)
    ]
    return tuple(found)

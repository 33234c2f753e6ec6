"""One answer out of many pages: the rows that may leave, under the last usable head, with what is known of the whole.

Made of scrubbed pages alone. The rows stand as a JSON list, whatever the pages' own form was.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from broker.contract.reasons import Category, ScrubState
from broker.contract.result import HttpAnswer, ScrubReport, Warn
from broker.contract.wire import JsonValue
from broker.core.collect.ending import Ending
from broker.core.collect.page import Page, tree_or_none
from broker.core.continuation import Shield
from broker.core.outcome import Scrubbed
from broker.core.paging import rows_of
from broker.core.policy.model import Operation

_OF_ONE_PAGE = frozenset({"content-length", "link"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What of the pages may leave. `head` is the last usable page's answer."""

    rows: tuple[JsonValue, ...] = ()
    head: HttpAnswer | None = None
    whole: bool = False  # the head's own body is the answer: its rows could not be told apart
    warnings: tuple[Warn, ...] = ()
    reports: tuple[ScrubReport, ...] = ()

    def seen(self, scrubbed: Scrubbed) -> "Gathered":
        known = {warning.code for warning in self.warnings}
        more = tuple(warning for warning in scrubbed.warnings if warning.code not in known)
        return replace(self, warnings=(*self.warnings, *more), reports=(*self.reports, scrubbed.report))

    def with_page(self, scrubbed: Scrubbed, rows: tuple[JsonValue, ...] | None) -> "Gathered":
        if rows is None:
            return replace(self, head=scrubbed.answer, whole=not self.rows)
        return replace(self, rows=(*self.rows, *rows), head=scrubbed.answer)

    def anew(self) -> "Gathered":
        return Gathered(warnings=self.warnings, reports=self.reports)


def clean_rows(scrubbed: Scrubbed, operation: Operation) -> tuple[JsonValue, ...] | None:
    """The rows of a scrubbed page, read again; None where it has none that can be told apart."""
    answer = scrubbed.answer
    if answer is None:
        return None
    xml = tree_or_none(answer.body) if answer.body is not None else None
    return rows_of(operation.completeness, {"json": answer.body_json, "xml": xml})


def without_values(page: Page, shield: Shield) -> Page:
    """The page with no id and no version that holds a part of the credential: as if there was none."""

    def kept(text: str | None) -> str | None:
        return None if text is None or shield.is_told_in(text) else text

    return replace(page, ids=tuple(kept(one) for one in page.ids), snapshot=kept(page.snapshot))


def merged(last: Scrubbed, gathered: Gathered, ending: Ending, warnings: Iterable[Warn]) -> Scrubbed:
    """The outcome of the walk, by the scrubbed outcome of its last page."""
    said = {warning.code for warning in gathered.warnings}
    return replace(
        last,
        verdict=ending.verdict,
        answer=_answer(last, gathered, ending),
        completeness=ending.completeness,
        warnings=(*gathered.warnings, *(one for one in warnings if one.code not in said)),
        report=_worst(gathered.reports),
        diagnosis=None if ending.verdict.category is Category.SUCCESS else last.diagnosis,
    )


def _answer(last: Scrubbed, gathered: Gathered, ending: Ending) -> HttpAnswer | None:
    head = gathered.head or last.answer
    if head is None or gathered.whole:
        return head
    return replace(
        head,
        headers={name: value for name, value in head.headers.items() if name not in _OF_ONE_PAGE},
        media_type="application/json",
        body=None,
        body_b64=None,
        body_json=list(gathered.rows),
        has_json=True,
        body_bytes=ending.completeness.bytes,
    )


def _worst(reports: tuple[ScrubReport, ...]) -> ScrubReport:
    order = (ScrubState.NOT_POSSIBLE, ScrubState.DONE, ScrubState.NOT_NEEDED)
    ranked = sorted(reports, key=lambda one: (order.index(one.state), one.reason is None))
    return ranked[0] if ranked else ScrubReport()

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, IncompleteCode, RemoteEffect, Retry
from broker.contract.result import Completeness
from broker.core.outcome import Fault, Phase
from broker.core.policy.declarations import CompletenessDecl
from broker.core.predicate import compile_predicate
from tests.fakes.answers import JSON, READ, WRITE, answer, classified, cut, lost
from tests.fakes.https_calls import frozen, operation

ROWS = b'[{"id": 1}, {"id": 2}]'
NEXT = ("link", '<https://api.example.com/things?page=9>; rel="prev", </things?page=2>; rel="next"')
LIST = frozen(declared=operation("things.list"))
DECLARED = frozen(
    declared=replace(
        operation("things.get"), completeness=CompletenessDecl(complete_when=compile_predicate("json.last == `true`"))
    )
)


def codes(completeness: Completeness | None) -> list[IncompleteCode] | None:
    return None if completeness is None else [reason.code for reason in completeness.reasons]


def test_a_row_of_things_without_a_declared_end_is_unverified() -> None:
    seen = classified(READ, answer(200, ROWS))

    assert (Category.PARTIAL, "incomplete", Retry.NEVER, RemoteEffect.NONE) == (
        seen.verdict.category,
        seen.verdict.code,
        seen.verdict.retry,
        seen.verdict.remote_effect,
    )
    assert [IncompleteCode.COMPLETENESS_UNVERIFIED] == codes(seen.completeness)
    assert seen.completeness is not None
    assert (False, 2, 2, len(ROWS), 1.5) == (
        seen.completeness.complete,
        seen.completeness.returned,
        seen.completeness.items,
        seen.completeness.bytes,
        seen.completeness.seconds,
    )


@pytest.mark.parametrize("name", ["things.list", "things.search"])
def test_an_operation_that_lists_by_its_name_is_a_list_whatever_it_answers(name: str) -> None:
    seen = classified(frozen(declared=operation(name)), answer(200, b'{"items": [1]}'))

    assert [IncompleteCode.COMPLETENESS_UNVERIFIED] == codes(seen.completeness)
    assert seen.completeness is not None
    assert 1 == seen.completeness.returned


@pytest.mark.parametrize(
    ("body", "returned"),
    [(b'{"items": [1, 2, 3], "n": 3}', 3), (b'{"a": [], "b": []}', None), (b'{"n": 1}', None), (b"7", None)],
)
def test_rows_are_counted_where_it_is_clear_which_they_are(body: bytes, returned: int | None) -> None:
    completeness = classified(LIST, answer(200, body)).completeness

    assert completeness is not None
    assert returned == completeness.returned


def test_a_link_to_a_next_page_is_the_way_to_go_on() -> None:
    seen = classified(READ, answer(200, ROWS, JSON, NEXT))

    assert (Category.PARTIAL, Retry.BOUNDED) == (seen.verdict.category, seen.verdict.retry)
    assert [IncompleteCode.MORE_PAGES_AVAILABLE, IncompleteCode.COMPLETENESS_UNVERIFIED] == codes(seen.completeness)
    assert seen.completeness is not None
    assert "https://api.example.com/things?page=2" == seen.completeness.next_cursor
    assert {"kind": "next_cursor"} == seen.completeness.continuation


@pytest.mark.parametrize(
    "link",
    [
        "<https://other.example.com/things?page=2>; rel=next",
        "<http://api.example.com/things?page=2>; rel=next",
        "<https://api.example.com:8443/things>; rel=next",
        "<https://user@api.example.com/things>; rel=next",
        "<https://[broken/things>; rel=next",
        "</a//b>; rel=next",
    ],
)
def test_a_next_page_elsewhere_is_told_of_and_not_handed_on(link: str) -> None:
    seen = classified(READ, answer(200, ROWS, JSON, ("link", link)))

    assert Retry.NEVER is seen.verdict.retry
    assert seen.completeness is not None
    assert IncompleteCode.MORE_PAGES_AVAILABLE in (codes(seen.completeness) or [])
    assert (None, {"kind": "none"}) == (seen.completeness.next_cursor, seen.completeness.continuation)


@pytest.mark.parametrize(
    ("link", "has_next"),
    [
        ('</p>; rel="next"', True),
        ("</p>; rel=next", True),
        ('</p>; title="x"; rel="last next"', True),
        ('</p>; REL="NEXT"', True),
        ('</a>; rel="prev", </p>; rel="next"', True),
        ('</p>; rel="nextish"', False),
        ("</p>; rel=prev", False),
        ("</p>", False),
        ("rel=next", False),
    ],
)
def test_which_links_name_a_next_page(link: str, has_next: bool) -> None:  # noqa: FBT001
    found = codes(classified(READ, answer(200, ROWS, JSON, ("link", link))).completeness) or []

    assert has_next is (IncompleteCode.MORE_PAGES_AVAILABLE in found)


def test_a_declared_end_makes_a_list_complete() -> None:
    seen = classified(DECLARED, answer(200, b'{"last": true, "rows": [1, 2]}'))

    assert Category.SUCCESS is seen.verdict.category
    assert seen.completeness is not None
    assert (True, 2, ()) == (seen.completeness.complete, seen.completeness.returned, seen.completeness.reasons)


@pytest.mark.parametrize("body", [b'{"last": false}', b"{}", b'"text"'])
def test_a_declared_end_that_is_not_there_leaves_it_unverified(body: bytes) -> None:
    seen = classified(DECLARED, answer(200, body))

    assert (Category.PARTIAL, [IncompleteCode.COMPLETENESS_UNVERIFIED]) == (
        seen.verdict.category, codes(seen.completeness)
    )  # fmt: skip


def test_a_next_page_outweighs_a_declared_end() -> None:
    seen = classified(DECLARED, answer(200, b'{"last": true}', JSON, NEXT))

    assert [IncompleteCode.MORE_PAGES_AVAILABLE] == codes(seen.completeness)


def test_a_single_thing_says_nothing_of_completeness() -> None:
    assert None is classified(READ, answer(200, b'{"rows": [1]}')).completeness
    assert None is classified(WRITE, answer(201, ROWS)).completeness
    assert None is classified(frozen(method="HEAD"), answer(200, b"", JSON, NEXT)).completeness


def test_a_part_and_an_unfinished_answer_say_so() -> None:
    part = classified(READ, answer(206, b"half", ("content-type", "text/plain")))
    unfinished = classified(WRITE, answer(202))
    declared = classified(frozen(declared=replace(operation(), success_statuses=(202,))), answer(202))

    assert (Category.PARTIAL, [IncompleteCode.OUTPUT_TRUNCATED]) == (part.verdict.category, codes(part.completeness))
    assert part.completeness is not None
    assert part.completeness.truncated
    assert [IncompleteCode.IN_PROGRESS] == codes(unfinished.completeness)
    assert None is declared.completeness


def test_a_body_that_only_the_end_delimits_is_unverified_unless_it_proves_itself() -> None:
    text = replace(answer(200, b"who knows", ("content-type", "text/plain")), body_provable=False)

    assert [IncompleteCode.COMPLETENESS_UNVERIFIED] == codes(classified(READ, text).completeness)
    assert None is classified(READ, replace(answer(), body_provable=False)).completeness
    assert None is classified(READ, replace(text, body=b"")).completeness
    assert None is classified(WRITE, text).completeness


@pytest.mark.parametrize(
    ("raw", "code", "by"),
    [
        (lost(Fault.FIRST_BYTE_TIMEOUT), IncompleteCode.TIME_BUDGET_EXCEEDED, "broker"),
        (lost(Fault.CONNECTION_LOST), IncompleteCode.SOURCE_UNAVAILABLE, "provider"),
        (cut(200, Fault.TRUNCATED), IncompleteCode.OUTPUT_TRUNCATED, "provider"),
        (cut(200, Fault.TOO_LARGE), IncompleteCode.OUTPUT_TRUNCATED, "broker"),
        (answer(200, b"{"), IncompleteCode.SOURCE_UNAVAILABLE, "provider"),
        (answer(503), IncompleteCode.SOURCE_UNAVAILABLE, "provider"),
    ],
)
def test_a_list_that_failed_says_what_is_missing_and_who_cut(raw: object, code: IncompleteCode, by: str) -> None:
    completeness = classified(LIST, raw).completeness  # type: ignore[arg-type]  # the outcomes above

    assert completeness is not None
    assert [(code, by)] == [(reason.code, reason.by) for reason in completeness.reasons]


def test_a_list_that_was_refused_or_never_asked_says_nothing() -> None:
    assert None is classified(LIST, answer(403)).completeness
    assert None is classified(LIST, lost(Fault.DNS_FAILED, Phase.CONNECTING)).completeness
    assert None is classified(READ, answer(503)).completeness

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect, IncompleteCode, RemoteEffect, Retry
from broker.contract.result import Completeness
from broker.contract.wire import JsonValue
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.policy.declarations import (
    Auth,
    CompletenessDecl,
    IncompleteRule,
    Pagination,
    PagingKind,
    Scope,
    Visibility,
)
from broker.core.policy.model import AnswerRule
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


TOKEN = Pagination(kind=PagingKind.BODY_TOKEN, token="json.next", param="page")
ROWS_AT = CompletenessDecl(items="json.rows", id="id")


def told(raw: RawOutcome, args: dict[str, JsonValue] | None = None, **declared: object) -> tuple[str, list[str], str]:
    """Category, what is missing, and how to go on."""
    listing = replace(operation("things.get"), **declared)  # type: ignore[arg-type]  # fields of an operation
    seen = classified(frozen(declared=listing, args=args), raw)
    return (
        seen.verdict.category.value,
        [code.value for code in codes(seen.completeness) or []],
        seen.verdict.retry.value,
    )


WHOLE: tuple[str, list[str], str] = ("success", [], "never")
UNVERIFIED = ("partial", ["COMPLETENESS_UNVERIFIED"], "never")
MORE = ("partial", ["MORE_PAGES_AVAILABLE"], "bounded")
DONE = compile_predicate("json.done==`true`")
CUT = compile_predicate("json.cut==`true`")
RAISES = compile_predicate("contains(json.text || '', 'x')")


@pytest.mark.parametrize(
    ("body", "declared", "args", "found"),
    [
        (b'{"rows": []}', {"pagination": TOKEN}, None, WHOLE),
        (b'{"rows": [], "next": "t"}', {"pagination": TOKEN}, None, MORE),
        (b'{"rows": []}', {"pagination": TOKEN}, {"page": "t"}, UNVERIFIED),
        (b'{"rows": [], "next": "t"}', {"pagination": TOKEN}, {"page": "t"}, UNVERIFIED),
        (b'{"rows": [], "done": true}', {"completeness": replace(ROWS_AT, complete_when=DONE)}, None, WHOLE),
        (b'{"rows": [], "done": false}', {"completeness": replace(ROWS_AT, complete_when=DONE), "pagination": TOKEN},
         None, UNVERIFIED),
        (b'{"rows": [], "done": true, "next": "t"}',
         {"completeness": replace(ROWS_AT, complete_when=DONE), "pagination": TOKEN}, None, MORE),
        (b'{"rows": [1], "n": 1}', {"completeness": replace(ROWS_AT, total="json.n")}, None, WHOLE),
        (b'{"rows": [1], "n": 2}', {"completeness": replace(ROWS_AT, total="json.n")}, None, UNVERIFIED),
        (b'{"rows": [1], "n": 2}', {"completeness": replace(ROWS_AT, total="json.n"), "pagination": TOKEN}, None,
         UNVERIFIED),
        (b'{"rows": [1], "n": 1}', {"completeness": replace(ROWS_AT, total="json.n", estimated=True)}, None,
         UNVERIFIED),
        (b'{"rows": [1], "n": 9}', {"completeness": replace(ROWS_AT, total="json.n", cap=5), "pagination": TOKEN},
         None, ("partial", ["RESULT_LIMIT_REACHED"], "never")),
        (b'{"rows": [1, 2]}', {"completeness": replace(ROWS_AT, full_page_means_cut=True),
                              "pagination": replace(TOKEN, size=2)}, None,
         ("partial", ["RESULT_LIMIT_REACHED"], "bounded")),
        (b'{"rows": [1]}', {"completeness": replace(ROWS_AT, full_page_means_cut=True),
                           "pagination": replace(TOKEN, size=2)}, None, WHOLE),
        (b'{"rows": [1]}', {"completeness": replace(ROWS_AT, full_page_means_cut=True), "pagination": TOKEN}, None,
         ("partial", ["RESULT_LIMIT_REACHED"], "bounded")),
        (b'{"rows": []}', {"completeness": replace(ROWS_AT, visibility=Visibility.FILTERED), "pagination": TOKEN}, None,
         ("partial", ["VISIBILITY_RESTRICTED"], "never")),
        (b'{"rows": []}', {"completeness": replace(ROWS_AT, never_provable=True), "pagination": TOKEN}, None,
         UNVERIFIED),
        (b'{"cut": true}', {"completeness": CompletenessDecl(incomplete_when=(
            IncompleteRule(when=CUT, code=IncompleteCode.VISIBILITY_RESTRICTED, retry=Retry.AFTER_HUMAN),
            IncompleteRule(when=CUT, code=IncompleteCode.SOURCE_UNAVAILABLE)))}, None,
         ("partial", ["VISIBILITY_RESTRICTED", "SOURCE_UNAVAILABLE"], "bounded")),
        (b'{"cut": true}', {"completeness": CompletenessDecl(incomplete_when=(
            IncompleteRule(when=CUT, code=IncompleteCode.VISIBILITY_RESTRICTED, retry=Retry.AFTER_HUMAN),))}, None,
         ("partial", ["VISIBILITY_RESTRICTED"], "after_human")),
        (b'{"cut": false}', {"completeness": CompletenessDecl(incomplete_when=(
            IncompleteRule(when=CUT, code=IncompleteCode.SOURCE_UNAVAILABLE),))}, None, WHOLE),
        (b'{"text": 7}', {"completeness": CompletenessDecl(incomplete_when=(
            IncompleteRule(when=RAISES, code=IncompleteCode.SOURCE_UNAVAILABLE),))}, None,
         ("partial", ["SOURCE_UNAVAILABLE"], "bounded")),
    ],
)  # fmt: skip
def test_a_list_is_complete_only_where_everything_declared_says_so(
    body: bytes, declared: dict[str, object], args: dict[str, JsonValue] | None, found: tuple[str, list[str], str]
) -> None:
    assert found == told(answer(200, body), args, **declared)


def test_the_scope_of_an_answer_is_told() -> None:
    scope = Scope(resource="things", default_region="eu", snapshot="json.v", defaults=("no hidden ones",))
    listing = replace(operation("things.get"), scope=scope, pagination=TOKEN, completeness=ROWS_AT)
    seen = classified(frozen(declared=listing), answer(200, b'{"rows": [], "v": 7}')).completeness

    assert seen is not None
    assert ("things", "all that the upstream holds of it", "7", ("region eu", "no hidden ones")) == (
        seen.resource, seen.visibility, seen.snapshot, seen.defaults,
    )  # fmt: skip


def test_a_query_that_is_cut_for_good_has_to_be_narrowed_and_one_out_of_time_given_more() -> None:
    def continuation(code: IncompleteCode) -> object:
        rule = IncompleteRule(when=CUT, code=code)
        listing = replace(operation(), completeness=CompletenessDecl(incomplete_when=(rule,)))
        seen = classified(frozen(declared=listing), answer(200, b'{"cut": true}')).completeness
        return None if seen is None else seen.continuation["kind"]

    assert "narrow_query" == continuation(IncompleteCode.RESULT_LIMIT_REACHED)
    assert "retry_with_deadline" == continuation(IncompleteCode.TIME_BUDGET_EXCEEDED)
    assert "none" == continuation(IncompleteCode.SOURCE_UNAVAILABLE)


GONE = compile_predicate("status==`410`")
WINDOW = replace(TOKEN, end_error_when=compile_predicate("status==`422`"), expired_when=GONE)


@pytest.mark.parametrize(
    ("status", "method", "found"),
    [
        (422, "GET", ("partial", ["RESULT_LIMIT_REACHED"])),
        (410, "GET", ("partial", ["CURSOR_EXPIRED"])),
        (404, "GET", ("confirmed_failure", [])),
        (422, "POST", ("confirmed_failure", [])),
    ],
)
def test_an_error_that_ends_a_walk_is_no_failure_of_it(status: int, method: str, found: tuple[str, list[str]]) -> None:
    effect = Effect.READ if method == "GET" else Effect.WRITE
    declared = replace(operation("things.get", method=method, effect=effect), pagination=WINDOW)
    seen = classified(frozen(method=method, declared=declared), answer(status))

    assert found == (seen.verdict.category.value, [code.value for code in codes(seen.completeness) or []])


def test_a_rule_may_say_what_is_missing() -> None:
    when = compile_predicate("json.code==`11`")
    limit = AnswerRule(when=when, category=Category.PARTIAL, reasons=(IncompleteCode.RESULT_LIMIT_REACHED,))
    silent = AnswerRule(when=when, category=Category.PARTIAL)
    capped, plain = (told(answer(200, b'{"code": 11}'), errors=(rule,)) for rule in (limit, silent))

    assert (("partial", ["RESULT_LIMIT_REACHED"], "never"), UNVERIFIED) == (capped, plain)


@pytest.mark.parametrize(("status", "masked"), [(404, True), (403, True), (410, False)])
def test_a_status_that_may_hide_things_proves_no_absence(status: int, masked: bool) -> None:  # noqa: FBT001 - a verdict
    declared = replace(operation(), auth=Auth(masked_statuses=(403, 404)))
    seen = classified(frozen(declared=declared), answer(status)).completeness

    assert ([IncompleteCode.VISIBILITY_RESTRICTED] if masked else None) == codes(seen)


@pytest.mark.parametrize(
    ("body", "cut"), [(b'{"rows": [1], "done": false}', True), (b'{"rows": [], "done": false}', False)]
)
def test_rows_without_their_declared_end_were_cut(body: bytes, cut: bool) -> None:  # noqa: FBT001 - a verdict
    listing = replace(operation("things.get"), completeness=replace(ROWS_AT, complete_when=DONE))
    seen = classified(frozen(declared=listing), answer(200, body)).completeness

    assert seen is not None
    assert cut is seen.truncated

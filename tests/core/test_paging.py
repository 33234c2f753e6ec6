"""What one answer says of the next page: never more than it says."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.wire import JsonValue
from broker.core.paging import (
    END,
    UNCLEAR,
    NextPage,
    asked_size,
    begins_the_list,
    next_page,
    row_id,
    rows_of,
    total_of,
    total_told,
)
from broker.core.policy.declarations import CompletenessDecl, Pagination, PagingEnd, PagingKind
from broker.core.predicate import answer_view, compile_predicate
from tests.fakes.https_calls import frozen, operation

BASE = "https://api.example.com/things"
TOKEN = Pagination(kind=PagingKind.BODY_TOKEN, token="json.next", param="page")
URL = Pagination(kind=PagingKind.BODY_URL, token="json.next")
LINK = Pagination(kind=PagingKind.LINK_HEADER, token="next")
ROWS = Pagination(kind=PagingKind.OFFSET, param="at")
SIZES = replace(ROWS, counts_size=True, size_param="n")
PAGES = replace(ROWS, counts_pages=True, first=1)
LAST = Pagination(kind=PagingKind.LAST_ITEM_ID, param="after")
TOTAL = CompletenessDecl(items="json.rows", id="id", total="json.total")
NO_TOTAL = replace(TOTAL, total=None)
MORE_TOLD = replace(NO_TOTAL, complete_when=compile_predicate("json.more==`false`"))


def after(
    paging: Pagination | None,
    body: JsonValue,
    *,
    completeness: CompletenessDecl | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    **args: Any,
) -> NextPage:
    declared = replace(operation(), pagination=paging, completeness=completeness)
    request = frozen(declared=declared, args=args)
    return next_page(paging, completeness, request, answer_view(status=200, headers=headers, json=body), headers)


def leads_to(value: JsonValue) -> NextPage:
    return NextPage(more=True, value=value)


@pytest.mark.parametrize(
    ("paging", "body", "args", "found"),
    [
        (TOKEN, {"next": "t"}, {}, leads_to("t")),
        (TOKEN, {"next": {"k": 1}}, {}, leads_to({"k": 1})),
        (TOKEN, {"next": None}, {}, END),
        (TOKEN, {}, {}, END),
        (TOKEN, {"next": ""}, {}, leads_to("")),
        (TOKEN, {"next": "t"}, {"page": "t"}, UNCLEAR),
        (replace(TOKEN, param="deep.after"), {"next": "t"}, {"deep": {"after": "t"}}, UNCLEAR),
        (replace(TOKEN, end=PagingEnd.PRESENT_AND_EMPTY), {"next": ""}, {}, END),
        (replace(TOKEN, end=PagingEnd.PRESENT_AND_EMPTY), {}, {}, UNCLEAR),
        (replace(TOKEN, end=PagingEnd.VALUES, end_values=("",)), {"next": ""}, {}, END),
        (replace(TOKEN, end=PagingEnd.VALUES, end_values=("",)), {}, {}, UNCLEAR),
        (replace(TOKEN, end=PagingEnd.VALUES, end_values=({}, None)), {"next": {}}, {}, END),
        (replace(TOKEN, end=PagingEnd.VALUES, end_values=({}, None)), {}, {}, END),
        (replace(TOKEN, end=PagingEnd.VALUES, end_values=(False,)), {"next": 0}, {}, leads_to(0)),
        (replace(TOKEN, end=PagingEnd.TOKEN_REPEATS), {"next": "t"}, {"page": "t"}, END),
        (replace(TOKEN, end=PagingEnd.TOKEN_REPEATS), {"next": "u"}, {"page": "t"}, leads_to("u")),
        (replace(TOKEN, end=PagingEnd.TOKEN_REPEATS), {}, {}, UNCLEAR),
        (replace(TOKEN, end=PagingEnd.NO_ROWS), {"next": "t", "rows": []}, {}, END),
        (replace(TOKEN, end=PagingEnd.NO_ROWS), {"next": "t", "rows": [1]}, {}, leads_to("t")),
        (replace(TOKEN, end=PagingEnd.NO_ROWS), {"next": "t"}, {}, leads_to("t")),
        (replace(TOKEN, end=PagingEnd.NO_ROWS), {"rows": [1]}, {}, UNCLEAR),
        (replace(TOKEN, kind=PagingKind.NEXT_HEADER, token="headers.x-next"), {}, {}, END),
        (URL, {"next": f"{BASE}?p=2"}, {}, NextPage(more=True, url=f"{BASE}?p=2")),
        (URL, {"next": "?p=2"}, {}, NextPage(more=True, url=f"{BASE}?p=2")),
        (URL, {"next": BASE}, {}, UNCLEAR),
        (URL, {"next": 7}, {}, UNCLEAR),
        (URL, {"next": "https://other.example.com/things"}, {}, NextPage(more=True)),
        (URL, {}, {}, END),
        (Pagination(kind=PagingKind.NONE), {}, {}, END),
    ],
)  # fmt: skip
def test_a_token_leads_on_where_it_stands_and_ends_where_that_is_declared(
    paging: Pagination, body: JsonValue, args: dict[str, Any], found: NextPage
) -> None:
    assert found == after(paging, body, **args)


@pytest.mark.parametrize(
    ("paging", "link", "found"),
    [
        (LINK, f'<{BASE}?p=2>; rel="next"', NextPage(more=True, url=f"{BASE}?p=2")),
        (LINK, f'<{BASE}?p=1>; rel="prev"', END),
        (LINK, f'<{BASE}?q=a b>; rel="next"', UNCLEAR),
        (LINK, f"<{BASE}?q=a b>; rel=next", UNCLEAR),
        (replace(LINK, token="more"), f"<{BASE}?p=2>; rel=more", NextPage(more=True, url=f"{BASE}?p=2")),
        (LINK, '<https://other.example.com>; rel="next"', NextPage(more=True)),
        (LINK, f'<{BASE}?p=2>; rel="next", <{BASE}?p=3>; rel="next"', NextPage(more=True)),
        (LINK, f'<{BASE}?p=2>; rel="next", <{BASE}?p=2>; rel=next', NextPage(more=True, url=f"{BASE}?p=2")),
        (None, f'<{BASE}?p=2>; rel="next"', NextPage(more=True, url=f"{BASE}?p=2")),
        (None, "", UNCLEAR),
    ],
)
def test_a_link_leads_on_and_its_absence_is_an_end_only_where_that_is_declared(
    paging: Pagination | None, link: str, found: NextPage
) -> None:
    assert found == after(paging, [], headers=(("date", "x"), ("link", link)))


def test_where_each_page_names_a_next_one_a_page_without_rows_alone_is_the_end() -> None:
    paging, link = replace(LINK, end=PagingEnd.NO_ROWS), ("link", f'<{BASE}?p=2>; rel="next"; results="false"')

    assert NextPage(more=True, url=f"{BASE}?p=2") == after(paging, [1], headers=(link,))
    assert END == after(paging, [], headers=(link,))
    assert UNCLEAR == after(paging, [1])


@pytest.mark.parametrize(
    ("paging", "completeness", "body", "args", "found"),
    [
        (ROWS, TOTAL, {"rows": [1, 2], "total": 5}, {}, leads_to(2)),
        (ROWS, TOTAL, {"rows": [1, 2], "total": 5}, {"at": "2"}, leads_to(4)),
        (ROWS, TOTAL, {"rows": [1], "total": 5}, {"at": 4}, END),
        (ROWS, TOTAL, {"rows": [], "total": 0}, {}, END),
        (ROWS, TOTAL, {"rows": [], "total": 3}, {"at": 2}, UNCLEAR),
        (ROWS, TOTAL, {"rows": [], "total": 3}, {"at": 9}, UNCLEAR),
        (ROWS, TOTAL, {"rows": [1], "total": 3}, {"at": "x"}, UNCLEAR),
        (ROWS, TOTAL, {"rows": [1], "total": 3}, {"at": True}, UNCLEAR),
        (ROWS, TOTAL, {"rows": 7, "total": 3}, {}, UNCLEAR),
        (ROWS, NO_TOTAL, {"rows": [1]}, {}, leads_to(1)),
        (ROWS, NO_TOTAL, {"rows": []}, {"at": 1}, END),
        (ROWS, replace(TOTAL, estimated=True), {"rows": [1], "total": 1}, {}, leads_to(1)),
        (PAGES, TOTAL, {"rows": [1], "total": 1}, {}, END),
        (PAGES, TOTAL, {"rows": [1], "total": 9}, {}, leads_to(2)),
        (PAGES, TOTAL, {"rows": [1], "total": 9}, {"at": 2}, leads_to(3)),
        (PAGES, TOTAL, {"rows": [], "total": 3}, {"at": 2}, UNCLEAR),
        (replace(PAGES, size=2), TOTAL, {"rows": [1], "total": 3}, {"at": 2}, END),
        (replace(PAGES, size=2, size_param="n"), TOTAL, {"rows": [1], "total": 9}, {"at": 2, "n": 3}, leads_to(3)),
        (replace(ROWS, param=None), NO_TOTAL, {"rows": [1]}, {}, leads_to(1)),
        (LAST, MORE_TOLD, {"rows": [{"id": 3}, {"id": 4}], "more": True}, {}, leads_to("4")),
        (LAST, MORE_TOLD, {"rows": [{"id": 4}], "more": False}, {}, END),
        (LAST, MORE_TOLD, {"rows": [], "more": True}, {}, UNCLEAR),
        (LAST, MORE_TOLD, {"rows": [{}], "more": True}, {}, UNCLEAR),
        (LAST, MORE_TOLD, {"more": True}, {}, UNCLEAR),
        (LAST, NO_TOTAL, {"rows": [{"id": "a"}]}, {}, leads_to("a")),
        (LAST, NO_TOTAL, {"rows": []}, {}, END),
        (LAST, None, [{"id": "a"}], {}, UNCLEAR),
    ],
)  # fmt: skip
def test_rows_that_are_counted_lead_on_until_all_are_there(
    paging: Pagination, completeness: CompletenessDecl | None, body: JsonValue, args: dict[str, Any], found: NextPage
) -> None:
    assert found == after(paging, body, completeness=completeness, **args)


@pytest.mark.parametrize(
    ("paging", "args", "link", "begins"),
    [
        (None, {}, "", True),
        (TOKEN, {}, "", True),
        (TOKEN, {"page": ""}, "", True),
        (TOKEN, {"page": "t"}, "", False),
        (URL, {}, "", True),
        (ROWS, {"at": "0"}, "", True),
        (ROWS, {"at": 2}, "", False),
        (PAGES, {"at": 1}, "", True),
        (LINK, {}, f'<{BASE}>; rel="next"', True),
        (LINK, {}, f'<{BASE}>; rel="prev"', False),
        (LINK, {}, f'<{BASE}>; rel="previous"', False),
    ],
)
def test_an_answer_from_the_middle_of_a_list_is_known_for_one(
    paging: Pagination | None, args: dict[str, Any], link: str, begins: bool  # noqa: FBT001 - a verdict
) -> None:  # fmt: skip
    assert begins is begins_the_list(paging, frozen(args=args), (("link", link),))


def test_a_cursor_is_text_whatever_the_token_is() -> None:
    assert ("t", '{"k":1}', "https://x", None) == (
        leads_to("t").cursor, leads_to({"k": 1}).cursor, NextPage(more=True, url="https://x").cursor, END.cursor,
    )  # fmt: skip


def test_ids_sizes_and_totals_are_read_strictly() -> None:
    assert ["1", "a", None, None, None, None] == [
        row_id(TOTAL, row) for row in ({"id": 1}, {"id": "a"}, {"id": ""}, {"id": True}, {"id": [1]}, 7)
    ]
    assert None is row_id(None, {"id": 1})
    assert None is asked_size(None, {})
    assert 9 == asked_size(replace(ROWS, size_param="n", size=9), {"n": "many"})
    view = answer_view(status=200, json={"total": 4, "rows": []})
    assert (4, 4, None, None) == (
        total_told(TOTAL, view), total_of(TOTAL, view), total_of(replace(TOTAL, estimated=True), view),
        total_told(TOTAL, answer_view(status=200, json={"total": 1 << 60})),
    )  # fmt: skip
    assert (None, None) == (total_told(None, view), total_told(NO_TOTAL, view))
    assert ((1,), None) == (
        rows_of(None, answer_view(status=200, json={"a": [1], "n": 1})),
        rows_of(None, answer_view(status=200, json={"a": [1], "b": [2]})),
    )


def test_an_offset_may_go_on_by_what_was_asked_for() -> None:
    rows: JsonValue = {"rows": [{"id": 1}], "total": 9}

    assert leads_to(7) == after(SIZES, rows, completeness=TOTAL, at=4, n="3")
    assert NextPage(more=True) == after(SIZES, rows, completeness=TOTAL, at=4)
    assert UNCLEAR == after(SIZES, {"rows": []}, completeness=NO_TOTAL, at=4, n="3")

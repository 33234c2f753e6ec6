"""T35, T17: whatever the pages of a list hold, a walk ends within its budget and with a typed result."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import Category
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import CompletenessDecl, Pagination, PagingEnd, PagingKind, Scope, Stability
from broker.core.policy.model import Operation
from tests.fakes import market
from tests.fakes.walked import by_token, listing, walk_it

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=8), below, max_size=4),
    max_leaves=12,
)
ROWS = st.lists(st.fixed_dictionaries({}, optional={"id": JSON}) | JSON, max_size=4) | JSON
BODY = st.fixed_dictionaries({}, optional={"items": ROWS, "next": JSON, "total": JSON, "version": JSON}) | JSON
LINK = st.text(max_size=60) | st.sampled_from(
    ('</things>; rel="next"', "<?p=1>;rel=next", "<//x.example>; rel=next", '<>; rel="next"', '</a>; rel="next', "<a")
)
HEADERS = st.lists(st.tuples(st.sampled_from(("link", "x-next", "age", "retry-after")), LINK), max_size=3)
STATUS = st.sampled_from((200, 200, 200, 202, 204, 206, 301, 304, 404, 410, 422, 429, 500))
DECLARED = CompletenessDecl(items="json.items", id="id", total="json.total", cap=50)
SCOPE = Scope(resource="things", snapshot="json.version")
PAGINGS = {
    "link": Pagination(kind=PagingKind.LINK_HEADER, token="next", stability=Stability.KEYSET),
    "header": by_token(Stability.SNAPSHOT, kind=PagingKind.NEXT_HEADER, token="headers.x-next"),
    "token": by_token(Stability.SNAPSHOT, restarts=True),
    "repeats": by_token(Stability.SNAPSHOT, end=PagingEnd.TOKEN_REPEATS),
    "empty": by_token(Stability.SNAPSHOT, end=PagingEnd.PRESENT_AND_EMPTY),
    "url": Pagination(kind=PagingKind.BODY_URL, token="json.next", stability=Stability.KEYSET),
    "offset": Pagination(kind=PagingKind.OFFSET, param="page", stability=Stability.KEYSET),
    "last": Pagination(kind=PagingKind.LAST_ITEM_ID, param="page", stability=Stability.KEYSET),
    "none": Pagination(kind=PagingKind.NONE),
}


def operation(name: str) -> Operation:
    return listing(PAGINGS[name], DECLARED, scope=SCOPE if name == "token" else None)


@pytest.mark.parametrize("name", PAGINGS)
@given(answers=st.lists(st.tuples(STATUS, BODY, HEADERS), min_size=1, max_size=6))
def test_no_page_makes_a_walk_fall_over_or_go_on_for_ever(
    name: str, answers: list[tuple[int, Any, list[tuple[str, str]]]]
) -> None:
    sent: list[int] = []

    def upstream(_: object) -> RawOutcome:
        status, body, headers = answers[len(sent) % len(answers)]
        sent.append(status)
        return market.answered(status, json.dumps(body).encode(), *headers)

    seen = walk_it(operation(name), upstream, pages=7, items=40)

    assert 1 <= len(sent) <= 7
    if seen.ending is not None:
        assert seen.ending.verdict.category in {Category.SUCCESS, Category.PARTIAL}
        assert seen.complete is (seen.ending.verdict.category is Category.SUCCESS)
        assert 1 <= len(seen.ending.verdict.message) <= 300
        assert seen.ending.verdict.message.isprintable()

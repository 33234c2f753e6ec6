"""T40: a card never says that nothing differs from what was approved before where something does.

Two requests that are not the same byte for byte are told apart, however alike an agent makes the names in them.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract.wire import dump
from broker.core.frozen import FrozenRequest
from broker.core.previous import approved, held_against
from tests.fakes import market
from tests.fakes.questions import frozen_of

BASE = replace(frozen_of(market.CREATE), query="", headers=(), url="https://a.example/x")
PIECES = ["a", "b", "a.b", "0", "1", "a (2)", '"a"', "", " ", "a.0"]
DOCUMENTS = st.recursive(
    st.sampled_from([None, 1, "x", "{}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(PIECES), inner, min_size=0, max_size=2),
    max_leaves=4,
)


def told(before: FrozenRequest, now: FrozenRequest) -> list[str]:
    part: Any = held_against(approved(before, correlation_id="op_1", scope="once", at_ms=5), now)
    return [change["what"] for change in part["changes"]]


def posted(value: Any) -> FrozenRequest:
    return replace(BASE, body=dump(value))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"a": {"b": "x"}}, {"a.b": "x"}),
        ({"a": ["x"]}, {"a": {"0": "x"}}),
        ({"a": {"b": "x"}, "note": 1}, {"a.b": "x", "note": 2}),
    ],
)
def test_a_document_of_another_shape_differs_in_its_leaves(was: Any, now: Any) -> None:
    assert any(what.startswith(("body.a", 'body."a')) for what in told(posted(was), posted(now)))


def test_a_second_value_is_not_a_name_that_looks_like_one() -> None:
    def asked(query: str) -> FrozenRequest:
        return replace(BASE, query=query, url=f"https://a.example/x?{query}")

    assert ["query a (2)", 'query "a (2)"'] == told(asked("a=1&a=2"), asked("a=1&a%20(2)=2"))


def test_what_only_its_spelling_tells_apart_is_told() -> None:
    assert ["request"] == told(replace(BASE, body=b'{"a":1}'), replace(BASE, body=b'{ "a": 1 }'))


@settings(max_examples=200)
@given(DOCUMENTS, DOCUMENTS)
def test_no_two_documents_are_said_to_be_the_same(was: Any, now: Any) -> None:
    before, after = posted(was), posted(now)

    assert (before.digest == after.digest) is (told(before, after) == [])
    assert before.body == after.body or told(before, after) != ["request"] or _alike(was, now)


def _alike(was: Any, now: Any) -> bool:
    """The same document, its members in another order."""
    return bool(was == now)

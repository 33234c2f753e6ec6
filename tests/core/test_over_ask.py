"""A row more than the agent named is asked for where that can prove an end, and nothing else becomes complete by it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import Category
from broker.core.collect.budget import Wish
from broker.core.collect.request import CollectAsk, resolve_collect
from broker.core.frozen import FrozenRequest
from broker.core.resolve import HttpAsk, resolve
from tests.fakes.answers import answer, classified
from tests.fakes.policies import faults_of, policy_of

TEXT = """
[services.s]
kind = "http"
base_url = "https://s.example"

[services.s.operations.o]
effect = "read"
request = { method = "GET", path = "/logs", query = ["limit", "direction"] }
pagination = { kind = "none", size_param = "limit" }
completeness = { items = "json.rows", full_page_means_cut = true, over_ask = 1, cap = 100 }

[services.s.operations.b]
effect = "read"
request = { method = "POST", path = "/logs", body = ["limit"] }
pagination = { kind = "none", size_param = "limit" }
completeness = { items = "json.rows", full_page_means_cut = true, over_ask = 1, cap = 100 }
"""
POLICY = policy_of(TEXT)


def frozen(operation: str = "o", **args: Any) -> FrozenRequest:
    found = resolve(POLICY, HttpAsk(service="s", operation=operation, args=args))
    assert isinstance(found, FrozenRequest), found
    return found


def rows(count: int) -> bytes:
    return json.dumps({"rows": list(range(count))}).encode()


def test_one_more_is_sent_whatever_way_it_is_asked() -> None:
    by_path = resolve(POLICY, HttpAsk(service="s", method="GET", path="/logs", query=(("limit", "3"),)))

    assert "limit=4" == frozen(limit=3).query
    assert isinstance(by_path, FrozenRequest)
    assert frozen(limit="3").digest == by_path.digest
    assert b'{"limit":4}' == frozen("b", limit=3).body
    assert {"limit": "3"} == frozen(limit=3).args


@pytest.mark.parametrize("limit", [100, 101, "many", "-1", "", "12345678"])
def test_what_is_no_number_or_more_than_is_served_is_sent_as_it_is(limit: object) -> None:
    assert f"limit={limit}" == frozen(limit=limit).query


@pytest.mark.parametrize("limit", [True, None, 2.5, "x"])
def test_nor_is_anything_else_of_a_body_changed(limit: object) -> None:
    assert {"limit": limit} == json.loads(frozen("b", limit=limit).body)


def test_nothing_is_asked_for_where_nobody_names_a_number() -> None:
    assert "direction=forward" == frozen(direction="forward").query


@pytest.mark.parametrize(
    ("limit", "came", "category"),
    [
        (3, 2, Category.SUCCESS),
        (3, 3, Category.SUCCESS),
        (3, 4, Category.PARTIAL),
        (99, 99, Category.SUCCESS),
        (100, 100, Category.PARTIAL),
        (100, 99, Category.SUCCESS),
    ],
)
def test_a_row_that_does_not_come_proves_the_end(limit: int, came: int, category: Category) -> None:
    assert category is classified(frozen(limit=limit), answer(200, rows(came))).verdict.category


def test_a_collection_asks_for_one_more_once() -> None:
    ask = CollectAsk(service="s", operation="o", args={"limit": "3"}, wish=Wish())
    first = resolve_collect(POLICY, ask, None)

    assert isinstance(first, FrozenRequest)
    assert "limit=4" == first.query


@pytest.mark.parametrize("left_out", ["full_page_means_cut = true, ", ", cap = 100"])
def test_it_is_refused_where_it_would_prove_too_much(left_out: str) -> None:
    (fault, _) = faults_of(TEXT.replace(left_out, ""))

    assert "completeness.over_ask: one row more proves an end only where" in fault


@given(limit=st.integers(1, 120), total=st.integers(0, 130))
def test_complete_is_never_claimed_of_a_part(limit: int, total: int) -> None:
    """An upstream that serves what is asked for, and quietly no more than its cap."""
    asked = frozen(limit=limit)
    sent = int(asked.query.removeprefix("limit="))
    came = min(total, sent, 100)
    verdict = classified(asked, answer(200, rows(came))).verdict

    if verdict.category is Category.SUCCESS:
        assert came == total
    if total <= limit < 100:
        assert Category.SUCCESS is verdict.category

"""Places: there or not, never guessed."""

import re

import pytest

from broker.contract.wire import JsonObject
from broker.core.policy.places import MAX_ROWS, PLACE, ROWS, at, rows_at, steps_of

VIEW: JsonObject = {
    "json": {"a": [{"id": 1}, {"id": 2}], "odd.name": "x", "n": 7, "m": {"k": [1], "l": [2, 3]}},
    "xml": None,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("json.a.1.id", 2),
        ("json.a.2", None),
        ("json.a.x", None),
        ('json."odd.name"', "x"),
        ("json.n.x", None),
        ("json.odd.name", None),
    ],
)
def test_a_value_is_looked_up_step_by_step(path: str, value: object) -> None:
    assert value == at(VIEW, path)


def test_a_quoted_step_may_hold_dots() -> None:
    assert ("json", "@odata.nextLink", "a") == steps_of('json."@odata.nextLink".a')
    assert re.fullmatch(PLACE, 'json."@odata.nextLink"')
    assert re.fullmatch(ROWS, "json")
    assert not re.fullmatch(PLACE, "json")
    assert not re.fullmatch(PLACE, "json.a.*")


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("json.a", ({"id": 1}, {"id": 2})),
        ("json.m.*", ([1], [2, 3])),
        ("json.a.*", ({"id": 1}, {"id": 2})),
        ("json.m.*.*", (1, 2, 3)),
        ("json.n", None),
        ("json.none", None),
        ("json.n.*", None),
        ("json.none.*.x", None),
        ("json.a.*.id", None),
        ("xml.a", None),
    ],
)
def test_rows_are_the_members_of_what_is_a_list(path: str, rows: object) -> None:
    assert rows == rows_at(VIEW, path)


def test_lists_within_lists_are_put_together() -> None:
    view = {"json": {"result": [{"values": [1, 2]}, {"values": [3]}]}}

    assert (1, 2, 3) == rows_at(view, "json.result.*.values")


@pytest.mark.parametrize(
    ("tree", "rows"),
    [({"L": ""}, ()), ({"L": {"C": {"K": "a"}}}, ({"K": "a"},)), ({"L": {"C": ["a", "b"]}}, ("a", "b"))],
)
def test_an_element_that_stands_alone_is_a_list_of_one(tree: object, rows: object) -> None:
    assert rows == rows_at({"xml": tree}, "xml.L.C")  # type: ignore[dict-item]  # the trees above


def test_more_rows_than_anybody_counts_are_none() -> None:
    assert rows_at({"json": {"a": [[0]] * (MAX_ROWS + 1)}}, "json.a.*.x") is None

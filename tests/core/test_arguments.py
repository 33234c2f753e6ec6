"""Arguments of operations: the same ones always spell the same bytes, and what does not fit is refused."""

import json
from typing import Any

import pytest

from broker.contract.wire import JsonValue
from broker.core.arguments import (
    ArgumentError,
    arguments_of,
    body_of,
    encoded_query,
    given_by_path,
    holds_fraction,
    query_of,
    split_query,
    text_of,
    with_body,
)
from broker.core.policy.model import Operation
from broker.core.policy.template import template_of
from tests.fakes.policies import SHOP, policy_of

OPERATIONS = policy_of(SHOP).services["shop"].operations
CREATE, LIST, PUT, GET = (OPERATIONS[name] for name in ("orders.create", "orders.list", "files.put", "orders.get"))


def checked(operation: Operation, **given: JsonValue) -> dict[str, JsonValue]:
    return arguments_of(operation, template_of(operation.path), given)


def test_path_values_become_strings_so_that_seven_is_one_change() -> None:
    assert checked(GET, order_id=7) == checked(GET, order_id="7") == {"order_id": "7"}


def test_query_values_become_strings_and_a_single_one_no_list() -> None:
    given: dict[str, JsonValue] = {"state": True, "tag": ["a", 2], "page": 3}

    assert {"state": "true", "tag": ["a", "2"], "page": "3"} == checked(LIST, **given)
    assert {"state": "false", "tag": "a", "page": "1.5"} == checked(LIST, state=False, tag=["a"], page=1.5)
    assert {} == checked(LIST, tag=[])


@pytest.mark.parametrize(
    ("operation", "given", "reason"),
    [
        (GET, {}, "missing: order_id"),
        (CREATE, {"shop": "a", "branch": "b"}, "missing: name"),
        (GET, {"order_id": "1", "x": 1}, "it takes order_id"),
        (GET, {"order_id": True}, "a string or an integer"),
        (GET, {"order_id": 1.5}, "a string or an integer"),
        (GET, {"order_id": None}, "a string or an integer"),
        (LIST, {"state": None}, "stands in the query"),
        (LIST, {"state": {"a": 1}}, "stands in the query"),
        (LIST, {"state": float("inf")}, "stands in the query"),
        (LIST, {"tag": [["a"]]}, "stands in the query"),
        (LIST, {"tag": ["a"] * 300}, "more than 256 values"),
        (CREATE, {"shop": "a", "branch": "b", "name": 1.5}, "can't hold a fraction"),
        (CREATE, {"shop": "a", "branch": "b", "name": [{"x": 1.5}]}, "can't hold a fraction"),
        (CREATE, {"shop": "a", "branch": "b", "name": "x", "note": float("inf")}, "beyond what JSON can carry"),
        (CREATE, {"shop": "a", "branch": "b", "name": "x", "note": "\ud800"}, "surrogate"),
        (PUT, {"path": "x", "free": {"\ud800": 1}}, "a body value holds half a surrogate pair"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(operation: Operation, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        checked(operation, **given)

    assert reason in str(caught.value)


def test_an_operation_without_arguments_says_so() -> None:
    bare = policy_of(
        SHOP + '[services.shop.operations.ping]\nrequest = { method = "GET", path = "/ping" }\neffect = "read"'
    )

    with pytest.raises(ArgumentError, match="it takes none"):
        checked(bare.services["shop"].operations["ping"], x=1)


def test_the_query_stands_in_declared_order() -> None:
    args = checked(LIST, page=2, tag=["b", "a&c"], state="open")

    assert "state=open&tag=b&tag=a%26c&page=2" == query_of(LIST, args)


def test_the_body_is_written_once_in_declared_order() -> None:
    args = checked(CREATE, shop="s", branch="b", note={"k": [1, 2.5, None, "\u00e9"]}, name="n")

    assert '{"name":"n","note":{"k":[1,2.5,null,"\u00e9"]}}'.encode() == body_of(CREATE, template_of(CREATE.path), args)


def test_a_free_body_holds_whatever_is_not_path_or_query() -> None:
    args = checked(PUT, path="a/b", z=1, y=2)

    assert {"z": 1, "y": 2} == json.loads(body_of(PUT, template_of(PUT.path), args) or b"")


def test_a_post_with_a_declared_body_always_carries_one_and_others_never_an_empty_one() -> None:
    declared = SHOP
    for name, method in (("a", "POST"), ("b", "DELETE")):
        declared += f'[services.shop.operations.{name}]\neffect = "write"\n'
        declared += f'request = {{ method = "{method}", path = "/{name}", body = ["x"] }}\n'
    empty = policy_of(declared).services["shop"].operations

    assert b"{}" == body_of(empty["a"], template_of("/a"), {})
    assert body_of(empty["b"], template_of("/b"), {}) is None
    assert b'{"x":1}' == body_of(empty["b"], template_of("/b"), {"x": 1})
    assert body_of(GET, template_of(GET.path), {"order_id": "1"}) is None


def test_a_path_request_gives_the_same_arguments_as_a_call_by_name() -> None:
    query = split_query("state=open&tag=a&tag=b%20c&tag=d+e")

    assert {"state": "open", "tag": ["a", "b c", "d e"]} == given_by_path(LIST, {}, query, None)


@pytest.mark.parametrize(
    ("operation", "query", "body", "reason"),
    [
        (LIST, [("odd", "1")], None, "it declares state, tag, page"),
        (GET, [("odd", "1")], None, "it declares none"),
        (LIST, [], b"{}", "takes no body"),
        (CREATE, [], b"[]", "the body of this operation is a JSON object"),
        (CREATE, [], b'{"a":1,"a":2}', "the body of this operation is a JSON object"),
        (CREATE, [], b'{"shop":"other"}', "given twice"),
    ],
)
def test_a_path_request_that_does_not_fit_its_operation_is_refused(
    operation: Operation, query: list[tuple[str, str]], body: bytes | None, reason: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        given_by_path(operation, {"shop": "a", "branch": "b"} if operation is CREATE else {}, query, body)

    assert reason in str(caught.value)


def test_the_fields_of_a_body_are_arguments() -> None:
    assert {"shop": "a", "name": "n"} == with_body(CREATE, {"shop": "a"}, b'{"name":"n"}')


def test_the_number_of_query_values_is_bounded() -> None:
    with pytest.raises(ArgumentError, match="more than 256"):
        split_query("&".join(["a=1"] * 257))


def test_half_a_surrogate_pair_has_no_query_spelling() -> None:
    with pytest.raises(ArgumentError, match="surrogate"):
        encoded_query([("a", "\ud800")])


def test_fractions_are_found_wherever_they_hide() -> None:
    assert holds_fraction({"a": [1, {"b": 1.0}]})
    assert not holds_fraction({"a": [1, {"b": "1.0"}], "c": None})


def test_an_argument_is_shown_as_it_is_or_as_json() -> None:
    assert ["x", '{"a":1}', "7"] == [text_of("x"), text_of({"a": 1}), text_of(7)]

"""Operations that share a path: what is fixed tells them apart, and no spelling leads around one."""

from typing import Any

import pytest

from broker.core.frozen import Deadlines, FrozenRequest
from broker.core.resolve import HttpAsk, Invalid, resolve
from tests.fakes.policies import policy_of

POLICY = policy_of(
    """
[services.q]
kind = "http"
base_url = "https://q.example"
ad_hoc = ["GET", "POST"]

[services.q.operations.send]
request = { method = "POST", path = "/", headers = { x-target = "Send" }, body = ["text"], media = "text/q-json" }
effect = "write"
limits = { deadlines = { connect_s = 1, total_s = 7 } }

[services.q.operations.purge]
request = { method = "POST", path = "/", headers = { x-target = "Purge" }, body = [] }
effect = "write"
destructive = true

[services.q.operations.list]
request = { method = "GET", path = "/{box}", fixed_query = { v = "2" }, query = ["after"] }
effect = "read"

[services.q.operations.tags]
request = { method = "GET", path = "/{box}", fixed_query = { v = "2", tags = "" } }
effect = "read"

[services.q.operations.fill]
request = { method = "POST", path = "/forms", body = ["a", "b"], media = "form", refused_words = { a = ["drop"] } }
effect = "write"

[services.q.operations.put]
request = { method = "PUT", path = "/{box}", body = "raw", media = "text/csv" }
effect = "write"
"""
)


def asked(**parts: Any) -> FrozenRequest | Invalid:
    return resolve(POLICY, HttpAsk(service="q", **parts))


def frozen(**parts: Any) -> FrozenRequest:
    found = asked(**parts)
    assert isinstance(found, FrozenRequest), found
    return found


def header(request: FrozenRequest, name: str) -> str | None:
    return dict(request.headers).get(name)


@pytest.mark.parametrize(("target", "operation"), [("Send", "q.send"), ("Purge", "q.purge")])
def test_a_fixed_header_tells_which_operation_a_path_request_is(target: str, operation: str) -> None:
    assert operation == frozen(method="POST", path="/", headers=(("X-Target", target),), body=b"{}").operation


def test_an_operation_sends_its_own_header_whatever_the_agent_says() -> None:
    request = frozen(operation="send", args={"text": "t"}, headers=(("x-target", "Purge"),))

    assert ("q.send", "Send", "text/q-json", b'{"text":"t"}') == (
        request.operation, header(request, "x-target"), header(request, "content-type"), request.body,
    )  # fmt: skip


def test_a_request_beside_what_is_fixed_is_no_way_around_it() -> None:
    refusals = [
        asked(method="POST", path="/", headers=(("x-target", "send"),), body=b"{}"),
        asked(method="POST", path="/", body=b"{}"),
        asked(method="GET", path="/b?v=3"),
        asked(method="GET", path="/b"),
        asked(method="GET", path="/b?v=2&v=2"),
        asked(operation="list", args={"box": "b", "v": "3"}),
    ]

    assert [True] * 6 == [isinstance(one, Invalid) for one in refusals]


def test_the_operation_of_which_most_is_there_wins() -> None:
    assert ("q.list", "v=2&after=x") == (
        (listed := frozen(method="GET", path="/b?after=x&v=2")).operation, listed.query,
    )  # fmt: skip
    assert ("q.tags", "v=2&tags=") == (
        (tags := frozen(method="GET", path="/b?tags=&v=2")).operation, tags.query,
    )  # fmt: skip
    assert "https://q.example/b?v=2" == frozen(operation="list", args={"box": "b"}).url


def test_a_form_is_the_same_by_name_and_by_path() -> None:
    form = "application/x-www-form-urlencoded"
    by_name = frozen(operation="fill", args={"b": ["1", 2], "a": "x y"})
    by_path = frozen(method="POST", path="/forms", body=b"b=1&a=x+y&b=2", headers=(("content-type", form),))

    assert (b"a=x%20y&b=1&b=2", form) == (by_name.body, header(by_name, "content-type"))
    assert (by_name.body, by_name.args) == (by_path.body, by_path.args)
    assert b"" == frozen(operation="fill", args={"b": []}).body
    three = frozen(method="POST", path="/forms", body=b"b=1&b=2&b=3", headers=(("content-type", form),))
    assert b"b=1&b=2&b=3" == three.body


@pytest.mark.parametrize(
    "parts",
    [
        {"method": "POST", "path": "/forms", "body": b"\xff"},
        {"method": "POST", "path": "/forms", "body": b"c=1"},
        {"operation": "fill", "args": {"a": {"deep": 1}}},
        {"operation": "fill", "args": {"a": "DROP it"}},
        {"operation": "put", "args": {"box": "b"}, "body": b"x", "headers": (("content-type", "text/html"),)},
    ],
)
def test_what_an_operation_does_not_take_is_refused(parts: dict[str, Any]) -> None:
    assert isinstance(asked(**parts), Invalid)


def test_a_raw_body_travels_as_it_is() -> None:
    by_name = frozen(operation="put", args={"box": "b"}, body=b"\xff\x00")
    by_path = frozen(method="PUT", path="/b", body=b"\xff\x00")

    assert (b"\xff\x00", "text/csv", {"box": "b"}) == (
        by_name.body,
        header(by_name, "content-type"),
        dict(by_name.args),
    )
    assert by_name.digest == by_path.digest


def test_a_word_that_is_refused_may_be_a_part_of_another() -> None:
    assert b"a=dropped" == frozen(operation="fill", args={"a": "dropped"}).body
    assert b"b=drop" == frozen(operation="fill", args={"b": "drop"}).body


def test_a_deadline_is_the_shorter_of_the_agents_and_the_operations() -> None:
    asked_for = Deadlines(connect_s=3, write_s=4, first_byte_s=5, total_s=6)

    assert Deadlines(connect_s=1, write_s=4, first_byte_s=5, total_s=6) == (
        frozen(operation="send", args={}, deadlines=asked_for).deadlines
    )

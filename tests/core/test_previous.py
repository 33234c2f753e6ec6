"""A request beside the last one of its kind that was approved: what differs is named, and nothing is kept whole."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.wire import canonical
from broker.core.frozen import FrozenRequest
from broker.core.previous import (
    BODY_COMPARED_BYTES,
    CHANGES_SHOWN,
    LEAVES_COMPARED,
    LINES_COMPARED,
    VALUE_SHOWN_CHARACTERS,
    approved,
    held_against,
)
from broker.core.ssh.frozen import FrozenSsh
from tests.fakes import hosts, market
from tests.fakes.questions import frozen_of

BASE = frozen_of(market.CREATE)


def differing(before: FrozenRequest | FrozenSsh, now: FrozenRequest | FrozenSsh) -> list[tuple[Any, Any, Any]]:
    """What the card would say, and that it can be hashed."""
    part: Any = held_against(approved(before, correlation_id="op_1", scope="once", at_ms=5), now)
    canonical(part)
    assert ("op_1", "once", 5, before.digest) == (
        part["correlation_id"], part["scope"], part["approved_at_ms"], part["request_digest"],
    )  # fmt: skip
    return [(change["what"], change["was"], change["now"]) for change in part["changes"]]


def bodied(body: bytes, **changed: Any) -> FrozenRequest:
    return replace(BASE, body=body, **changed)


def test_the_same_request_differs_in_nothing() -> None:
    assert [] == differing(BASE, BASE)


def test_method_path_query_and_headers_are_told_apart() -> None:
    before = bodied(b"", url="https://a.example/x?page=1&tag=a&tag=b", query="page=1&tag=a&tag=b")
    now = bodied(
        b"", method="PUT", url="https://a.example/y?page=2&tag=a", query="page=2&tag=a", headers=(("accept", "text/x"),)
    )

    found = differing(replace(before, headers=()), now)

    assert [
        ("method", "POST", "PUT"),
        ("path", "https://a.example/x", "https://a.example/y"),
        ("query page", "1", "2"),
        ("query tag (2)", "b", None),
        ("header accept", None, "text/x"),
    ] == found


def test_a_json_body_differs_leaf_by_leaf() -> None:
    before = bodied(b'{"title": "a", "labels": ["x", "y"], "n": 1.5, "deep": {}}')
    now = bodied(b'{"title": "b", "labels": ["x"], "n": 2.5, "deep": {"a": null}}')

    assert [
        ("body.title", '"a"', '"b"'),
        ("body.labels.1", '"y"', None),
        ("body.n", "1.5", "2.5"),
        ("body.deep", "{}", None),
        ("body.deep.a", None, "null"),
    ] == differing(before, now)


def test_a_text_body_differs_line_by_line() -> None:
    assert [("body line 2", "two", None), ("body line 3", None, "four")] == differing(
        bodied(b"one\ntwo\nthree"), bodied(b"one\nthree\nfour")
    )


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe", b"x" * (BODY_COMPARED_BYTES + 1), b"\n" * LINES_COMPARED, b"[" + b"1," * LEAVES_COMPARED + b"1]"],
    ids=["binary", "large", "lines", "leaves"],
)
def test_what_is_too_much_or_no_text_is_told_by_its_digest(body: bytes) -> None:
    ((what, was, now),) = differing(bodied(body), bodied(body + b"  " if body[:1] == b"[" else body + b"\n"))

    assert "body" == what
    assert f"{len(body)} bytes, sha256 " in was
    assert was != now


def test_a_text_that_became_something_else_is_one_change() -> None:
    assert ("body", "1 lines of text", None) in differing(bodied(b"some words"), bodied(b'{"a":1}'))


def test_long_values_that_begin_alike_are_shown_where_they_differ() -> None:
    alike = "a" * 500
    ((what, was, now),) = differing(bodied(canonical({"t": alike + "b" * 300})), bodied(canonical({"t": alike + "c"})))

    assert "body.t" == what
    assert was != now
    assert all(word.startswith("…aaa") and len(word) <= VALUE_SHOWN_CHARACTERS + 2 for word in (was, now))
    assert was.endswith("b…")
    ((_, was, now),) = differing(bodied(canonical({"t": alike})), bodied(canonical({"t": "short"})))
    assert (f'"{alike}'[:VALUE_SHOWN_CHARACTERS] + "…", '"short"') == (was, now)


def test_more_differences_than_fit_are_counted() -> None:
    many = canonical({str(number): number for number in range(CHANGES_SHOWN + 7)})
    part: Any = held_against(approved(bodied(b"{}"), correlation_id="", scope="", at_ms=0), bodied(many))

    assert (CHANGES_SHOWN, 8) == (len(part["changes"]), part["more"])  # the empty object is gone, too


def test_commands_differ_by_host_and_words() -> None:
    first, second = (hosts.frozen(hosts.command(text, stdin=text.encode())) for text in ("uptime", "uptime -p"))

    assert [
        ("command", "uptime", "uptime -p"),
        ("body line 1", "uptime", None),
        ("body line 1", None, "uptime -p"),
    ] == differing(first, second)

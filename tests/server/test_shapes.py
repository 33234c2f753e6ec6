"""Bytes that came in become checked values, and faults that name no value."""

from typing import Any

import pytest

from broker.core.frozen import Deadlines
from broker.server.shapes import FAULTS_MAX, ShapeError, UnreadableError, check, decoded, http_ask, read_body

PATHS: dict[str, Any] = {"service": "market", "method": "POST", "path": "/x"}


def test_a_body_that_is_nothing_is_an_empty_object() -> None:
    assert {} == read_body(b"", "nothing")


@pytest.mark.parametrize("raw", [b"{", b"[]", b'"x"', b"\xff", b'{"a":1,"a":2}', b'{"a":Infinity}'])
def test_what_is_no_object_is_unreadable(raw: bytes) -> None:
    with pytest.raises(UnreadableError):
        read_body(raw, "nothing")


def test_a_body_over_its_bound_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="more than 10 bytes"):
        read_body(b" " * 11, "nothing", max_bytes=10)


def test_faults_name_paths_in_order_and_never_values() -> None:
    with pytest.raises(ShapeError) as refused:
        check({**PATHS, "wait_s": "canary", "deadline": {"connect_s": "canary"}, "canary": "canary"}, "http-request")

    paths = [fault.path for fault in refused.value.faults]
    assert ["(document)", "deadline/connect_s", "wait_s"] == paths == sorted(paths)
    told = str(refused.value).replace("'canary'", "", 1)  # the name of a field that there is not
    assert "canary" not in told


def test_so_many_faults_are_told_and_no_more() -> None:
    headers = {f"x-{number}": 1 for number in range(50)}
    with pytest.raises(ShapeError) as refused:
        check({**PATHS, "headers": headers}, "http-request")

    assert FAULTS_MAX == len(refused.value.faults)


def test_hostile_names_are_shown_harmless() -> None:
    with pytest.raises(ShapeError) as refused:
        check({**PATHS, "headers": {"x-\x1b[2J\u202e": "v"}}, "http-request")

    told = str(refused.value)
    assert told.isprintable()
    assert "\u202e" not in told


@pytest.mark.parametrize(
    ("body", "expected", "media"),
    [
        ({}, None, None),
        ({"body": "tëxt"}, "tëxt".encode(), "text/plain; charset=utf-8"),
        ({"body": {"b": 1, "a": [1.5, None]}}, b'{"b":1,"a":[1.5,null]}', "application/json"),
        ({"body": []}, b"[]", "application/json"),
        ({"body_b64": "AP8="}, b"\x00\xff", None),
    ],
)
def test_a_body_is_taken_as_it_was_meant(body: dict[str, Any], expected: bytes | None, media: str | None) -> None:
    ask = http_ask({**PATHS, **body})

    assert (expected, media) == (ask.body, ask.body_media)


def test_a_query_is_spelled_as_json_spells_it_and_lists_repeat_their_name() -> None:
    ask = http_ask({**PATHS, "query": {"a": "x", "b": True, "c": 1.5, "d": ["1", "2"], "e": 7}})

    assert (("a", "x"), ("b", "true"), ("c", "1.5"), ("d", "1"), ("d", "2"), ("e", "7")) == ask.query


def test_headers_and_names_are_handed_on() -> None:
    ask = http_ask({"service": "s", "operation": "o", "args": {"n": 1}, "headers": {"accept": "x"}})

    assert ("s", "o", {"n": 1}, None, (("accept", "x"),)) == (
        ask.service,
        ask.operation,
        ask.args,
        ask.url,
        ask.headers,
    )
    assert "https://x.example" == http_ask({"method": "GET", "url": "https://x.example"}).url


def test_no_phase_has_longer_than_the_whole() -> None:
    assert Deadlines() == http_ask(PATHS).deadlines
    short = http_ask({**PATHS, "deadline": {"total_s": 2, "write_s": 1}}).deadlines

    assert (2.0, 1.0, 2.0, 2.0) == (short.connect_s, short.write_s, short.first_byte_s, short.total_s)


@pytest.mark.parametrize("value", ["not base64!", "QUJ\u00e9", "AA", 7, None])
def test_what_is_no_base64_is_a_fault_of_its_field(value: Any) -> None:
    document = {"field": value}
    if isinstance(value, str):
        with pytest.raises(ShapeError, match="field: not base64"):
            decoded(document, "field")
    else:
        assert b"" == decoded(document, "field")


def test_a_document_with_more_members_than_any_schema_has_is_refused_in_one_sentence() -> None:
    raw = b"{" + b",".join(b'"%d":1' % number for number in range(101)) + b"}"

    with pytest.raises(ShapeError, match="more than 100 members"):
        read_body(raw, "http-request")

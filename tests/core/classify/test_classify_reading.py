import pytest

from broker.core.classify.reading import read_body, read_bytes
from broker.core.outcome import Fault
from tests.fakes.answers import JSON, answer, cut

TEXT = ("content-type", "text/plain; charset=utf-8")


def test_json_is_read_strictly_and_big_integers_are_kept() -> None:
    reading = read_body(answer(200, b'{"id": 12345678901234567890123, "x": 1.5}'), method="GET")

    assert {"id": 12345678901234567890123, "x": 1.5} == reading.json
    assert (True, True, None) == (reading.has_json, reading.is_whole, reading.broken)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "NaN"),
        (b'{"a": 1e999}', "too large"),
        (b'{"id": 1, "id": 2}', "twice"),
        (b'{"a"', "not JSON"),
        (b"", None),
        (b"<html>", "not JSON"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b"[" * 70 + b"]" * 70, "deeper"),
        (b'{"a": 1} trailing', "not JSON"),
    ],
)
def test_what_is_no_strict_json_has_no_value(body: bytes, why: str | None) -> None:
    reading = read_body(answer(200, body), method="GET")

    assert not reading.has_json
    assert (why is None) is (reading.broken is None)
    assert why is None or why in str(reading.broken)
    assert not reading.is_whole


def test_a_null_document_is_a_document() -> None:
    reading = read_body(answer(200, b"null"), method="GET")

    assert (True, None) == (reading.has_json, reading.json)


def test_a_byte_order_mark_is_left_out_and_noted() -> None:
    reading = read_body(answer(200, b'\xef\xbb\xbf{"a": 1}'), method="GET")

    assert ({"a": 1}, True) == (reading.json, reading.had_bom)


@pytest.mark.parametrize(
    ("media", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/json", True),
        ("application/problem+json", True),
        ("application/vnd.api+json", True),
        ("application/x-amz-json-1.0", True),
        ("application/x-ndjson", False),
        ("application/json-seq", False),
        ("text/html", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_which_media_types_promise_one_json_document(media: str, is_json: bool) -> None:  # noqa: FBT001
    assert is_json is read_body(answer(200, b"{}", ("content-type", media)), method="GET").has_json


def test_two_content_types_are_none() -> None:
    assert None is read_body(answer(200, b"{}", JSON, TEXT), method="GET").media


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain", "é".encode(), "é"),
        ("text/plain; charset=UTF-8", "é".encode(), "é"),
        ("text/plain; charset=iso-8859-1", b"\xe9", None),
        ("text/plain; charset=iso-8859-1", b"plain", "plain"),
        ("text/plain; charset*=utf-8''utf-8", b"plain", "plain"),
        ("text/plain", b"\xff\xfe", None),
        ("application/octet-stream", b"a\0b", None),
        ("text/plain", b"\x1b[31mred", None),
        ("text/plain", b"line\r\n\ttab", "line\r\n\ttab"),
    ],
)
def test_text_is_utf8_without_controls_or_it_is_no_text(content_type: str, body: bytes, text: str | None) -> None:
    assert text == read_body(answer(200, body, ("content-type", content_type)), method="GET").text


@pytest.mark.parametrize("status", [204, 205, 304])
def test_statuses_without_a_body_have_none(status: int) -> None:
    assert not read_body(answer(status, b"{}"), method="GET").has_body


def test_head_and_cut_bodies_are_not_read() -> None:
    assert not read_body(answer(200, b"{}"), method="HEAD").has_body
    assert not read_body(cut(200, Fault.TRUNCATED, body=b"{}"), method="GET").has_body


def test_bytes_without_a_media_type_are_text_where_they_can_be() -> None:
    assert "hello" == read_bytes(b"hello", media=None).text

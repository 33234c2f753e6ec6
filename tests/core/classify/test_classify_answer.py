import base64
from dataclasses import replace

import pytest

from broker.contract.result import HttpAnswer
from broker.core.classify.answer import shown_headers, with_scrubbed_body
from broker.core.outcome import Fault
from tests.fakes.answers import HTML, JSON, READ, WRITE, answer, classified, cut, lost
from tests.fakes.https_calls import frozen, operation

PLAIN = ("content-type", "text/plain")


def seen(raw_status: int = 200, body: bytes = b'{"id": "1"}', *headers: tuple[str, str]) -> HttpAnswer:
    found = classified(READ, answer(raw_status, body, *headers)).answer
    assert found is not None
    return found


def test_json_text_and_bytes_are_each_given_in_their_form() -> None:
    assert ({"id": "1"}, True) == (seen().body_json, seen().has_json)
    assert "hello" == seen(200, b"hello", PLAIN).body
    binary = seen(200, b"\x89PNG\r\n\x1a\n\0", ("content-type", "image/png"))
    assert b"\x89PNG\r\n\x1a\n\0" == base64.b64decode(binary.body_b64 or "")
    assert ("image/png", 9) == (binary.media_type, binary.body_bytes)


def test_a_null_document_is_given() -> None:
    assert {"body_json": None} == {
        key: value for key, value in seen(200, b"null").to_json().items() if key == "body_json"
    }


def test_an_empty_answer_has_no_body() -> None:
    assert not {"body", "body_json", "body_b64"} & set(seen(200, b"").to_json())


def test_where_it_came_from_is_the_url_that_was_asked() -> None:
    assert READ.url == seen().final_url


def test_without_a_head_there_is_no_answer() -> None:
    assert None is classified(READ, lost(Fault.CONNECTION_LOST)).answer


@pytest.mark.parametrize(("status", "body"), [(422, b'{"errors": ["title"]}'), (500, b'{"errors": ["title"]}')])
def test_json_of_a_failure_is_given(status: int, body: bytes) -> None:
    found = classified(WRITE, answer(status, body)).answer

    assert found is not None
    assert {"errors": ["title"]} == found.body_json


def test_of_other_failures_plain_text_is_given_and_pages_are_not() -> None:
    assert "no such thing" == seen(404, b"no such thing", PLAIN).body
    page = seen(502, b"<h1>Bad gateway</h1>", HTML)
    assert (None, None, 502) == (page.body, page.body_b64, page.status)


def test_a_malformed_body_is_never_given() -> None:
    broken = seen(200, b'{"id": 1, "id": 2}')
    shortened = classified(READ, cut(200, Fault.TRUNCATED)).answer

    assert shortened is not None
    for found in (broken, shortened):
        assert not {"body", "body_json", "body_b64"} & set(found.to_json())
        assert {"content-type": "application/json"} == found.headers


def test_only_allowed_headers_are_shown_and_repeated_ones_are_joined() -> None:
    headers = (
        JSON,
        ("set-cookie", "session=1"),
        ("server", "nginx"),
        ("x-request-id", "r1"),
        ("x-ratelimit-remaining", "1"),
        ("ratelimit-policy", "p"),
        ("ratelimit", "r=1"),
        ("link", "<a>"),
        ("link", "<b>"),
        ("etag", "1"),
        ("x-mine", "2"),
    )

    assert {
        "content-type": "application/json",
        "x-request-id": "r1",
        "x-ratelimit-remaining": "1",
        "ratelimit-policy": "p",
        "ratelimit": "r=1",
        "link": "<a>, <b>",
        "etag": "1",
        "x-mine": "2",
    } == shown_headers(headers, ("X-Mine",))
    declared = replace(operation(), response_headers=("server",))
    found = classified(frozen(declared=declared), answer(200, b"{}", *headers)).answer
    assert found is not None
    assert "nginx" == found.headers["server"]
    assert "set-cookie" not in found.headers


def test_scrubbed_bytes_are_given_in_the_form_of_the_original() -> None:
    assert {"id": "[redacted]"} == with_scrubbed_body(seen(), b'{"id": "[redacted]"}').body_json
    assert "a [redacted]" == with_scrubbed_body(seen(200, b"a b", PLAIN), b"a [redacted]").body
    assert seen(200, b"") == with_scrubbed_body(seen(200, b""), b"")


def test_json_that_a_replacement_broke_is_given_as_text() -> None:
    given = with_scrubbed_body(seen(), b'{"id": [redacted]}')

    assert (False, '{"id": [redacted]}') == (given.has_json, given.body)


def test_text_does_not_become_json_by_being_scrubbed() -> None:
    original = HttpAnswer(status=200, headers={}, media_type="application/json", body="{", final_url="")

    assert (False, "{}") == (with_scrubbed_body(original, b"{}").has_json, with_scrubbed_body(original, b"{}").body)

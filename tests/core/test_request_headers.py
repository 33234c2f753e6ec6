"""Headers: what an agent may say, and that nothing of it can end a line, frame a body or name another host."""

import pytest

from broker.core.request_headers import HeaderError, checked_headers, merged_headers


def test_names_are_folded_and_values_trimmed() -> None:
    assert {"if-match": '"x"', "prefer": "wait=1"} == checked_headers([("If-Match", ' "x" '), ("PREFER", "wait=1")])


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "COOKIE", "Host", "Content-Length", "Transfer-Encoding", "Connection", "TE", "Trailer",
        "Upgrade", "Expect", "Keep-Alive", "Forwarded", "X-Forwarded-For", "x-forwarded-host", "Proxy-Authorization",
        "Proxy-Connection", "Accept-Encoding", "X-HTTP-Method-Override", "X-Original-URL", "Via",
    ],
)  # fmt: skip
def test_a_reserved_header_is_not_the_agents_to_set(name: str) -> None:
    with pytest.raises(HeaderError) as caught:
        checked_headers([(name, "x")])

    assert caught.value.reserved


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a b", "x"),
        ("", "x"),
        ("a:", "x"),
        ("a\r\nb", "x"),
        ("\u212aey", "x"),
        ("x" * 129, "x"),
        ("a", "x\r\ny: z"),
        ("a", "x\ny"),
        ("a", "x\x00"),
        ("a", "x\ty"),
        ("a", "\u00e9"),
        ("a", "x" * 20_000),
    ],
)
def test_a_header_that_could_end_its_line_is_refused(name: str, value: str) -> None:
    with pytest.raises(HeaderError) as caught:
        checked_headers([(name, value)])

    assert not caught.value.reserved
    assert "x" * 30 not in str(caught.value)


def test_each_header_is_named_once() -> None:
    with pytest.raises(HeaderError, match="named twice"):
        checked_headers([("a", "1"), ("A", "2")])


def test_the_number_of_headers_is_bounded() -> None:
    with pytest.raises(HeaderError, match="64 in number"):
        checked_headers([(f"h{number}", "x") for number in range(65)])


def test_the_services_headers_win_over_the_agents_and_those_over_the_defaults() -> None:
    merged = merged_headers({"accept": "text/plain", "x": "agent"}, {"x": "service"}, content_type=None)

    assert (("accept", "text/plain"), ("user-agent", "doorward"), ("x", "service")) == merged


def test_the_content_type_goes_with_a_body_and_not_without() -> None:
    assert ("content-type", "a/b") not in merged_headers({"content-type": "a/b"}, {}, content_type=None)
    assert ("content-type", "a/b") in merged_headers({"content-type": "a/b"}, {}, content_type="c/d")
    assert ("content-type", "c/d") in merged_headers({}, {}, content_type="c/d")

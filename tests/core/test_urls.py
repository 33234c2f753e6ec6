"""URLs: one spelling each, and everything with a second reading refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from broker.core.urls import UrlError, canonical_host, canonical_url, check_path, is_loopback, segments_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("https://api.shop.example", "https://api.shop.example/"),
        ("HTTPS://API.Shop.Example:443/", "https://api.shop.example/"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
        ("http://a:80/", "http://a/"),
        ("https://[0:0::1]:8443/x", "https://[::1]:8443/x"),
        ("https://a/%41%7e?q=%41", "https://a/A~?q=A"),
        ("https://a/%c3%a9", "https://a/%C3%A9"),
        ("https://a/\u00e9?x=\u00e9", "https://a/%C3%A9?x=%C3%A9"),
        ("https://a?x=1", "https://a/?x=1"),
        ("https://a/?", "https://a/"),
        ("https://a/x@y:z;v=1", "https://a/x@y:z;v=1"),
        ("https://a/?q=a%20b+c%2Bd%26", "https://a/?q=a%20b+c%2Bd%26"),
        ("https://a/?q=%0A", "https://a/?q=%0A"),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ("https://a/...", "https://a/..."),
    ],
)
def test_a_url_has_one_spelling(text: str, canonical: str) -> None:
    url = canonical_url(text)

    assert canonical == url.url
    assert canonical_url(url.url) == url


def test_the_parts_of_a_url_are_those_that_are_sent() -> None:
    url = canonical_url("https://[::1]:8443/a/%2a?b=c")

    assert ("https", "::1", 8443, "/a/*", "b=c") == (url.scheme, url.host, url.port, url.path, url.query)
    assert url.origin == "https://[::1]:8443"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://a/", "no http or https URL"),
        ("//a/", "no http or https URL"),
        ("/path", "no http or https URL"),
        ("https:/a", "no http or https URL"),
        ("", "no http or https URL"),
        ("https://a/#x", "a fragment is never sent"),
        ("https://u@a/", "user names and passwords"),
        ("https://u:p@a/", "user names and passwords"),
        ("https://a.example@evil.example/", "user names and passwords"),
        ("https://a b/", "a space or a control character"),
        ("https://a/\t", "a space or a control character"),
        ("https://a/\r\nx", "a space or a control character"),
        ("https://a/\x00", "a space or a control character"),
        ("https://a/\x85", "a space or a control character"),
        ("https://a/\xa0", "a space or a control character"),
        ("https://a\\b/", "back-slash"),
        ("https://a/\\x", "back-slash"),
        ("https://a/\ud800", "surrogate"),
        ("https://a/%2fb", "hides a separator"),
        ("https://a/%5Cb", "hides a separator"),
        ("https://a/%2e%2e/b", "hides a separator"),
        ("https://a/%00", "hides a separator"),
        ("https://a/%0d%0a", "hides a separator"),
        ("https://a/%252e/", "hides a separator"),
        ("https://a/%255Cx", "hides a separator"),
        ("https://a/../b", "dot segment"),
        ("https://a/b/.", "dot segment"),
        ("https://a/..;x=1/b", "dot segment"),
        ("https://a//b", "empty segment"),
        ("https://a/b//", "empty segment"),
        ("https://a/%zz", "two hexadecimal digits"),
        ("https://a/%4", "two hexadecimal digits"),
        ("https://a/?q=%zz", "percent sign in the query"),
        ("https://\u00e9.example/", "in ASCII"),
        ("https://\uff41.example/", "in ASCII"),
        ("https://a.example\u3002/", "in ASCII"),
        ("https://a./", "no plain name"),
        ("https://.a/", "no plain name"),
        ("https://a..b/", "no plain name"),
        ("https://-a/", "no plain name"),
        ("https://a_b/", "no plain name"),
        ("https://a%2eb/", "no plain name"),
        ("https:///x", "no plain name"),
        ("https://" + "a." * 130 + "b/", "no plain name"),
        ("https://" + "a" * 64 + ".b/", "no plain name"),
        ("https://127.1/", "looks like a number"),
        ("https://2130706433/", "looks like a number"),
        ("https://0x7f000001/", "looks like a number"),
        ("https://0177.0.0.1/", "looks like a number"),
        ("https://1.2.3.4.5/", "looks like a number"),
        ("https://a.0x/", "looks like a number"),
        ("https://256.1.1.1/", "looks like a number"),
        ("https://[::ffff:127.0.0.1]/", "no IPv6 address"),
        ("https://[fe80::1%25eth0]/", "no IPv6 address"),
        ("https://[1.2.3.4]/", "no IPv6 address"),
        ("https://[]/", "no IPv6 address"),
        ("https://[::1/", "a colon and a port"),
        ("https://[::1]x/", "a colon and a port"),
        ("https://a:/", "a colon and a port"),
        ("https://a:080/", "a colon and a port"),
        ("https://a:0/", "a colon and a port"),
        ("https://a:+80/", "a colon and a port"),
        ("https://a:1:2/", "a colon and a port"),
        ("https://a:65536/", "over 65535"),
        ("https://a/" + "x" * 8200, "longer than 8192"),
        ("https://a/" + "\u00e9" * 4000, "once encoded"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UrlError) as caught:
        canonical_url(text)

    assert reason in str(caught.value)


@given(
    st.text(max_size=40), st.sampled_from(["https://", "http://", "", "https://a/", "https://a/?", "https://a:1/x/"])
)
def test_whatever_is_accepted_is_a_fixed_point_of_every_reading(rest: str, start: str) -> None:
    try:
        url = canonical_url(start + rest)
    except UrlError:
        return
    assert canonical_url(url.url) == url
    assert str(URL(url.url)) == url.url == str(URL(url.url, encoded=True))
    assert (url.host, url.port) == (URL(url.url).raw_host, URL(url.url).port)
    assert url.url == url.origin + url.path + ("?" if url.query else "") + url.query
    assert url.url.isascii()


def test_a_path_begins_with_a_slash() -> None:
    with pytest.raises(UrlError, match="begins with a slash"):
        check_path("a/b")


def test_segments_are_decoded_once() -> None:
    assert ("a b", "%41", "") != segments_of("/a%20b/%2541/")
    assert ("a b", "%41") == segments_of("/a%20b/%2541/")
    assert () == segments_of("/")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("a.localhost", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), ("a", False)],
)
def test_loopback_is_told_by_its_spelling(host: str, expected: bool) -> None:  # noqa: FBT001 - a verdict
    assert expected == is_loopback(host)


def test_a_host_is_spelled_in_lower_case_and_shortest_form() -> None:
    assert canonical_host("API.Example") == "api.example"
    assert canonical_host("[2001:0DB8::0001]") == "2001:db8::1"

"""One spelling for every URL: what policy reads is what is dialled, named in TLS and sent as the authority.

Whatever has a second reading is refused before the parser sees it: user info, controls, back-slashes, encoded
separators, dot segments, empty segments, hosts that look like numbers, trailing dots. Knows no addresses: what a
name resolves to is checked where it is dialled.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import unquote

from yarl import URL

MAX_URL_CHARACTERS = 8192
URLS_KEPT = 64
DEFAULT_PORTS = {"http": 80, "https": 443}

_SHAPE = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SPACE_OR_CONTROL = re.compile("[\x00-\x20\x7f-\xa0]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HIDDEN_IN_PATH = re.compile(r"%(?:2[ef]|5c|[01][0-9a-f]|7f|25(?:2[ef]|5c))", re.IGNORECASE)


class UrlError(ValueError):
    """The text is no acceptable URL. The message says why and never repeats the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalUrl:
    """`host` is without brackets, `path` begins with a slash, `query` has no question mark; both as sent."""

    scheme: str
    host: str
    port: int
    path: str
    query: str
    url: str

    @property
    def origin(self) -> str:
        """scheme://host[:port], the port left out where it is the default."""
        return self.url[: self.url.index("/", len(self.scheme) + 3)]


@lru_cache(maxsize=URLS_KEPT)  # each request asks for the same one several times
def canonical_url(text: str) -> CanonicalUrl:
    """The one spelling of an http or https URL. Raises UrlError where there could be two."""
    _refuse_odd_characters(text)
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise UrlError("it is no http or https URL" if "#" not in text else "a fragment is never sent; leave it out")
    scheme, authority, path, query = shape[1].lower(), shape[2], shape[3] or "/", shape[4] or ""
    host, port = _host_and_port(authority, DEFAULT_PORTS[scheme])
    check_path(path)
    if _BAD_ESCAPE.search(query):
        raise UrlError("a percent sign in the query stands before two hexadecimal digits, or is written %25")
    spelled_host = f"[{host}]" if ":" in host else host
    spelled_port = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    url = URL(f"{scheme}://{spelled_host}{spelled_port}{path}{'?' if query else ''}{query}")
    return _checked(url, scheme=scheme, host=host, port=port)


def check_path(path: str) -> None:
    """Refuse a path that an upstream could read as another one."""
    if not path.startswith("/"):
        raise UrlError("a path begins with a slash")
    if _BAD_ESCAPE.search(path):
        raise UrlError("a percent sign in the path stands before two hexadecimal digits, or is written %25")
    if _HIDDEN_IN_PATH.search(path):
        raise UrlError("the path hides a separator, a dot or a control character behind percent signs")
    segments = path.split("/")[1:]
    if "" in segments[:-1]:
        raise UrlError("the path holds an empty segment (two slashes in a row)")
    if any(segment.split(";", 1)[0] in {".", ".."} for segment in segments):
        raise UrlError("the path holds a dot segment")


def segments_of(path: str) -> tuple[str, ...]:
    """The segments of a canonical path, percent-decoded once. A slash at the end begins no segment."""
    return tuple(unquote(segment) for segment in path.strip("/").split("/")) if path.strip("/") else ()


@lru_cache(maxsize=URLS_KEPT)
def read_loosely(path: str) -> str:
    """The path as a careless upstream may read it, for telling what is alike and never for sending.

    Without parameters behind a semicolon, letter case, what can't be seen, blanks and dots at the ends of segments, and
    slashes at its own end.
    """
    return "/".join(_loose(segment) for segment in path.split("/")).rstrip("/")


def _loose(segment: str) -> str:
    text = unicodedata.normalize("NFKC", unquote(segment)).partition(";")[0]
    visible = (char for char in text if unicodedata.category(char) != "Cf")
    return " ".join("".join(visible).split()).rstrip(". ").casefold()


def is_loopback(host: str) -> bool:
    """Whether the host, as it is spelled, means this machine alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return IPv6Address(host).is_loopback if ":" in host else IPv4Address(host).is_loopback
    except AddressValueError:
        return False


def _refuse_odd_characters(text: str) -> None:
    if len(text) > MAX_URL_CHARACTERS:
        raise UrlError(f"it is longer than {MAX_URL_CHARACTERS} characters")
    if _SPACE_OR_CONTROL.search(text):
        raise UrlError("it holds a space or a control character; write a space as %20")
    if "\\" in text:
        raise UrlError("it holds a back-slash")
    if _SURROGATE.search(text):
        raise UrlError("it holds half a surrogate pair")


def _host_and_port(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise UrlError("user names and passwords don't belong in a URL")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise UrlError("after the host stands nothing, or a colon and a port without leading zeros")
    port = int(match[2]) if match[2] else default_port
    if port > 65535:
        raise UrlError("the port is over 65535")
    return canonical_host(match[1]), port


def canonical_host(text: str) -> str:
    """Lower-case name, dotted quad, or the shortest form of an IPv6 literal (without brackets). Raises UrlError."""
    if text.startswith("["):
        try:
            return _plain_ipv6(text[1:-1])
        except AddressValueError:
            raise UrlError("between the brackets stands no IPv6 address") from None
    if not text.isascii():
        raise UrlError("the host is written in ASCII (an international name in its xn-- form)")
    host = text.lower()
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            raise UrlError("the host looks like a number; write four decimal numbers without leading zeros") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlError("the host is no plain name (letters, digits, hyphens; no dot at the end)")
    return host


def _plain_ipv6(text: str) -> str:
    if "%" in text:
        raise AddressValueError("a zone means something on one machine only")
    address = IPv6Address(text)
    if address.ipv4_mapped is not None:
        raise AddressValueError("an IPv4 address has one spelling")
    return str(address)


def _checked(url: URL, *, scheme: str, host: str, port: int) -> CanonicalUrl:
    """What yarl made of it has to be what was checked; a difference would mean two readings."""
    text = str(url)
    if len(text) > MAX_URL_CHARACTERS or (url.scheme, url.raw_host, url.port) != (scheme, host, port):
        raise UrlError(f"once encoded it is longer than {MAX_URL_CHARACTERS} characters, or has two readings")
    return CanonicalUrl(scheme=scheme, host=host, port=port, path=url.raw_path, query=url.raw_query_string, url=text)

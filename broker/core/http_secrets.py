"""Credentials of HTTP as values: what each kind holds, and what it adds to a request.

A value that could end a line, frame a body or name another parameter is refused as it is put in. What a credential
adds, nobody else may say: see `claims`. Stores nothing, sends nothing; messages never hold a value.
"""

import base64
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote

from broker.core.secret import Secret

MAX_VALUE_BYTES = 8192
MAX_USERNAME_BYTES = 256
MAX_TEMPLATE_BYTES = 256
PLACEHOLDER = "{value}"

# Framing, routing and connection control belong to the transport; a cookie is a kind of its own.
RESERVED_HEADERS = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "date",
        "expect", "forwarded", "host", "http2-settings", "keep-alive", "origin", "range", "referer", "set-cookie",
        "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
    }
)  # fmt: skip
RESERVED_PREFIXES = ("proxy-", "sec-", "x-forwarded-", "access-control-")

# What the signature of AWS consists of: it is made for each request, and nobody brings one along.
SIGNING_HEADERS = frozenset({"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"})
_SIGNING_PARAMETERS = frozenset(
    {
        "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-security-token",
        "x-amz-signature", "x-amz-signedheaders",
    }
)  # fmt: skip

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_PARAMETER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_COOKIE_OCTETS = re.compile(r"[!#-+\--:<-\[\]-~]+")
_ACCESS_KEY_ID = re.compile(r"[A-Za-z0-9_]{4,128}")
_SCOPE_PART = re.compile(r"[a-z0-9-]{1,64}")


class CredentialError(ValueError):
    """A credential, a part of it or a binding is not acceptable. Says what to change, never a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerSecret:
    token: Secret

    def __post_init__(self) -> None:
        _check_header_value(self.token, "the token")


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicSecret:
    username: str = field(repr=False)
    password: Secret

    def __post_init__(self) -> None:
        if len(self.username.encode("utf-8", "replace")) > MAX_USERNAME_BYTES:
            raise CredentialError(f"the user name has more than {MAX_USERNAME_BYTES} bytes")
        if ":" in self.username:
            raise CredentialError("a user name with a colon can't be sent by Basic authentication")
        _check_characters(self.username, "the user name")
        check_value(self.password, "the password")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderSecret:
    """A value in a header of its own. The template holds `{value}` once."""

    header: str
    template: str
    value: Secret

    def __post_init__(self) -> None:
        _check_header_name(self.header)
        if len(self.template) > MAX_TEMPLATE_BYTES:
            raise CredentialError(f"the template has more than {MAX_TEMPLATE_BYTES} bytes")
        rest = self.template.replace(PLACEHOLDER, "", 1)
        if len(rest) == len(self.template) or "{" in rest or "}" in rest:
            raise CredentialError(f"the template holds {PLACEHOLDER} exactly once and no other braces")
        if not (rest.isascii() and rest.isprintable()) or self.template != self.template.strip():
            raise CredentialError("the template holds printable ASCII alone, with no space at its ends")
        _check_header_value(self.value, "the value")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySecret:
    """A value in a parameter of the query."""

    parameter: str
    value: Secret

    def __post_init__(self) -> None:
        if not _PARAMETER.fullmatch(self.parameter):
            raise CredentialError("the parameter's name has 1 to 64 of A-Z, a-z, 0-9, dot, dash, underscore")
        check_value(self.value, "the value")


@dataclass(frozen=True, slots=True, kw_only=True)
class CookieSecret:
    """A value in one cookie, which is the only one that the request carries."""

    cookie: str
    value: Secret

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.cookie):
            raise CredentialError("the cookie's name has 1 to 64 token characters (RFC 6265, section 4.1.1)")
        if not _COOKIE_OCTETS.fullmatch(check_value(self.value, "the value")):
            raise CredentialError("a cookie's value holds no space, quotation mark, comma, semicolon or back-slash")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigV4Secret:
    """An AWS access key. Region and service are told by the host where it is AWS's own, else they stand here."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None
    region: str | None = None
    aws_service: str | None = None

    def __post_init__(self) -> None:
        if not _ACCESS_KEY_ID.fullmatch(self.access_key_id):
            raise CredentialError("the access key id has 4 to 128 letters, digits and underscores")
        _check_header_value(self.secret_access_key, "the secret access key")
        if self.session_token is not None:
            _check_header_value(self.session_token, "the session token")
        for name, part in (("region", self.region), ("service", self.aws_service)):
            if part is not None and not _SCOPE_PART.fullmatch(part):
                raise CredentialError(f"the {name} has 1 to 64 of a-z, 0-9, dash")


HttpSecret: TypeAlias = BearerSecret | BasicSecret | HeaderSecret | QuerySecret | CookieSecret | SigV4Secret
PlainSecret: TypeAlias = BearerSecret | BasicSecret | HeaderSecret | CookieSecret  # one header, the same every time


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a request may not say itself, because the credential does: names of headers and of query parameters."""

    headers: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()

    def contested_by(self, headers: Iterable[str], parameters: Iterable[str]) -> str | None:
        """What of the request's own is claimed, in words; None where nothing is."""
        for name in headers:
            if name.lower() in self.headers:
                return f"the header {name.lower()}"
        for name in parameters:
            if name.casefold() in self.parameters:
                return f"the query parameter {name.casefold()}"
        return None


def claims(secret: HttpSecret) -> Claims:
    match secret:
        case BearerSecret() | BasicSecret():
            return Claims(headers=frozenset({"authorization"}))
        case HeaderSecret():
            return Claims(headers=frozenset({secret.header.lower()}))
        case CookieSecret():
            return Claims(headers=frozenset({"cookie"}))
        case QuerySecret():
            return Claims(parameters=frozenset({secret.parameter.casefold()}))
        case SigV4Secret():
            return Claims(headers=SIGNING_HEADERS, parameters=_SIGNING_PARAMETERS)


def header_for(secret: PlainSecret) -> tuple[str, Secret]:
    """Name and whole value of the header that carries the credential."""
    match secret:
        case BearerSecret():
            return "Authorization", Secret(b"Bearer " + secret.token.reveal())
        case BasicSecret():
            return "Authorization", Secret(b"Basic " + basic_pair(secret))
        case HeaderSecret():
            before, after = secret.template.split(PLACEHOLDER)
            return secret.header, Secret(before.encode("ascii") + secret.value.reveal() + after.encode("ascii"))
        case CookieSecret():
            return "Cookie", Secret(f"{secret.cookie}=".encode("ascii") + secret.value.reveal())


def parameter_for(secret: QuerySecret) -> Secret:
    """The whole parameter as it stands in a query, name and value."""
    value = quote(secret.value.reveal(), safe="-._~")
    return Secret(f"{quote(secret.parameter, safe='')}={value}")


def basic_pair(secret: BasicSecret) -> bytes:
    """User name and password as Basic authentication spells them."""
    return base64.b64encode(secret.username.encode("utf-8") + b":" + secret.password.reveal())


def check_value(value: Secret, what: str) -> str:
    """The text of a value that can be used at all. Raises CredentialError."""
    if not 1 <= len(value) <= MAX_VALUE_BYTES:
        raise CredentialError(f"{what} has not 1 to {MAX_VALUE_BYTES} bytes")
    try:
        text = value.reveal().decode("utf-8")
    except UnicodeDecodeError:
        raise CredentialError(f"{what} is not UTF-8 text") from None
    _check_characters(text, what)
    return text


def _check_characters(text: str, what: str) -> None:
    """Controls, line separators and halves of surrogate pairs: a pasted one is always a mistake."""
    if text.isascii() and text.isprintable():
        return
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in text):
        raise CredentialError(f"{what} holds a control character or a line break")


def _check_header_value(value: Secret, what: str) -> None:
    text = check_value(value, what)
    if not text.isascii() or text != text.strip():
        raise CredentialError(f"{what} goes into a header: ASCII alone, with no space at its ends")


def _check_header_name(name: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise CredentialError("the header's name has 1 to 64 token characters (RFC 9110, section 5.6.2)")
    if name.lower() in RESERVED_HEADERS or name.lower().startswith(RESERVED_PREFIXES):
        raise CredentialError("this header belongs to the transport and can't carry a credential")

"""Credentials as values: their kinds, where each may go, and how one is made from its parts.

A value goes only where a binding says: scheme, host, port and path prefix by whole segments, https unless the host is
named loopback. Whatever is doubtful in a URL (dot segments, encoded slashes, odd hosts) is not covered.
Stores nothing, sends nothing; messages never hold a value.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from broker.core.http_secrets import (
    MAX_VALUE_BYTES,
    PLACEHOLDER,
    BasicSecret,
    BearerSecret,
    Claims,
    CookieSecret,
    CredentialError,
    HeaderSecret,
    HttpSecret,
    QuerySecret,
    SigV4Secret,
    basic_pair,
    check_value,
    claims,
    header_for,
)
from broker.core.secret import Secret
from broker.core.sigv4 import SigningError, scope_of
from broker.core.ssh.model import SSH_PORT
from broker.core.ssh.secrets import SshKeySecret, SshPasswordSecret
from broker.core.urls import DEFAULT_PORTS, UrlError, canonical_url, check_path, is_loopback

__all__ = [
    "ALONE", "MAX_BINDINGS", "MAX_VALUE_BYTES", "PLACEHOLDER", "BasicSecret", "BearerSecret", "Beside", "Binding",
    "Claims", "CookieSecret", "Credential", "CredentialError", "CredentialKind", "CredentialMeta", "CredentialSecret",
    "HeaderSecret", "HttpSecret", "QuerySecret", "SigV4Secret", "SshSecret", "check_bindings", "check_name", "claims",
    "covers", "covers_url", "header_for", "kind_of", "make_secret", "parse_binding", "scrub_values", "with_value",
]  # fmt: skip

MAX_BINDINGS = 16
SSH = "ssh"
MAX_PORT = 65_535

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SSH_PLACE = re.compile(
    r"ssh://(?P<user>[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63})@(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#\s]+)(?::(?P<port>[0-9]{1,5}))?/?"
)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*/?")


class CredentialKind(StrEnum):
    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY = "query"
    COOKIE = "cookie"
    SIGV4 = "sigv4"
    SSH_KEY = "ssh_key"
    SSH_PASSWORD = "ssh_password"  # noqa: S105 - the name of a kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """An origin and a path prefix. Made by `parse_binding`; `host` is canonical, an IPv6 address without brackets."""

    scheme: str
    host: str
    port: int
    path: str  # begins with a slash; "/" covers the whole origin
    user: str = ""  # of an SSH host, and never of another

    @property
    def url(self) -> str:
        """The canonical spelling, as lists and cards show it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.scheme == SSH:
            return f"{SSH}://{self.user}@{host}:{self.port}"
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{'' if self.path == '/' else self.path}"


SshSecret: TypeAlias = SshKeySecret | SshPasswordSecret
CredentialSecret: TypeAlias = HttpSecret | SshSecret
SSH_KINDS = frozenset({CredentialKind.SSH_KEY, CredentialKind.SSH_PASSWORD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A credential to be stored: its name, where it may go, and its secret parts."""

    name: str
    bindings: tuple[Binding, ...]
    secret: CredentialSecret

    def __post_init__(self) -> None:
        check_name(self.name)
        check_bindings(self.bindings, self.kind)
        if isinstance(self.secret, SigV4Secret):
            check_scopes(self.bindings, self.secret)

    @property
    def kind(self) -> CredentialKind:
        return kind_of(self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialMeta:
    """What may be listed of a stored credential: never a value, a user name or a template."""

    name: str
    kind: CredentialKind
    bindings: tuple[Binding, ...]
    version: int
    created_at_ms: int
    rotated_at_ms: int | None  # when the value in force was put in, if it is not the first
    rotation_pending: bool  # the value before it is kept until the new one is confirmed


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise CredentialError(
            "a credential's name has 1 to 64 of a-z, 0-9, dot, dash, underscore, first a letter or digit"
        )


def check_bindings(bindings: tuple[Binding, ...], kind: CredentialKind) -> None:
    if not 1 <= len(bindings) <= MAX_BINDINGS:
        raise CredentialError(f"a credential has 1 to {MAX_BINDINGS} bindings")
    if len(set(bindings)) != len(bindings):
        raise CredentialError("a binding is given twice")
    if any((binding.scheme == SSH) != (kind in SSH_KINDS) for binding in bindings):
        raise CredentialError(
            "an SSH credential is bound to ssh://user@host:port alone, and no other one to such a place"
        )


def check_scopes(bindings: tuple[Binding, ...], secret: SigV4Secret) -> None:
    """Every place is one whose region and service are known. Raises CredentialError."""
    try:
        for binding in bindings:
            scope_of(secret, binding.host)
    except SigningError as cause:
        raise CredentialError(str(cause)) from None


def kind_of(secret: CredentialSecret) -> CredentialKind:
    match secret:
        case BearerSecret():
            return CredentialKind.BEARER
        case BasicSecret():
            return CredentialKind.BASIC
        case HeaderSecret():
            return CredentialKind.HEADER
        case QuerySecret():
            return CredentialKind.QUERY
        case CookieSecret():
            return CredentialKind.COOKIE
        case SigV4Secret():
            return CredentialKind.SIGV4
        case SshKeySecret():
            return CredentialKind.SSH_KEY
        case SshPasswordSecret():
            return CredentialKind.SSH_PASSWORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a kind takes besides its value. `passphrase` opens the private key that the value is."""

    username: str | None = None
    header: str | None = None
    template: str | None = None
    passphrase: Secret | None = None
    certificate: str | None = None
    parameter: str | None = None
    cookie: str | None = None
    access_key_id: str | None = None
    session_token: Secret | None = None
    region: str | None = None
    aws_service: str | None = None

    @property
    def given(self) -> set[str]:
        return {name for name in self.__dataclass_fields__ if getattr(self, name) is not None}


ALONE = Beside()


def make_secret(kind: CredentialKind, value: Secret, beside: Beside = ALONE) -> CredentialSecret:
    """The secret parts of a kind from what a form or a command line gave. Raises CredentialError."""
    given = beside.given
    match kind:
        case CredentialKind.BEARER:
            _check_parts(kind, given, set())
            return BearerSecret(token=value)
        case CredentialKind.BASIC:
            _check_parts(kind, given, {"username"})
            return BasicSecret(username=beside.username or "", password=value)
        case CredentialKind.HEADER:
            _check_parts(kind, given | {"template"}, {"header", "template"})
            template = PLACEHOLDER if beside.template is None else beside.template
            return HeaderSecret(header=beside.header or "", template=template, value=value)
        case CredentialKind.QUERY:
            _check_parts(kind, given, {"parameter"})
            return QuerySecret(parameter=beside.parameter or "", value=value)
        case CredentialKind.COOKIE:
            _check_parts(kind, given, {"cookie"})
            return CookieSecret(cookie=beside.cookie or "", value=value)
        case CredentialKind.SIGV4:
            _check_parts(kind, given - {"session_token", "region", "aws_service"}, {"access_key_id"})
            return SigV4Secret(
                access_key_id=beside.access_key_id or "",
                secret_access_key=value,
                session_token=beside.session_token,
                region=beside.region,
                aws_service=beside.aws_service,
            )
        case CredentialKind.SSH_KEY:
            _check_parts(kind, given - {"passphrase", "certificate"}, set())
            return _key(value, beside)
        case CredentialKind.SSH_PASSWORD:
            _check_parts(kind, given, set())
            check_value(value, "the password")
            return SshPasswordSecret(password=value)


def with_value(secret: CredentialSecret, value: Secret, beside: Beside = ALONE) -> CredentialSecret:
    """The same credential with another value; basic also takes another user name. Raises CredentialError.

    A certificate is one key's, so another key comes with its own or with none.
    """
    match secret:
        case BasicSecret():
            _check_parts(CredentialKind.BASIC, beside.given | {"username"}, {"username"})
            return BasicSecret(username=secret.username if beside.username is None else beside.username, password=value)
        case HeaderSecret() | QuerySecret() | CookieSecret():
            _check_parts(kind_of(secret), beside.given, set())
            return replace(secret, value=value)
        case SigV4Secret():
            _check_parts(CredentialKind.SIGV4, beside.given - {"session_token"}, {"access_key_id"})
            return replace(
                secret,
                access_key_id=beside.access_key_id or "",
                secret_access_key=value,
                session_token=beside.session_token,
            )
        case BearerSecret() | SshKeySecret() | SshPasswordSecret():
            return make_secret(kind_of(secret), value, beside)


def _key(value: Secret, beside: Beside) -> SshKeySecret:
    from broker.core.ssh.keyform import KeyFormError, key_secret  # noqa: PLC0415 - 40 ms for SSH keys alone

    try:
        return key_secret(value, passphrase=beside.passphrase, certificate=beside.certificate)
    except KeyFormError as cause:
        raise CredentialError(str(cause)) from None


def scrub_values(secret: CredentialSecret) -> tuple[Secret, ...]:
    """Every value that must never appear in an answer, as it is; encodings of them are the scrubber's business."""
    match secret:
        case BearerSecret():
            return (secret.token,)
        case BasicSecret():
            return (secret.password, Secret(basic_pair(secret)))
        case HeaderSecret() | QuerySecret() | CookieSecret():
            return (secret.value,)
        case SigV4Secret(secret_access_key=key, session_token=token):
            return (key,) if token is None else (key, token)
        case SshKeySecret():
            from broker.core.ssh.keyform import private_parts  # noqa: PLC0415 - likewise

            return private_parts(secret)
        case SshPasswordSecret():
            return (secret.password,)


def parse_binding(url: str) -> Binding:
    """A binding from a URL that a human typed. Raises CredentialError."""
    if url.startswith(f"{SSH}:"):
        return _ssh_binding(url)
    try:
        parts = canonical_url(url)
    except UrlError as cause:
        raise CredentialError(f"a binding is https://host[:port][/path], and this is not one: {cause}") from cause
    if "?" in url or not _PREFIX.fullmatch(parts.path):
        raise CredentialError("a binding's path has plain segments alone: no query, no percent signs, ASCII only")
    if parts.scheme == "http" and not is_loopback(parts.host):
        raise CredentialError("http is accepted for a loopback host alone (localhost, 127.0.0.1, [::1]); use https")
    return Binding(scheme=parts.scheme, host=parts.host, port=parts.port, path=parts.path)


def covers(binding: Binding, *, scheme: str, host: str, port: int, path: str) -> bool:
    """Whether a request may carry the credential. Takes a canonical URL's parts; anything odd is not covered."""
    if (binding.scheme, binding.host, binding.port) != (scheme, host, port):
        return False
    try:
        check_path(path)
    except UrlError:
        return False
    if binding.path.endswith("/"):
        return path.startswith(binding.path)
    return path == binding.path or path.startswith(binding.path + "/")


def covers_url(binding: Binding, url: str) -> bool:
    """Like `covers`, for a URL in one piece; its query plays no part."""
    if url.startswith(f"{SSH}:") or binding.scheme == SSH:
        try:
            return binding == parse_binding(url)
        except CredentialError:
            return False
    try:
        parts = canonical_url(url)
    except UrlError:
        return False
    return covers(binding, scheme=parts.scheme, host=parts.host, port=parts.port, path=parts.path)


def _ssh_binding(url: str) -> Binding:
    found = _SSH_PLACE.fullmatch(url)
    port = int(found["port"] or SSH_PORT) if found is not None else 0
    if found is None or not 1 <= port <= MAX_PORT:
        raise CredentialError("an SSH binding is ssh://user@host or ssh://user@host:port, nothing behind it")
    try:
        host = canonical_url(f"https://{found['host']}/").host
    except UrlError as cause:
        raise CredentialError(f"an SSH binding's host is not acceptable: {cause}") from cause
    return Binding(scheme=SSH, host=host, port=port, path="/", user=found["user"])


def _check_parts(kind: CredentialKind, given: set[str], wanted: set[str]) -> None:
    if given != wanted:
        names = ", ".join(sorted(wanted)) or "the value alone"
        raise CredentialError(f"a credential of kind {kind} takes {names}; check {', '.join(sorted(given ^ wanted))}")

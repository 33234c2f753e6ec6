"""Which host keys are known for exactly one address and port, and what an offered one is by them.

Stricter than OpenSSH: a line counts for the very name or address that is dialled and for its port, and for no other.
`@revoked` counts wider: also under the bare name, whatever the port. A file is read as a whole or not at all.
Holds blobs and fingerprints; signatures and certificates are checked where they are received.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from broker.core.ssh.model import SSH_PORT, HostKeyMode, HostTrust

MAX_FILES_PARSED = 64
PIN = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")

_MARKERS = ("@cert-authority", "@revoked")
_HASHED = re.compile(r"\|1\|([A-Za-z0-9+/]+={0,2})\|([A-Za-z0-9+/]+={0,2})")


class KnownHostsError(ValueError):
    """A line of a known_hosts file, or a pin, can't be read. Says which, and what it should be."""


class KeyVerdict(StrEnum):
    ACCEPTED = "accepted"
    UNKNOWN = "unknown"  # nothing is known of this host
    CHANGED = "changed"  # something is known, and it is not this
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`marker` is empty for a plain key. `names` is the first field as it stands."""

    marker: str
    names: str
    blob: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one address and port: keys as blobs, and pins as `SHA256:...`."""

    keys: frozenset[bytes] = frozenset()
    pins: frozenset[str] = frozenset()
    authorities: frozenset[bytes] = frozenset()
    revoked: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A key that a host proved to hold. `authority` signed a certificate of it that is valid for this host."""

    key: bytes
    authority: bytes | None = None


def fingerprint(blob: bytes) -> str:
    """As OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def algorithm_of(blob: bytes) -> str:
    """The key type that a blob names; raises KnownHostsError where it names none."""
    size = int.from_bytes(blob[:4], "big")
    name = blob[4 : 4 + size]
    if len(blob) <= 4 + size or not re.fullmatch(rb"[a-z0-9@.-]{1,64}", name):
        raise KnownHostsError("a public key does not begin with its type")
    return name.decode("ascii")


def public_text(blob: bytes) -> str:
    """The key as it stands in a known_hosts file, after the names."""
    return f"{algorithm_of(blob)} {base64.b64encode(blob).decode('ascii')}"


def blob_of(public: str) -> bytes:
    """The blob of `type base64`, with or without a comment. Raises KnownHostsError."""
    fields = public.split(None, 2)
    if len(fields) < 2:
        raise KnownHostsError("a public key is its type and its base64")
    try:
        blob = base64.b64decode(fields[1], validate=True)
    except ValueError:  # binascii.Error is one, and what is not ASCII is another
        raise KnownHostsError("a public key's base64 can't be read") from None
    if algorithm_of(blob) != fields[0]:
        raise KnownHostsError("a public key is of another type than its line says")
    return blob


def known_of(trust: HostTrust, *, address: str, port: int, accepted: tuple[str, ...] = ()) -> Known:
    """What the policy knows of a host, with the keys that a human accepted where the mode is accept-new.

    Raises KnownHostsError.
    """
    lines = _parsed(trust.known_hosts)
    found = _found(lines, address.lower(), port)
    for pin in trust.pins:
        if not PIN.fullmatch(pin):
            raise KnownHostsError("a pin is SHA256: and 43 characters of base64, as ssh-keygen -l shows it")
    taken = frozenset(blob_of(key) for key in accepted) if trust.mode is HostKeyMode.ACCEPT_NEW else frozenset()
    if trust.mode is HostKeyMode.PINNED:  # only the pins, whatever else is known; a revoked key stays revoked
        return Known(pins=frozenset(trust.pins), revoked=found.revoked)
    return Known(
        keys=found.keys | taken, pins=frozenset(trust.pins), authorities=found.authorities, revoked=found.revoked
    )


def check_known_hosts(text: str) -> None:
    """Raises KnownHostsError on the first line that can't be read."""
    _parsed(text)


def judge(known: Known, offered: Offered) -> KeyVerdict:
    """A revoked key or authority is revoked whatever else is said of it."""
    if known.revoked & {offered.key, offered.authority}:
        return KeyVerdict.REVOKED
    if offered.authority is not None and offered.authority in known.authorities:
        return KeyVerdict.ACCEPTED
    if offered.key in known.keys or fingerprint(offered.key) in known.pins:
        return KeyVerdict.ACCEPTED
    return KeyVerdict.CHANGED if known.keys or known.pins else KeyVerdict.UNKNOWN


@lru_cache(maxsize=MAX_FILES_PARSED)
def _parsed(text: str) -> tuple[Line, ...]:
    return tuple(_lines(text))


def _lines(text: str) -> Iterator[Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        fields = raw.split()
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        if marker and marker not in _MARKERS:
            raise KnownHostsError(f"known_hosts, line {number}: {marker[:20]} is none of {', '.join(_MARKERS)}")
        if len(fields) < 3:
            raise KnownHostsError(f"known_hosts, line {number}: not names, key type and key")
        if fields[1].isdecimal():  # a key of version 1 of the protocol, which nothing speaks any more
            continue
        try:
            yield Line(marker=marker, names=fields[0], blob=blob_of(f"{fields[1]} {fields[2]}"))
        except KnownHostsError as cause:
            raise KnownHostsError(f"known_hosts, line {number}: {cause}") from None


def _found(lines: tuple[Line, ...], address: str, port: int) -> Known:
    spelled = address if port == SSH_PORT else f"[{address}]:{port}"
    by_marker: dict[str, set[bytes]] = {"": set(), "@cert-authority": set(), "@revoked": set()}
    for line in lines:
        names = {spelled, address} if line.marker == "@revoked" else {spelled}
        if any(_matches(line.names, name) for name in names):
            by_marker[line.marker].add(line.blob)
    return Known(
        keys=frozenset(by_marker[""]),
        authorities=frozenset(by_marker["@cert-authority"]),
        revoked=frozenset(by_marker["@revoked"]),
    )


def _matches(names: str, spelled: str) -> bool:
    if names.startswith("|"):
        return _matches_hash(names, spelled)
    matched = False
    for pattern in names.lower().split(","):
        if _is_like(pattern.removeprefix("!"), spelled):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def _matches_hash(names: str, spelled: str) -> bool:
    parts = _HASHED.fullmatch(names)
    if parts is None:
        return False
    try:
        salt, wanted = (base64.b64decode(part, validate=True) for part in parts.groups())
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(salt, spelled.encode("utf-8"), "sha1").digest(), wanted)


def _is_like(pattern: str, text: str) -> bool:
    """`*` is any run of characters, `?` is one; nothing else is special. In time linear in their product."""
    at = mark = 0
    star = -1
    position = 0
    while position < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in {"?", text[position]}:
            at += 1
            position += 1
        elif star >= 0:
            mark += 1
            at, position = star + 1, mark
        else:
            return False
    return not pattern[at:].strip("*")

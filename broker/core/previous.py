"""What a request has in common with the last one of its kind that a human said yes to, and where it differs.

A request is taken apart into named values (method, path, each query parameter and header, each leaf of a JSON body,
each line of a text), so that a card can say what changed. Bounds everything: what is too large is told as its digest.
Keeps nothing itself, and knows no secret: a credential is no part of a frozen request.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from broker.contract.wire import JsonObject, JsonValue, WireError, canonical, parse_json
from broker.core.arguments import split_query
from broker.core.channels import Frozen
from broker.core.ssh.card import payload, target_url
from broker.core.ssh.frozen import FrozenSsh, described

BODY_COMPARED_BYTES = 16_384
LEAVES_COMPARED = 400
LINES_COMPARED = 120
CHANGES_SHOWN = 40
VALUE_SHOWN_CHARACTERS = 160
_PLAIN_NAME = re.compile(r'(?![0-9]+\Z)[^."\s\\]+')
COMMON_SHOWN_CHARACTERS = 24  # of what two long values begin with alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A request that a human said yes to, as far as the next one of its kind is held against it."""

    correlation_id: str
    request_digest: str
    scope: str
    at_ms: int
    values: tuple[tuple[str, str], ...]
    lines: tuple[str, ...] | None  # of a body that is text, and no JSON


def approved(frozen: Frozen, *, correlation_id: str, scope: str, at_ms: int) -> Approved:
    lines = _lines(frozen)
    return Approved(
        correlation_id=correlation_id,
        request_digest=frozen.digest,
        scope=scope,
        at_ms=at_ms,
        values=tuple(_values(frozen, as_lines=lines is not None).items()),
        lines=lines,
    )


def held_against(before: Approved, frozen: Frozen) -> JsonObject:
    """The card's part on the request before this one."""
    now = approved(frozen, correlation_id="", scope="", at_ms=0)
    changes = list(_changes(dict(before.values), dict(now.values)))
    if before.lines is not None and now.lines is not None:
        changes += _changed_lines(before.lines, now.lines)
    elif before.lines != now.lines:
        changes.append(_change("body", _size(before.lines), _size(now.lines)))
    if (
        not changes and before.request_digest != now.request_digest
    ):  # blanks, order, escapes, a budget: no word of ours for it
        changes.append(_change("request", before.request_digest, now.request_digest))
    shown: list[JsonValue] = list(changes[:CHANGES_SHOWN])
    return {
        "correlation_id": before.correlation_id,
        "approved_at_ms": before.at_ms,
        "scope": before.scope,
        "request_digest": before.request_digest,
        "changes": shown,
        "more": max(0, len(changes) - CHANGES_SHOWN),
    }


def _values(frozen: Frozen, *, as_lines: bool) -> dict[str, str]:
    values: dict[str, str] = {}
    if isinstance(frozen, FrozenSsh):
        values["host"] = target_url(frozen)
        values["command"] = described(frozen.action)
    else:
        values["method"] = frozen.method
        values["path"] = frozen.url.split("?", 1)[0]
        for name, value in split_query(frozen.query):
            _put(values, f"query {_named(name)}", value)
        for name, value in frozen.headers:
            _put(values, f"header {name}", value)
    body = _body(frozen)
    if body and not as_lines:
        for name, value in _leaves_of(body):
            _put(values, name, value)
    return values


def _put(values: dict[str, str], name: str, value: str) -> None:
    """Under its name; what comes again has a number."""
    place, number = name, 1
    while place in values:
        number += 1
        place = f"{name} ({number})"
    values[place] = value


def _leaves_of(body: bytes) -> list[tuple[str, str]]:
    """A JSON body leaf by leaf; any other by its digest."""
    parsed = _parsed(body)
    if parsed is not None:
        leaves = list(_leaves("body", parsed))
        if len(leaves) <= LEAVES_COMPARED:
            return leaves
    return [("body", _digest_of(body))]


def _leaves(place: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{place}.{_named(name)}", inner)
    elif isinstance(value, list | tuple) and value:
        for number, inner in enumerate(value):
            yield from _leaves(f"{place}.{number}", inner)
    else:
        yield place, _spelled(value)


def _named(name: str) -> str:
    """A name, in quotes where it could be taken for a path, a place in a list or a second value."""
    return name if _PLAIN_NAME.fullmatch(name) else _spelled(name)


def _spelled(value: JsonValue) -> str:
    try:
        return canonical(value).decode()
    except WireError:  # a fraction
        return repr(value)


def _parsed(body: bytes) -> JsonValue:
    if len(body) > BODY_COMPARED_BYTES:
        return None
    try:
        return parse_json(body)
    except WireError:
        return None


def _lines(frozen: Frozen) -> tuple[str, ...] | None:
    body = _body(frozen)
    if not body or len(body) > BODY_COMPARED_BYTES or _parsed(body) is not None:
        return None
    try:
        lines = body.decode().split("\n")
    except UnicodeDecodeError:
        return None
    return tuple(lines) if len(lines) <= LINES_COMPARED else None


def _body(frozen: Frozen) -> bytes:
    return payload(frozen) if isinstance(frozen, FrozenSsh) else frozen.body


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[JsonObject]:
    for name in [*before, *(name for name in now if name not in before)]:
        was, becomes = before.get(name), now.get(name)
        if was != becomes:
            yield _change(name, was, becomes)


def _changed_lines(before: tuple[str, ...], now: tuple[str, ...]) -> Iterator[JsonObject]:
    for kind, start, end, now_start, now_end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            for number in range(start, end):
                yield _change(f"body line {number + 1}", before[number], None)
            for number in range(now_start, now_end):
                yield _change(f"body line {number + 1}", None, now[number])


def _change(name: str, was: str | None, becomes: str | None) -> JsonObject:
    """Where both are long and begin alike, what they begin with is left out: the difference has to be seen."""
    skipped = max(0, _alike(was or "", becomes or "") - COMMON_SHOWN_CHARACTERS)
    return {"what": name[:VALUE_SHOWN_CHARACTERS], "was": _shown(was, skipped), "now": _shown(becomes, skipped)}


def _shown(value: str | None, skipped: int) -> str | None:
    if value is None or len(value) <= VALUE_SHOWN_CHARACTERS:
        return value
    rest = value[skipped:]
    cut = rest if len(rest) <= VALUE_SHOWN_CHARACTERS else f"{rest[:VALUE_SHOWN_CHARACTERS]}…"
    return f"…{cut}" if skipped else cut


def _alike(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _size(lines: tuple[str, ...] | None) -> str | None:
    return None if lines is None else f"{len(lines)} lines of text"


def _digest_of(body: bytes) -> str:
    return f"{len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()}"

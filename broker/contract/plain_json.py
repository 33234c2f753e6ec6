"""Strict JSON for documents that are mostly spelled plainly, as our own records are.

Accepts, gives and refuses exactly what wire.parse_object does. A document without escapes, floats and deep nesting is
parsed without a call into Python for each object; any other goes the long way.
"""

import json
from json.scanner import make_scanner

from broker.contract.wire import JsonValue, parse_object

MAX_PLAIN_BYTES = 1 << 16
_MAX_BRACKETS = 48


class _UnplainError(ValueError):
    """Something that only the long way judges."""


def _unplain(_: str) -> float:
    raise _UnplainError


_scan = make_scanner(json.JSONDecoder(parse_float=_unplain, parse_constant=_unplain))  # type: ignore[arg-type]  # typeshed asks for what the call gives


def parse_plain_object(raw: bytes) -> dict[str, JsonValue]:
    """The document, which has to be an object. Raises WireError as parse_object does."""
    value = _plain(raw) if len(raw) <= MAX_PLAIN_BYTES else None
    return parse_object(raw) if value is None else value


def _plain(raw: bytes) -> dict[str, JsonValue] | None:
    """None where the long way has to judge: also for everything that is no JSON, so that one place words the fault."""
    try:
        text = raw.decode()
        if "\\" in text or ("[" in text and text.count("[") + text.count("{") > _MAX_BRACKETS):
            return None
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError):
        return None
    if end != len(text) or type(value) is not dict:
        return None
    # Without escapes each name ends in `":`. Were a name there twice, the text would hold more of them than the value.
    names = text.count('":')
    if type(fields := value.get("fields")) is dict and len(value) + len(fields) == names:
        return value  # neither level repeats a name, and no deeper one has any
    return value if text.count("{") <= _MAX_BRACKETS and _names_in(value) == names else None


def _names_in(value: dict[str, JsonValue] | list[JsonValue]) -> int:
    own, inner = (len(value), value.values()) if isinstance(value, dict) else (0, value)
    return own + sum(_names_in(item) for item in inner if isinstance(item, dict | list))

"""Places in an answer: plain dotted paths such as `headers.retry-after`, `json.data.0.id` or `json."@odata.nextLink"`.

No expression and no function: a place is there or it is not. In a place of rows `*` stands for every member.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from broker.contract.wire import JsonValue

STEP = r'(?:[A-Za-z0-9_@$#-]{1,128}|"[^"\\\x00-\x1f]{1,128}")'
PLACE = rf"(?:headers|json|xml)(?:\.{STEP}){{1,16}}"
PLACE_SHAPE = 'a dotted place in the answer, such as json.id, headers.retry-after or json."odd name"'
ROWS = rf"(?:json|xml)(?:\.(?:{STEP}|\*)){{0,16}}"
ROWS_SHAPE = "a dotted place of a list, such as json, json.items or json.data.*.values"
WITHIN = rf"{STEP}(?:\.{STEP}){{0,16}}"
WITHIN_SHAPE = "a dotted place within a row, such as id or metadata.uid"
MAX_ROWS = 100_000
_STEP = re.compile(r'"([^"]*)"|([^."]+)')


@lru_cache(maxsize=4096)
def steps_of(path: str) -> tuple[str, ...]:
    return tuple(quoted or plain for quoted, plain in _STEP.findall(path))


def at(view: JsonValue, path: str) -> JsonValue:
    """The value at a place; None where there is none."""
    value = view
    for step in steps_of(path):
        value = _below(value, step)
    return value


def rows_at(view: JsonValue, path: str) -> tuple[JsonValue, ...] | None:
    """The members of the list, or lists, at a place; None where there is no list.

    A place that ends in `*` is one of members already. XML has no lists: an element that stands alone is a list of
    one, and one that is not there of none.
    """
    found: list[JsonValue] = [view]
    steps = steps_of(path)
    for step in steps:
        if step == "*" and not all(isinstance(value, list | dict) for value in found):
            return None
        found = [member for value in found for member in (_members(value) if step == "*" else [_below(value, step)])]
        if len(found) > MAX_ROWS:
            return None
    if steps[:1] == ("xml",):
        return None if at(view, "xml") is None else _elements(found)
    if steps[-1:] == ("*",):
        return tuple(found)
    if not all(isinstance(value, list) for value in found):
        return None
    return tuple(row for value in found if isinstance(value, list) for row in value)


def _below(value: JsonValue, step: str) -> JsonValue:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, Sequence) and not isinstance(value, str) and step.isascii() and step.isdigit():
        index = int(step)
        return value[index] if index < len(value) else None
    return None


def _members(value: JsonValue) -> list[JsonValue]:
    return list(value.values()) if isinstance(value, Mapping) else list(value) if isinstance(value, list) else []


def _elements(found: list[JsonValue]) -> tuple[JsonValue, ...]:
    return tuple(row for value in found if value is not None for row in (value if isinstance(value, list) else [value]))

"""`{name}` in the arguments that a policy declares: each stands for an argument of the frozen request.

A text that is one placeholder and nothing else becomes the argument itself, whatever its type; within a longer text it
is spelled out. Dots lead into objects. What names an argument that the request has not is not filled at all.
"""

import re
from collections.abc import Mapping

from broker.contract.wire import JsonObject, JsonValue
from broker.core.arguments import text_of

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\}")


class Unfilled(ValueError):  # noqa: N818 - it names what the text is
    """A placeholder stands for an argument that the request does not have."""


def filled(value: JsonValue, args: JsonObject) -> JsonValue:
    """The value with every placeholder filled. Raises Unfilled."""
    if isinstance(value, str):
        whole = _NAME.fullmatch(value)
        return (
            _argument(whole[1], args) if whole else _NAME.sub(lambda match: text_of(_argument(match[1], args)), value)
        )
    if isinstance(value, Mapping):
        return {name: filled(item, args) for name, item in value.items()}
    return [filled(item, args) for item in value] if isinstance(value, list | tuple) else value


def whole_name(text: str) -> str | None:
    """The argument that the text is the placeholder of; None where it is more than that."""
    match = _NAME.fullmatch(text)
    return None if match is None else match[1]


def _argument(name: str, args: JsonObject) -> JsonValue:
    value: JsonValue = args
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        raise Unfilled(name)
    return value

"""Reading sealed content: exactly the named fields, each of its type.

Sealed content was written by this program, so a fault here means a fault of the program or a newer format.
"""

import base64
from collections.abc import Collection
from dataclasses import dataclass

from broker.contract.wire import JsonObject, JsonValue, WireError, parse_json

MAX_CONTENT_BYTES = 8 << 20


class FieldError(ValueError):
    """Sealed content is not of the form that was expected. Names the field, not what it holds."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with exactly the fields that were named."""

    _values: JsonObject

    @staticmethod
    def parse(content: bytes, names: Collection[str]) -> "Fields":
        try:
            return Fields.of(parse_json(content, max_bytes=MAX_CONTENT_BYTES), names)
        except WireError as cause:
            raise FieldError(f"sealed content is {cause}") from cause

    @staticmethod
    def of(value: JsonValue, names: Collection[str]) -> "Fields":
        if not isinstance(value, dict) or value.keys() != set(names):
            raise FieldError(f"sealed content has not exactly {', '.join(sorted(names))}")
        return Fields(value)

    def text(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, str):
            raise FieldError(f"{name} is no text")
        return value

    def integer(self, name: str) -> int:
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError(f"{name} is no integer")
        return value

    def octets(self, name: str) -> bytes:
        try:
            return base64.b64decode(self.text(name), validate=True)
        except ValueError:
            raise FieldError(f"{name} is not base64") from None

    def table(self, name: str) -> JsonObject:
        value = self._values[name]
        if not isinstance(value, dict):
            raise FieldError(f"{name} is no object")
        return value

    def items(self, name: str) -> list[JsonValue]:
        value = self._values[name]
        if not isinstance(value, list):
            raise FieldError(f"{name} is no list")
        return value

    def absent(self, name: str) -> bool:
        return self._values[name] is None


def spelled(octets: bytes) -> str:
    """The spelling that `octets` reads."""
    return base64.b64encode(octets).decode("ascii")

"""Typed reading of an object that the daemon sent; what nobody read is refused, so that nothing stays unseen."""

from broker.client.faults import Broken
from broker.contract.wire import JsonValue


class Fields:
    """Typed reading of one object; `close` refuses what nobody read, in it and in its parts."""

    def __init__(self, value: JsonValue, where: str) -> None:
        if not isinstance(value, dict):
            raise Broken(f"the daemon's card is not readable: {where} is no object")
        self._left: dict[str, JsonValue] = dict(value)
        self._where = where
        self._parts: list[Fields] = []

    def _take(self, name: str) -> JsonValue:
        if name not in self._left:
            raise Broken(f"the daemon's card is not readable: {self._where}.{name} is missing")
        return self._left.pop(name)

    def _fault(self, name: str, expected: str) -> Broken:
        return Broken(f"the daemon's card is not readable: {self._where}.{name} is not {expected}")

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise self._fault(name, "text")
        return value

    def text_or_none(self, name: str) -> str | None:
        value = self._take(name)
        if value is not None and not isinstance(value, str):
            raise self._fault(name, "text or null")
        return value

    def text_if_there(self, name: str) -> str | None:
        """A text that is null, or not there at all."""
        return self.text_or_none(name) if name in self._left else None

    def integer(self, name: str) -> int:
        value = self.integer_or_none(name)
        if value is None:
            raise self._fault(name, "an integer")
        return value

    def integer_or_none(self, name: str) -> int | None:
        value = self._take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fault(name, "an integer")
        return value

    def flag(self, name: str) -> bool:
        value = self._take(name)
        if not isinstance(value, bool):
            raise self._fault(name, "true or false")
        return value

    def items(self, name: str) -> list[JsonValue]:
        value = self._take(name)
        if not isinstance(value, list):
            raise self._fault(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(item if isinstance(item, str) else self._refuse(name) for item in self.items(name))

    def texts_or_none(self, name: str) -> tuple[str, ...] | None:
        if self._left.get(name) is None:
            self._take(name)
            return None
        return self.texts(name)

    def _refuse(self, name: str) -> str:
        raise self._fault(name, "a list of texts")

    def part_or_none(self, name: str) -> "Fields | None":
        """A part that is null, or not there at all."""
        if self._left.get(name) is None:
            self._left.pop(name, None)
            return None
        return self.part(name)

    def part(self, name: str) -> "Fields":
        return self._below(self._take(name), name)

    def parts(self, name: str) -> list["Fields"]:
        return [self._below(item, name) for item in self.items(name)]

    def _below(self, value: JsonValue, name: str) -> "Fields":
        part = Fields(value, f"{self._where}.{name}")
        self._parts.append(part)
        return part

    def close(self) -> None:
        for part in self._parts:
            part.close()
        if self._left:
            odd = ", ".join(sorted(self._left))
            raise Broken(f"the card says more than this client can show ({self._where}: {odd}): update doorward")

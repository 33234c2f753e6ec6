"""Reading a document strictly: each value is what it should be, or a fault with its line and what was expected.

Faults are gathered and never raised on the way, so that a file is told all that is wrong with it at once.
"""

from collections.abc import Collection, Mapping

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix.faults import FileFault
from broker.matrix.yaml_tree import Lines, Path


class Reading:
    """One document while it is read."""

    def __init__(self, source: str, lines: Lines) -> None:
        self.source = source
        self.faults: list[FileFault] = []
        self._lines = lines

    def line(self, path: Path) -> int:
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def fault(self, path: Path, problem: str, expected: str = "") -> None:
        self.faults.append(FileFault(source=self.source, line=self.line(path), problem=problem, expected=expected))

    def table(self, path: Path, value: JsonValue, known: Collection[str] = (), needed: Collection[str] = ()) -> "Table":
        """A mapping with known keys alone; with no known ones any will do."""
        if not isinstance(value, Mapping):
            self.fault(path, f"{_name(path)} is {_kind(value)}", "a mapping")
            return Table(self, path, {})
        if known:
            for key in value:
                if key not in known:
                    self.fault((*path, key), f"{key!r} is no key of {_name(path)}", ", ".join(sorted(known)))
        for key in needed:
            if key not in value:
                self.fault(path, f"{_name(path)} has no {key!r}", "it is needed")
        return Table(self, path, value)

    def rows(self, path: Path, value: JsonValue) -> list[tuple[Path, JsonValue]]:
        if not isinstance(value, list):
            self.fault(path, f"{_name(path)} is {_kind(value)}", "a list")
            return []
        return [((*path, place), one) for place, one in enumerate(value)]


class Table:
    """A mapping of the document; a key that is absent or null gives the default."""

    def __init__(self, reading: Reading, path: Path, values: JsonObject) -> None:
        self.reading = reading
        self.path = path
        self.values = values

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def at(self, key: str) -> Path:
        return (*self.path, key)

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return default if value is None else value
        self._wrong(key, value, "text")
        return default

    def word(self, key: str, words: Collection[str], default: str = "") -> str:
        """One of a closed set."""
        value = self.text(key, default)
        if value and value not in words:
            self.reading.fault(self.at(key), f"{key} is {value!r}", ", ".join(sorted(words)))
            return default
        return value

    def whole(self, key: str, default: int = 0, *, least: int = 0) -> int:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._wrong(key, value, f"a whole number from {least}")
            return default
        return value

    def seconds(self, key: str, default: float = 0.0) -> float:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(key, value, "a number of seconds")
            return default
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self._wrong(key, value, "true or false")
        return default

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts; None where nothing is said."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(str(one) for one in value)
        self._wrong(key, value, "a list of texts")
        return None

    def table(self, key: str, known: Collection[str] = (), needed: Collection[str] = ()) -> "Table | None":
        value = self.values.get(key)
        return None if value is None else self.reading.table(self.at(key), value, known, needed)

    def rows(self, key: str) -> list[tuple[Path, JsonValue]]:
        value = self.values.get(key)
        return [] if value is None else self.reading.rows(self.at(key), value)

    def _wrong(self, key: str, value: JsonValue, expected: str) -> None:
        self.reading.fault(self.at(key), f"{key} is {_kind(value)}", expected)


def _name(path: Path) -> str:
    """What a table is called in a message: its own key, and the number of a row."""
    words = (
        [f"{path[-2]}[{path[-1]}]" if isinstance(path[-1], int) and len(path) > 1 else str(path[-1])] if path else []
    )
    return words[0] if words else "the file"


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:40]!r}"
        case Mapping():
            return "a mapping"
        case _:
            return "a list"

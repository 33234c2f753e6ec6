"""Reading one TOML table strictly: each reader says what it expects, and every fault is kept with its line.

A reader that finds a fault gives back a stand-in, so that reading goes on to the next fault; whoever reads drops
everything once there is one. Reads values that tomllib made; opens no file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, TypeVar

from broker.core.policy.faults import Fault
from broker.core.policy.place import Place

KeyPath: TypeAlias = "tuple[str | int, ...]"
Member = TypeVar("Member", bound=Enum)

MAX_TEXT = 200
MAX_MEMBERS = 256
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]*")
_KINDS: dict[type, str] = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One parsed file: its name, its values, and where each key stands."""

    name: str
    values: Mapping[str, object]
    line_of: Callable[[KeyPath], int]


@dataclass(slots=True, kw_only=True)
class Faults:
    """Collects what is wrong, over all tables of all files."""

    found: list[Fault] = field(default_factory=list)

    def __iter__(self) -> Iterator[Fault]:
        return iter(sorted(set(self.found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table at a place of a document. `known` are the keys that it may hold."""

    document: Document
    path: KeyPath
    values: Mapping[str, object]
    known: frozenset[str]
    faults: Faults

    @property
    def place(self) -> Place:
        return Place(file=self.document.name, line=self.document.line_of(self.path))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def refuse_unknown(self) -> None:
        """Every key that has no meaning here is a fault."""
        for key in self.values:
            if key not in self.known:
                from difflib import get_close_matches  # noqa: PLC0415 - 15 ms that a policy without faults does not pay

                near = get_close_matches(key, self.known, n=1)
                self.fault(key, "unknown key", near[0] if near else f"one of {', '.join(sorted(self.known))}")

    def fault(self, key: str | int | None, problem: str, expected: str = "") -> None:
        path = self.path if key is None else (*self.path, key)
        self.fault_at(path, problem, expected)

    def fault_at(self, path: KeyPath, problem: str, expected: str = "") -> None:
        self.faults.found.append(
            Fault(
                file=self.document.name,
                line=self.document.line_of(path),
                key=spelled(path),
                problem=problem,
                expected=expected,
            )
        )

    def fault_in(self, key: str, member: str, problem: str, expected: str = "") -> None:
        """A fault of one member of a list of strings."""
        values = self.values[key]
        position = values.index(member) if isinstance(values, list) else 0
        self.fault_at((*self.path, key, position), problem, expected)

    def text(self, key: str, default: str | None = None, *, pattern: str = "", expected: str = "") -> str:
        """A string; where `pattern` is given the whole of it has to fit. Required where there is no default."""
        value = self._typed(key, str, default, wanted=expected)
        if key in self.values and isinstance(self.values[key], str):
            self.check_text((*self.path, key), value, pattern=pattern, expected=expected)
        return value

    def optional_text(self, key: str, *, pattern: str = "", expected: str = "") -> str | None:
        return self.text(key, "", pattern=pattern, expected=expected) if key in self.values else None

    def check_text(self, path: KeyPath, value: str, *, pattern: str = "", expected: str = "") -> bool:
        if pattern and not re.fullmatch(pattern, value):
            self.fault_at(path, "malformed", expected)
            return False
        if not pattern and (len(value) > MAX_TEXT or not _PRINTABLE.fullmatch(value)):
            self.fault_at(path, "unprintable or too long", f"at most {MAX_TEXT} printable characters on one line")
            return False
        return True

    def flag(self, key: str, *, default: bool) -> bool:
        return self._typed(key, bool, default)

    def optional_flag(self, key: str) -> bool | None:
        return self.flag(key, default=False) if key in self.values else None

    def integer(self, key: str, default: int | None, *, low: int, high: int) -> int:
        value = self._typed(key, int, default)
        if key in self.values and type(self.values[key]) is int and not low <= value <= high:
            self.fault(key, "out of range", f"an integer from {low} to {high}")
        return value

    def optional_integer(self, key: str, *, low: int, high: int) -> int | None:
        return self.integer(key, low, low=low, high=high) if key in self.values else None

    def milliseconds(self, key: str, default_ms: int, *, low_ms: int, high_ms: int) -> int:
        """Seconds in the file, with a fraction or without."""
        if key not in self.values:
            return default_ms
        value = self.values[key]
        wanted = f"a number of seconds from {low_ms / 1000:g} to {high_ms / 1000:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault(key, f"it is {kind_of(value)}", wanted)
        elif not low_ms / 1000 <= value <= high_ms / 1000:
            self.fault(key, "out of range", wanted)
        else:
            return round(value * 1000)
        return default_ms

    def choice(self, key: str, members: Sequence[str], default: str | None = None) -> str:
        value = self._typed(key, str, default, wanted=" or ".join(members))
        if key in self.values and isinstance(self.values[key], str) and value not in members:
            self.fault(key, "not one of the values that it can have", " or ".join(members))
        return value if value in members else members[0]

    def member(self, key: str, kind: type[Member], allowed: Iterable[Member] | None = None) -> Member:
        """A required member of a closed set."""
        spelling = {str(member.value): member for member in (kind if allowed is None else allowed)}
        return spelling[self.choice(key, tuple(spelling))]

    def optional_member(self, key: str, kind: type[Member], allowed: Iterable[Member] | None = None) -> Member | None:
        return self.member(key, kind, allowed) if key in self.values else None

    def members(self, key: str, kind: type[Member]) -> tuple[Member, ...]:
        spelling = {str(member.value): member for member in kind}
        words = self.texts(key, pattern="|".join(map(re.escape, spelling)), expected=" or ".join(spelling))
        return tuple(spelling[word] for word in words)

    def texts(self, key: str, *, pattern: str = "", expected: str = "", may_be_empty: bool = False) -> tuple[str, ...]:
        """A list of strings without repetitions; () where there is none. Only members that fit come back."""
        fitting: list[str] = []
        for position, value in self._list(key, may_be_empty=may_be_empty):
            if not isinstance(value, str):
                self.fault_at((*self.path, key, position), f"it is {kind_of(value)}", "a string")
            elif value in fitting:
                self.fault_at((*self.path, key, position), "it stands twice in the list", "each member once")
            elif self.check_text((*self.path, key, position), value, pattern=pattern, expected=expected):
                fitting.append(value)
        return tuple(fitting)

    def integers(self, key: str, *, low: int, high: int) -> tuple[int, ...]:
        fitting: list[int] = []
        for position, value in self._list(key):
            if type(value) is int and low <= value <= high and value not in fitting:
                fitting.append(value)
            else:
                self.fault_at((*self.path, key, position), "not usable", f"integers from {low} to {high}, each once")
        return tuple(fitting)

    def table(self, key: str, known: frozenset[str]) -> "Table | None":
        """A table below this one, None where there is none. Its unknown keys are refused here."""
        if key not in self.values:
            return None
        return self._below((*self.path, key), self.values[key], known)

    def tables(self, key: str, known: frozenset[str]) -> "tuple[Table, ...]":
        below = (self._below((*self.path, key, position), value, known) for position, value in self._list(key))
        return tuple(table for table in below if table is not None)

    def named(self, key: str, known: frozenset[str], *, names: str, expected: str) -> "dict[str, Table]":
        """Tables by name. A name that does not fit is a fault, and its table is still read for its own faults."""
        outer = self.table(key, frozenset())
        found: dict[str, Table] = {}
        for name, value in outer.values.items() if outer is not None else ():
            path = (*self.path, key, name)
            self.check_text(path, name, pattern=names, expected=expected)
            below = self._below(path, value, known)
            if below is not None:
                found[name] = below
        return found

    def pairs(self, key: str) -> Iterator[tuple[str, object]]:
        """The entries of a table whose keys are free."""
        if key in self.values:
            value = self.values[key]
            if isinstance(value, Mapping):
                yield from value.items()
            else:
                self.fault(key, f"it is {kind_of(value)}", "a table")

    def _below(self, path: KeyPath, value: object, known: frozenset[str]) -> "Table | None":
        if not isinstance(value, Mapping):
            self.fault_at(path, f"it is {kind_of(value)}", "a table")
            return None
        table = Table(document=self.document, path=path, values=value, known=known, faults=self.faults)
        if known:
            table.refuse_unknown()
        return table

    def _list(self, key: str, *, may_be_empty: bool = False) -> Iterator[tuple[int, object]]:
        if key not in self.values:
            return
        value = self.values[key]
        if not isinstance(value, list):
            self.fault(key, f"it is {kind_of(value)}", "a list")
        elif (not value and not may_be_empty) or len(value) > MAX_MEMBERS:
            self.fault(key, f"it has {len(value)} members", f"1 to {MAX_MEMBERS}; leave it out where it says nothing")
        else:
            yield from enumerate(value)

    def _typed(self, key: str, kind: type["_Value"], default: "_Value | None", wanted: str = "") -> "_Value":
        if key not in self.values:
            if default is None:
                self.fault(key, "missing", wanted or _KINDS[kind])
                return kind()
            return default
        value = self.values[key]
        if type(value) is not kind:
            self.fault(key, f"it is {kind_of(value)}", _KINDS[kind])
            return kind() if default is None else default
        return value


_Value = TypeVar("_Value", str, bool, int)


def kind_of(value: object) -> str:
    """A TOML value's kind in words."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return _KINDS.get(type(value), "a date or time")


def spelled(path: KeyPath) -> str:
    """A key path as it would be written: services.github.operations."issues.list".errors[0]."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            quoted = part if _BARE.fullmatch(part) else '"' + part.encode("unicode_escape").decode("ascii") + '"'
            text += f".{quoted}" if text else quoted
    return text or "the file"

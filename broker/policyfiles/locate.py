"""Where each key of a TOML text stands. For texts that tomllib accepted: it finds lines and judges nothing."""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable

from broker.core.policy.table import KeyPath

_SKIPPED = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_INLINE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_STRINGS = {
    '"""': re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    "'''": re.compile(r"'''.*?'{3,5}", re.DOTALL),
    '"': re.compile(r'"(?:\\.|[^"\\\n])*"'),
    "'": re.compile(r"'[^'\n]*'"),
}


def locate(text: str) -> Callable[[KeyPath], int]:
    """A function from key path to line, counted from 1; a path that does not stand there has its nearest parent's."""
    found = _Scanner(text).scan()

    def line_of(path: KeyPath) -> int:
        for length in range(len(path), -1, -1):
            if path[:length] in found:
                return found[path[:length]]
        return 1

    return line_of


class _Scanner:
    """Walks over the text once, noting the line of each key and each member of a list."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line_starts = [match.end() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._implied: dict[KeyPath, int] = {}  # tables that a longer header brings about
        self._last_entry: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip()
        while self._at < len(self._text):
            table = self._header() if self._text[self._at] == "[" else self._entry(table)
            self._skip()
        return self._implied | self._lines

    def _header(self) -> KeyPath:
        start = self._at
        is_list = self._text.startswith("[[", start)
        self._at += 2 if is_list else 1
        parts = self._key()
        self._at += 2 if is_list else 1
        path: KeyPath = ()
        for part in parts[:-1]:
            path = (*path, part)
            self._implied.setdefault(path, self._line(start))
            path = (*path, self._last_entry[path]) if path in self._last_entry else path
        path = (*path, parts[-1])
        self._note(path, start)
        if is_list:
            self._last_entry[path] = self._last_entry.get(path, -1) + 1
            path = (*path, self._last_entry[path])
            self._note(path, start)
        return path

    def _entry(self, table: KeyPath) -> KeyPath:
        """`key = value`; gives back the table that it stands in."""
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path, start)
        self._at += 1  # the equals sign
        self._value(path)
        return table

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            self._pass(_INLINE)
            parts.append(self._key_part())
            self._pass(_INLINE)
            if self._text[self._at : self._at + 1] != ".":
                return parts
            self._at += 1

    def _key_part(self) -> str:
        mark = self._text[self._at]
        if mark not in _STRINGS:
            return self._pass(_BARE)
        quoted = self._pass(_STRINGS[mark])
        return str(tomllib.loads(f"key = {quoted}")["key"])

    def _value(self, path: KeyPath) -> None:
        self._pass(_INLINE)
        mark = self._text[self._at]
        if mark == "[":
            self._list(path)
        elif mark == "{":
            self._inline_table(path)
        else:
            kind = next((kind for kind in _STRINGS if self._text.startswith(kind, self._at)), None)
            self._pass(_SCALAR if kind is None else _STRINGS[kind])

    def _list(self, path: KeyPath) -> None:
        self._at += 1
        position = 0
        self._skip()
        while self._text[self._at] != "]":
            self._note((*path, position), self._at)
            self._value((*path, position))
            position += 1
            self._skip_comma()
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip()
        while self._text[self._at] != "}":
            self._entry(path)
            self._skip_comma()
        self._at += 1

    def _skip_comma(self) -> None:
        self._skip()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip()

    def _note(self, path: KeyPath, position: int) -> None:
        self._lines.setdefault(path, self._line(position))

    def _line(self, position: int) -> int:
        return bisect_right(self._line_starts, position) + 1

    def _skip(self) -> None:
        self._pass(_SKIPPED)

    def _pass(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError("the text is not TOML")
        self._at = match.end()
        return match[0]

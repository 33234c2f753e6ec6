"""The spellings in which a service may give a secret back: as it is, encoded, escaped, or a mixture of both.

A literal form is looked for as bytes. Escapes can be mixed freely within one text (percent, JSON, HTML, nested), so
they are undone to find a value, and matched character by character to cut it out. Text that is compressed or
encrypted shows none of them.
"""

import base64
import html.entities
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

AT_ONCE_CHARACTERS = 48  # of an escaped value are matched in one pattern; the rest is followed one by one
MAX_NESTING = 6
MIN_FORM_BYTES = 4  # shorter fragments of an encoding would be found in any text
LONGEST_ESCAPE_BYTES = 64  # of one character
LONGEST_SPELLING_BYTES = 16_384  # of which every byte may be escaped; longer ones are nested deeper than anybody does

_PERCENT = re.compile(rb"%(?P<byte>[0-9A-Fa-f]{2})")
_BACKSLASH = re.compile(
    rb"\\+(?:u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\+u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2})"
    rb"|u(?P<hex>[0-9A-Fa-f]{4})|x(?P<byte>[0-9A-Fa-f]{2})|(?P<short>[\"'/\\]))"
)
_ENTITY = re.compile(rb"&(?:#0*(?P<decimal>[0-9]{1,7})|#[xX]0*(?P<hex>[0-9A-Fa-f]{1,6})|(?P<named>[A-Za-z]{1,32}));")
_BASE64_NEIGHBOUR = rb"[A-Za-z0-9+/_-]?"
_URL_SAFE = {"+": "-", "/": "_"}
_BY_NAME = {
    name[:-1].encode("ascii"): text.encode("ascii")
    for name, text in html.entities.html5.items()
    if len(text) == 1 and text.isascii() and name.endswith(";")
}
_NAMES_OF = {
    character: [name for name, meant in _BY_NAME.items() if meant == character] for character in set(_BY_NAME.values())
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A fixed form. `around` matches it with the neighbours that hold a part of the secret's bits."""

    form: bytes = field(repr=False)
    pattern: bytes = field(repr=False)

    @property
    def around(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern)  # where it is needed: most forms never are


@dataclass(frozen=True, slots=True, kw_only=True)
class Spellings:
    """Every form of one value. `undone` is what `undo_escapes` makes of it, less its back-slashes: they nest oddly."""

    value: bytes = field(repr=False)
    literals: tuple[Literal, ...] = field(repr=False)
    hex_lower: bytes = field(repr=False)
    undone: bytes = field(repr=False)

    def are_in(self, data: bytes) -> bool:
        """Whether a form stands in the data; escapes are not looked into."""
        return any(literal.form in data for literal in self.literals) or self.hex_lower in data.lower()

    def are_escaped_in(self, undone: Iterable[bytes]) -> bool:
        """Whether a form stands in one of the texts that `undo_escapes` made of the data."""
        return any(self.undone in text.replace(b"\\", b"") or self.are_in(text) for text in undone)

    def escaped(self) -> "Iterator[Escaped]":
        """What finds escaped forms. Made when they are needed."""
        yield Escaped(tuple(map(_any_of, map(_alternatives, _text(self.value)))))
        for core, _, _ in _base64_cores(self.value):
            yield Escaped(tuple(map(_any_of, map(_base64_alternatives, core.decode("ascii")))))


class Escaped:
    """One form of a value, each of its characters escaped or not."""

    def __init__(self, characters: tuple[bytes, ...]) -> None:
        self._begins = re.compile(b"".join(characters[:AT_ONCE_CHARACTERS]))
        self._rest = tuple(map(re.compile, characters[AT_ONCE_CHARACTERS:]))  # each of few kinds, and compiled once

    def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Where the first lies that begins before `end`."""
        found = self._begins.search(data, start, end)
        while found is not None:
            behind = self._followed(data, found.end())
            if behind is not None:
                return found.start(), behind
            found = self._begins.search(data, found.start() + 1, end)
        return None

    def _followed(self, data: bytes, at: int) -> int | None:
        for character in self._rest:
            found = character.match(data, at)
            if found is None:
                return None
            at = found.end()
        return at


def spellings_of(value: bytes) -> Spellings:
    text = _text(value)
    literals = [Literal(form=form, pattern=re.escape(form)) for form in _plain_forms(value, text)]
    for core, before, after in (*_base64_cores(value), *_nested_cores(value)):
        forms = dict.fromkeys((core, core.replace(b"+", b"-").replace(b"/", b"_")))
        literals.extend(Literal(form=form, pattern=before + re.escape(form) + after) for form in forms)
    return Spellings(
        value=value,
        literals=tuple(sorted(literals, key=lambda one: len(one.form), reverse=True)),
        hex_lower=value.hex().encode("ascii"),
        undone=[value, *undo_escapes(value)][-1].replace(b"\\", b""),
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def undo_escapes(data: bytes) -> Iterator[bytes]:
    """The data with one kind and level of escapes undone after the other, as far as there are any."""
    for _ in range(MAX_NESTING):
        before = data
        for kind in (_PERCENT, _BACKSLASH, _ENTITY):
            plain = kind.sub(_undone, data)
            if plain != data:
                data = plain
                yield data
        if data == before:
            return


def _undone(match: re.Match[bytes]) -> bytes:
    kind = match.lastgroup or ""
    text = match[kind]
    if kind == "short":
        return text
    if kind == "byte":
        return bytes.fromhex(text.decode("ascii"))
    if kind == "named":
        return _BY_NAME.get(text, match[0])
    if kind == "low":
        return bytes.fromhex((match["high"] + text).decode("ascii")).decode("utf-16-be").encode("utf-8")
    number = int(text, 10 if kind == "decimal" else 16)
    return chr(number).encode("utf-8", "surrogatepass") if number <= 0x10FFFF else match[0]


def _plain_forms(value: bytes, text: str) -> Iterable[bytes]:
    """The value, its other character encodings, and how a web form sends it (`+` for a space)."""
    forms = [value, text.replace(" ", "+").encode("utf-8", "surrogateescape")]
    for encoding in ("utf-16-le", "utf-16-be", "latin-1"):
        try:
            forms.append(text.encode(encoding))
        except UnicodeEncodeError:
            continue
    return dict.fromkeys(forms)


def _base64_cores(value: bytes) -> Iterable[tuple[bytes, bytes, bytes]]:
    """For each alignment the characters that depend on the value alone, and patterns for the half-dependent ones."""
    for offset in range(3):
        first = -(-8 * offset // 6)
        last = 8 * (offset + len(value)) // 6
        core = base64.b64encode(b"\0" * offset + value)[first:last]
        if len(core) < MIN_FORM_BYTES:
            continue
        before = _BASE64_NEIGHBOUR if offset else b""
        after = _BASE64_NEIGHBOUR + rb"={0,2}" if 8 * (offset + len(value)) % 6 else b""
        yield core, before, after


def _nested_cores(value: bytes) -> Iterable[tuple[bytes, bytes, bytes]]:
    """Base64 of base64, either alphabet within."""
    for core, _, _ in _base64_cores(value):
        for inner in dict.fromkeys((core, core.replace(b"+", b"-").replace(b"/", b"_"))):
            yield from _base64_cores(inner)


def _base64_alternatives(character: str) -> Sequence[bytes]:
    twin = _URL_SAFE.get(character)
    return [*_alternatives(character), *([] if twin is None else _alternatives(twin))]


def _any_of(alternatives: Sequence[bytes]) -> bytes:
    return b"(?:" + b"|".join(alternatives) + b")"


@lru_cache(maxsize=1024)
def _alternatives(character: str) -> list[bytes]:
    """Patterns for one character, each beginning with a fixed byte, which keeps the search fast."""
    plain = character.encode("utf-8", "surrogateescape")
    found = [re.escape(plain), b"".join(b"%(?:25){0,4}" + _hex(b"%02x" % byte) for byte in plain)]
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = [units[start : start + 2].hex().encode("ascii") for start in range(0, len(units), 2)]
    found.append(b"".join(rb"\\{1,8}u" + _hex(pair) for pair in pairs))
    if character in "\"\\/'":
        found.append(rb"\\{1,8}" + re.escape(plain))
    number = ord(character)
    names = [rb"#0{0,6}%d" % number, rb"#[xX]0{0,6}" + _hex(b"%x" % number)]
    names += _NAMES_OF.get(plain, [])
    found.append(rb"&(?:amp;){0,3}(?:" + b"|".join(names) + b");")
    if number < 0x100:
        found.append(rb"\\{1,8}x" + _hex(b"%02x" % number))
    return found


def _hex(digits: bytes) -> bytes:
    """The digits in either case."""
    return b"".join(b"[%c%c]" % (digit, digit - 32) if digit >= 0x61 else b"%c" % digit for digit in digits)

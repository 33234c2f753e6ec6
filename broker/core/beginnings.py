"""Where a spelling of a secret may have begun that the end of the data cut off.

What lies before that place can't become a part of a value, whatever comes next. Escapes at the end are looked into,
unfinished ones too; a value that a service breaks into lines counts where a line holds enough of it.
"""

import re
from collections.abc import Iterable

from broker.core.alphabet import Alphabet
from broker.core.spellings import LONGEST_ESCAPE_BYTES, LONGEST_SPELLING_BYTES, Spellings, undo_escapes

USUAL_ESCAPE_BYTES = 16  # of one character, escaped several times over
LONGEST_ESCAPES = 16  # escapes of escapes, one within the other
BROKEN_LINE_BYTES = 8  # so much of a value before a line's end, and the next line may go on with it
_SPACE = b"\r\n\t "
_CORE_BYTES = 4

_UNFINISHED = re.compile(
    rb"(?:%(?:25)*[0-9A-Fa-f]?"
    rb"|\\+(?:u[Dd][89ABab][0-9A-Fa-f]{2}(?:\\+(?:u[0-9A-Fa-f]{0,3})?)?|u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?)?"
    rb"|&(?:amp;)*(?:#[xX]?[0-9A-Fa-f]{0,12}|[A-Za-z]{0,32}))\Z"
)
_INTRODUCERS = (b"%", b"\\", b"&")
_ESCAPE = re.compile(rb"[%\\&]")


class Beginnings:
    """Of all spellings of some values."""

    def __init__(self, spellings: Iterable[Spellings]) -> None:
        spellings = tuple(spellings)
        forms = {_joined(form) for one in spellings for form in (*(lit.form for lit in one.literals), one.undone)}
        self._forms = tuple(sorted(form for form in forms if form))
        self._longest = 2 * max(map(len, forms), default=0) + BROKEN_LINE_BYTES  # room for ends of lines
        self._hex = tuple(sorted({one.hex_lower for one in spellings}))
        self._alphabet = Alphabet((*self._forms, *self._hex), shortest_bytes=1)
        self._short = {
            form[:length]
            for form in (*self._forms, *self._hex, *map(bytes.upper, self._hex))
            for length in range(1, min(_CORE_BYTES, len(form)))
        }

    def first_in(self, data: bytes) -> int:
        """The place of the first that may go on behind the end; the length of the data where there is none."""
        at = max(0, len(data) - LONGEST_SPELLING_BYTES)
        near = max(at, len(data) - self._longest)
        at = near if _ESCAPE.search(data, near) is None else max(at, len(data) - USUAL_ESCAPE_BYTES * self._longest)
        at += self._alphabet.last_run(data[at:])
        tail = data[at:]
        whole = _without_unfinished(tail)
        begins = self._begins(tail[:whole])
        return at + min(whole if begins is None else begins, whole)

    def _begins(self, tail: bytes) -> int | None:
        plain = _plain(tail)
        joined = _joined(plain)
        lengths = [length for form in self._forms if (length := _overlap(joined, form))]
        lengths += [length for form in self._hex if (length := _overlap(joined.lower(), form))]
        lengths += [length for length in range(1, _CORE_BYTES) if joined[-length:] in self._short]
        if not lengths:
            return None
        length = max(lengths)
        if plain[-1:] in _SPACES and length < BROKEN_LINE_BYTES:
            return None
        return _place_of(tail, joined[-length:])


_SPACES = frozenset(bytes([octet]) for octet in _SPACE)


def _without_unfinished(tail: bytes) -> int:
    """Where the escapes begin that may not be whole, however they are nested."""
    end = len(tail)
    for _ in range(LONGEST_ESCAPES):
        unfinished = _UNFINISHED.search(tail[max(0, end - 128) : end])
        if unfinished is not None:
            return max(0, end - 128) + unfinished.start()
        plain = _plain(tail[max(0, end - 128) : end])
        if _UNFINISHED.search(plain) is None:
            return end
        end = max(tail.rfind(introducer, 0, end) for introducer in _INTRODUCERS)
    return max(end, 0)


def _plain(text: bytes) -> bytes:
    if not any(introducer in text for introducer in _INTRODUCERS):
        return text
    return [text, *undo_escapes(text)][-1]


def _joined(text: bytes) -> bytes:
    return text.translate(None, _SPACE).replace(b"\\n", b"").replace(b"\\r", b"").replace(b"\\", b"")


def _overlap(text: bytes, form: bytes) -> int:
    """How many bytes at the end of the text are the beginning of the form, and not all of it."""
    start = max(0, len(text) - len(form) + 1)
    found = text.find(form[:_CORE_BYTES], start)
    while found >= 0:
        if form.startswith(text[found:]):
            return len(text) - found
        found = text.find(form[:_CORE_BYTES], found + 1)
    return 0


def _place_of(tail: bytes, beginning: bytes) -> int:
    """Where the text begins that reads so once it is undone; as late as possible."""
    low, high = 0, len(tail) - len(beginning)
    while low < high:  # the later it begins, the less there is to read
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_read(tail[middle:])) >= len(beginning) else (low, middle - 1)
    lowest = max(0, low - LONGEST_ESCAPE_BYTES)
    starts = range(min(len(tail) - len(beginning), low + LONGEST_ESCAPE_BYTES), lowest, -1)
    return next((start for start in starts if _read(tail[start:]) == beginning), lowest)


def _read(text: bytes) -> bytes:
    return _joined(_plain(text))

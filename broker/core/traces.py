"""A quick look at whether a text may hold a spelling of a secret, so that most texts are looked at no closer.

Whatever is there is seen, in any case of letters, broken into lines, or escaped; what is seen may turn out to be
nothing.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from broker.core.alphabet import Alphabet
from broker.core.spellings import Spellings, undo_escapes

_IGNORED = b"\r\n\t \\"
_ESCAPES = (b"%", b"&", b"\\u", b"\\x")
_MARKS = (  # of what has to be undone; each begins with a fixed byte, which keeps the search fast
    (b"%", re.compile(rb"%[0-9A-Fa-f]{2}")),
    (b"\\", re.compile(rb"\\[uxnr]")),
    (b"&", re.compile(rb"&(?:#|[A-Za-z]{1,32};)")),
)
_BREAKS = (b"\\n", b"\\r")
_LOWER = bytes(range(256)).lower()
_LONG_BYTES = 8  # a form of so many is found in what is left of other text hardly ever
_DENSE = 4  # where marks make up more than one part in so many, the whole is undone


class Traces:
    """Of all spellings of some values."""

    def __init__(self, spellings: Iterable[Spellings]) -> None:
        forms = {form for one in spellings for form in _forms(one)}
        # A value may itself hold what looks like the escaped end of a line.
        self._forms = tuple(sorted({_bare(text) for form in forms for text in (form, _unbroken(form))}))
        self._longest_bytes = max(map(len, forms), default=0)
        self._shortest_bytes = min(map(len, self._forms), default=0)
        self._alphabet = Alphabet(forms, shortest_bytes=self._shortest_bytes)
        self._left_out = _left_out(self._forms) if self._shortest_bytes >= _LONG_BYTES else _IGNORED

    def are_in(self, data: bytes) -> bool:
        if not self._forms or len(data) < self._shortest_bytes:  # what is undone or left out is never longer
            return False
        if not self._alphabet.has_room(data):
            return False
        return self._stand_in(data) or self._are_marked_in(self._marked(data))

    def _are_marked_in(self, part: bytes) -> bool:
        if len(part) < self._shortest_bytes:
            return False
        if self._stand_in(_unbroken(part)):
            return True
        is_escaped = any(escape in part for escape in _ESCAPES)
        return is_escaped and any(
            self._stand_in(undone) or self._stand_in(_unbroken(undone)) for undone in undo_escapes(part)
        )

    def _stand_in(self, text: bytes) -> bool:
        bare = text.translate(_LOWER, self._left_out)
        for form in self._forms:  # noqa: SIM110 - a generator would cost more than most of the searches
            if form in bare:
                return True
        return False

    def _marked(self, data: bytes) -> bytes:
        """The parts of the data in which an escape, or an escaped end of a line, can belong to a value.

        A space keeps them apart: no escape goes across it, and no search minds it.
        """
        room = self._longest_bytes + 64
        most = len(data) // (room * _DENSE) + 1
        places: list[int] = []
        for sign, mark in _MARKS:
            if sign in data:
                places += (found.start() for found in islice(mark.finditer(data), most + 1 - len(places)))
        if len(places) > most:  # parts would be no less than the whole
            return data
        parts: list[bytes] = []
        start, end = 0, 0
        for place in sorted(places):
            if place - room > end:
                parts.append(data[start:end])
                start = place - room
            end = place + room
        return b" ".join((*parts, data[start:end]))


def _forms(one: Spellings) -> Iterator[bytes]:
    yield from (literal.form for literal in one.literals)
    yield one.undone
    yield one.hex_lower


def _bare(text: bytes) -> bytes:
    return text.lower().translate(None, _IGNORED)


def _left_out(forms: Iterable[bytes]) -> bytes:
    """All that stands in no form, in either case: without it there is less to search, and no form is lost."""
    kept = frozenset(b"".join(forms))
    return bytes(octet for octet in range(256) if _LOWER[octet] not in kept)


def _unbroken(text: bytes) -> bytes:
    """Without the escaped ends of lines."""
    for sign in _BREAKS:
        text = text.replace(sign, b"")
    return text

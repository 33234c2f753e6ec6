"""A quick look at whether a text may hold a spelling of a secret, so that most texts are looked at no closer.

Whatever is there is seen, in any case of letters, broken into lines, or escaped; what is seen may turn out to be
nothing.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from broker.core.spellings import Spellings, undo_escapes

_IGNORED = b"\r\n\t \\"
_ESCAPES = (b"%", b"&", b"\\u", b"\\x")
_MARKS = (  # of what has to be undone; each begins with a fixed byte, which keeps the search fast
    (b"%", re.compile(rb"%[0-9A-Fa-f]{2}")),
    (b"\\", re.compile(rb"\\[uxnr]")),
    (b"&", re.compile(rb"&(?:#|[A-Za-z]{1,32};)")),
)
_BREAKS = (b"\\n", b"\\r")
_DENSE = 4  # where marks make up more than one part in so many, the whole is undone


class Traces:
    """Of all spellings of some values."""

    def __init__(self, spellings: Iterable[Spellings]) -> None:
        forms = {form for one in spellings for form in _forms(one)}
        # A value may itself hold what looks like the escaped end of a line.
        self._forms = tuple(sorted({_bare(text) for form in forms for text in (form, _unbroken(form))}))
        self._longest_bytes = max(map(len, forms), default=0)

    def are_in(self, data: bytes) -> bool:
        if not self._forms:
            return False
        return self._stand_in(data) or any(map(self._are_marked_in, self._marked(data)))

    def _are_marked_in(self, part: bytes) -> bool:
        if self._stand_in(_unbroken(part)):
            return True
        is_escaped = any(escape in part for escape in _ESCAPES)
        return is_escaped and any(
            self._stand_in(undone) or self._stand_in(_unbroken(undone)) for undone in undo_escapes(part)
        )

    def _stand_in(self, text: bytes) -> bool:
        bare = _bare(text)
        return any(form in bare for form in self._forms)

    def _marked(self, data: bytes) -> Iterator[bytes]:
        """The parts of the data in which an escape, or an escaped end of a line, can belong to a value."""
        room = self._longest_bytes + 64
        most = len(data) // (room * _DENSE) + 1
        places: list[int] = []
        for sign, mark in _MARKS:
            if sign in data:
                places += (found.start() for found in islice(mark.finditer(data), most + 1 - len(places)))
        if len(places) > most:  # parts would be no less than the whole
            yield data
            return
        start, end = 0, 0
        for place in sorted(places):
            if place - room > end:
                yield data[start:end]
                start = place - room
            end = place + room
        yield data[start:end]


def _forms(one: Spellings) -> Iterator[bytes]:
    yield from (literal.form for literal in one.literals)
    yield one.undone
    yield one.hex_lower


def _bare(text: bytes) -> bytes:
    return text.lower().translate(None, _IGNORED)


def _unbroken(text: bytes) -> bytes:
    """Without the escaped ends of lines."""
    for sign in _BREAKS:
        text = text.replace(sign, b"")
    return text

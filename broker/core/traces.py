"""A quick look at whether a text may hold a spelling of a secret, so that most texts are looked at no closer.

Whatever is there is seen, in any case of letters, broken into lines, or escaped; what is seen may turn out to be
nothing.
"""

import re
from collections.abc import Iterable, Iterator

from broker.core.spellings import Spellings, undo_escapes

_IGNORED = b"\r\n\t \\"
_ESCAPES = (b"%", b"&", b"\\u", b"\\x", b"\\U")
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|\\[ux]|&(?:#|[A-Za-z]{1,32};)")
_BREAKS = (b"\\n", b"\\r")
_DENSE = 4  # where escapes make up more than one part in so many, the whole is undone


class Traces:
    """Of all spellings of some values."""

    def __init__(self, spellings: Iterable[Spellings]) -> None:
        forms = {form for one in spellings for form in _forms(one)}
        self._forms = tuple(sorted({_bare(form) for form in forms}))
        self._longest_bytes = max(map(len, forms), default=0)

    def are_in(self, data: bytes) -> bool:
        if not self._forms:
            return False
        if self._stand_in(data) or (b"\\" in data and self._stand_in(_unbroken(data))):
            return True
        return any(self._stand_in(_unbroken(text)) for part in self._escaped(data) for text in undo_escapes(part))

    def _stand_in(self, text: bytes) -> bool:
        bare = _bare(text)
        return any(form in bare for form in self._forms)

    def _escaped(self, data: bytes) -> Iterator[bytes]:
        """The parts of the data in which an escape can belong to a value."""
        if not any(escape in data for escape in _ESCAPES):
            return
        room, start, end = self._longest_bytes + 64, 0, 0
        for count, found in enumerate(_ESCAPE.finditer(data)):
            if count * room * _DENSE > len(data):  # parts would be no less than the whole
                yield data[start:]
                return
            if found.start() - room > end:
                yield data[start:end]
                start = found.start() - room
            end = found.end() + room
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

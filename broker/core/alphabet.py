"""Which octets can stand in a spelling of some values, plain or escaped, and where there is room for one.

A spelling is one run of such octets. Where no run is long enough there is none, and nothing has to be searched for:
that is so nearly everywhere in what is compressed, encrypted or a picture, and often in JSON.
"""

from collections.abc import Iterable

_ESCAPING = b"\r\n\t \\%&#;\"'/"  # of percent signs, back-slashes and entities, and what ends a line
_ALPHANUMERIC = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_INSIDE, _OUTSIDE = b"\1", b"\0"


class Alphabet:
    """Of the forms of some values, in either case of letters."""

    def __init__(self, forms: Iterable[bytes], *, shortest_bytes: int) -> None:
        """`shortest_bytes` is of the shortest form; an escaped one is never shorter than what it spells."""
        text = b"".join(forms)
        known = frozenset(text + text.lower() + text.upper() + _ESCAPING + _ALPHANUMERIC)
        self._inside = b"".join(_INSIDE if octet in known else _OUTSIDE for octet in range(256))
        self._run = _INSIDE * shortest_bytes

    def has_room(self, data: bytes) -> bool:
        """Whether a spelling may be there."""
        return self._run in data.translate(self._inside)

    def last_run(self, data: bytes) -> int:
        """Where the run begins that the data ends with; the length of the data where it ends with none."""
        return data.translate(self._inside).rfind(_OUTSIDE) + 1

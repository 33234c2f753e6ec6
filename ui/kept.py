"""A value that is worked out once and kept as long as what it was worked out from is the very same.

So a screen that is drawn ten times a second looks at a long list once for each time that the list changed. Given
things are compared as objects, but for texts and numbers: what is told anew is worked out anew. Holds one value.
"""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")
_PLAIN = (str, int, bool, type(None))


class Kept(Generic[T]):
    """`of` gives what `make` makes of the given things, which must be all that it looks at."""

    def __init__(self) -> None:
        self._given: tuple[object, ...] | None = None
        self._value: T | None = None

    def of(self, make: Callable[[], T], *given: object) -> T:
        if self._given is None or not _same(self._given, given):
            self._value, self._given = make(), given
        return cast("T", self._value)


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(
        a is b or (isinstance(a, _PLAIN) and isinstance(b, _PLAIN) and a == b) for a, b in zip(one, other, strict=True)
    )

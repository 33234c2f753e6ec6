"""A secret value that has no spelling: repr, str, format, pickle and JSON all refuse.

`reveal()` is called in the one line that hands the value to the wire or to a cipher; grep lists every such line.
"""

import hmac
from typing import Never, final

from typing_extensions import override


@final
class Secret:
    """Bytes that may be used but never shown."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes | str) -> None:
        self._value = value.encode("utf-8") if isinstance(value, str) else bytes(value)

    def reveal(self) -> bytes:
        return self._value

    def __len__(self) -> int:
        return len(self._value)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    @override
    def __hash__(self) -> int:
        raise TypeError("a secret is no key of a table")

    @override
    def __repr__(self) -> str:
        return "<secret>"

    @override
    def __str__(self) -> str:
        raise TypeError("a secret has no spelling")

    @override
    def __format__(self, _: str) -> str:
        raise TypeError("a secret has no spelling")

    @override
    def __reduce__(self) -> Never:
        raise TypeError("a secret is not stored by pickling")

"""The values of one credential version in all their spellings: found, cut out, or told of where they can't be.

Only exact values are replaced. A value under 16 bytes, or a user name, can't be told from ordinary text: where one is
found, the whole is withheld instead.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, final

from typing_extensions import override

from broker.core.beginnings import Beginnings
from broker.core.credential import BasicSecret, CredentialSecret, scrub_values
from broker.core.secret import Secret
from broker.core.spellings import (
    LONGEST_SPELLING_BYTES,
    MIN_FORM_BYTES,
    Escaped,
    Spellings,
    spellings_of,
    undo_escapes,
)
from broker.core.traces import Traces

PLACEHOLDER: Final = b"[redacted]"
MIN_REPLACED_BYTES = 16
MAX_ROUNDS = 4
BEGINNING_BYTES = 6  # so much of a value, where an answer broke off, is taken for the value
WINDOW_BYTES = 32_768  # no search runs longer without a break, for other threads wait meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    data: bytes
    hits: int
    withheld: bool
    is_echo: bool = False  # a value was there, and not just a user name


@final
class SecretSet:
    """The values of one credential version and all their spellings. Costly to build: keep it with the version.

    It holds what it needs, so it goes on working for an answer that comes after the vault was locked.
    """

    __slots__ = ("_beginnings", "_names", "_replaced", "_traces", "_withheld")

    def __init__(self, *, replaced: Iterable[Secret], names: Iterable[Secret] = ()) -> None:
        """Where a `names` stands, or a value that is too short to be replaced, the whole is withheld."""
        long: list[bytes] = []
        short: list[bytes] = []
        for value in replaced:
            (long if len(value) >= MIN_REPLACED_BYTES else short).append(value.reveal())
        self._replaced = tuple(spellings_of(value) for value in sorted(set(long), key=len, reverse=True))
        self._withheld = tuple(spellings_of(value) for value in sorted(set(short)) if value)
        self._names = tuple(spellings_of(value.reveal()) for value in names)
        self._beginnings: Beginnings | None = None
        self._traces = Traces((*self._replaced, *self._withheld, *self._names))

    @override
    def __repr__(self) -> str:
        return "<secret set>"

    def may_stand_in(self, data: bytes) -> bool:
        """A quick look: where it says no, there is no spelling of any value."""
        return self._traces.are_in(data)

    def clean(self, data: bytes) -> Cleaned:
        """Replace every spelling; `withheld` tells that what is left may not be given out."""
        if not self._traces.are_in(data):
            return Cleaned(data=data, hits=0, withheld=False)
        hits = 0
        for _ in range(MAX_ROUNDS):  # a replacement may bring two halves together
            undone = tuple(undo_escapes(data))
            data, found = self._replace_once(data, undone)
            hits += found
            if not found:
                echoed = self._holds_unreplaceable(data, undone)
                withheld = echoed or _stand_in(self._names, data, undone)
                return Cleaned(data=data, hits=hits + int(withheld), withheld=withheld, is_echo=echoed or hits > 0)
        return Cleaned(data=data, hits=hits + 1, withheld=True, is_echo=True)

    def also(self, derived: Collection[Secret]) -> "SecretSet":
        """The set with values that were made for one attempt; this set where there are none."""
        if not derived:
            return self
        more = SecretSet(replaced=derived)
        more._replaced += self._replaced
        more._withheld += self._withheld
        more._traces = Traces((*more._replaced, *more._withheld, *self._names))
        more._names = self._names
        return more

    def in_lower_case(self, text: bytes) -> bool:
        """Whether a text that was lower-cased on its way, such as a header's name, holds a value."""
        everything = (*self._replaced, *self._withheld, *self._names)
        return any(literal.form.lower() in text for one in everything for literal in one.literals)

    def unfinished_in(self, data: bytes) -> int:
        """Where a value may have begun that the end of the data cut; the length of the data where none has."""
        if self._beginnings is None:
            self._beginnings = Beginnings((*self._replaced, *self._withheld, *self._names))
        return self._beginnings.first_in(data)

    def before_break(self, data: bytes) -> bytes | None:
        """Data that breaks off, without what may be the beginning of a value; None where it can't be cut out."""
        everything = [one for group in (self._replaced, self._withheld, self._names) for one in group]
        forms = [literal.form for one in everything for literal in one.literals] + [one.hex_lower for one in everything]
        tail_at = max(0, len(data) - LONGEST_SPELLING_BYTES)
        tail = data[tail_at:]
        if any(form[:BEGINNING_BYTES] in text for text in undo_escapes(tail) for form in forms):
            return None
        return data[: tail_at + min((_begins_at(tail, form) for form in forms), default=len(tail))]

    def _replace_once(self, data: bytes, undone: Collection[bytes]) -> tuple[bytes, int]:
        hits = 0
        for spellings in self._replaced:
            for literal in spellings.literals:
                if literal.form in data:
                    data, count = literal.around.subn(PLACEHOLDER, data)
                    hits += count
            if spellings.hex_lower in data.lower():
                data, count = re.subn(re.escape(spellings.hex_lower), PLACEHOLDER, data, flags=re.IGNORECASE)
                hits += count
        for spellings in self._replaced:
            if spellings.are_escaped_in(undone):
                for form in spellings.escaped():
                    data, count = _replaced(form, data)
                    hits += count
        return data, hits

    def _holds_unreplaceable(self, data: bytes, undone: Collection[bytes]) -> bool:
        if _stand_in(self._withheld, data, undone) or any(one.are_escaped_in(undone) for one in self._replaced):
            return True
        joined = data.translate(None, b"\r\n\t ").replace(b"\\n", b"").replace(b"\\r", b"")  # long lines get broken
        return len(joined) != len(data) and any(one.are_in(joined) for one in self._replaced)


def _begins_at(tail: bytes, form: bytes) -> int:
    """Where a form begins that the end of the data may have cut; the length of the tail where none does."""
    return min(_first(text, form) for text in (tail, tail.lower()))


def _first(text: bytes, form: bytes) -> int:
    found = text.find(form[:BEGINNING_BYTES]) if len(form) > BEGINNING_BYTES else -1
    if found >= 0:
        return found
    lengths = range(min(BEGINNING_BYTES, len(form) - 1, len(text)), 0, -1)
    return next((len(text) - length for length in lengths if text.endswith(form[:length])), len(text))


def _replaced(form: Escaped, data: bytes) -> tuple[bytes, int]:
    """The data without the form, looked at window by window."""
    parts: list[bytes] = []
    done = start = 0
    while start < len(data):
        found = form.find(data, start, start + WINDOW_BYTES + LONGEST_SPELLING_BYTES)
        if found is None:
            start += WINDOW_BYTES
            continue
        parts += [data[done : found[0]], PLACEHOLDER]
        done = start = found[1]
    return b"".join([*parts, data[done:]]), len(parts) // 2


def _stand_in(values: Iterable[Spellings], data: bytes, undone: Collection[bytes]) -> bool:
    return any(one.are_in(data) or one.are_escaped_in(undone) for one in values)


def secret_set(secret: CredentialSecret) -> SecretSet:
    """The set for a credential. A Basic user name is withheld, unless it is so short that it is in any text."""
    names = []
    if isinstance(secret, BasicSecret) and len(secret.username.encode()) >= MIN_FORM_BYTES:
        names.append(Secret(secret.username))
    return SecretSet(replaced=scrub_values(secret), names=names)

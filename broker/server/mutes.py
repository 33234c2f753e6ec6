"""Who is not heard any more: by program and by name, or by container, so that a new process or a copy is no way round.

Remembers so many and forgets the oldest; what an echo of the credential led to is stricter than a human's mute.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable
from dataclasses import dataclass

MUTES_KEPT = 1000
KEYS_EACH = 2  # what is executed, and the name that the policy has for it
ECHOES_MAX = 3  # so many answers with the credential in them are bad luck; more could be guesses put to the test
ECHOED = "services gave the credential back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """Why, and since when."""

    why: str
    at_ms: int


class Mutes:
    def __init__(self) -> None:
        self._mutes: OrderedDict[Hashable, Mute] = OrderedDict()
        self._echoes: OrderedDict[Hashable, int] = OrderedDict()
        self._said_of: OrderedDict[str, tuple[Hashable, ...]] = OrderedDict()

    def of(self, keys: Collection[Hashable]) -> Mute | None:
        """The mute of any of the keys, the strictest first."""
        found = [mute for key in keys if (mute := self._mutes.get(key)) is not None]
        return next((mute for mute in found if mute.why == ECHOED), found[0] if found else None)

    def add(self, keys: Collection[Hashable], why: str, at_ms: int) -> None:
        """The stricter one stays, and so does one that is there already: who says it again changes nothing."""
        known = self.of(keys)
        mute = known if known is not None and known.why in {ECHOED, why} else Mute(why=why, at_ms=at_ms)
        for key in keys:
            self._mutes[key] = mute
        while len(self._mutes) > KEYS_EACH * MUTES_KEPT:
            self._mutes.popitem(last=False)

    def said_of(self, session_id: str, keys: Collection[Hashable]) -> None:
        """Keep by which session a mute came about, so that it can be undone when that has ended."""
        self._said_of[session_id] = tuple(keys)
        while len(self._said_of) > MUTES_KEPT:
            self._said_of.popitem(last=False)

    def left_by(self, session_id: str) -> tuple[Hashable, ...]:
        """What is muted still for a session that may have ended; nothing where it is heard again."""
        keys = self._said_of.get(session_id, ())
        return keys if self.of(keys) is not None else ()

    def drop(self, keys: Collection[Hashable]) -> None:
        for key in keys:
            self._mutes.pop(key, None)
            self._echoes.pop(key, None)

    def echoed(self, keys: Collection[Hashable]) -> bool:
        """Count an answer that held the credential; True once there were too many."""
        times = 1 + max(self._echoes.pop(key, 0) for key in keys)
        for key in keys:
            self._echoes[key] = times
        while len(self._echoes) > KEYS_EACH * MUTES_KEPT:
            self._echoes.popitem(last=False)
        return times >= ECHOES_MAX

"""Who is not heard any more: by program or container, so that a new process of it is no way round.

Remembers so many and forgets the oldest; what an echo of the credential led to is stricter than a human's mute.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

MUTES_KEPT = 1000
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

    def of(self, program: Hashable) -> Mute | None:
        return self._mutes.get(program)

    def add(self, program: Hashable, why: str, at_ms: int) -> Mute:
        """The mute that holds from now on: the stricter one stays."""
        known = self._mutes.get(program)
        if known is None or known.why != ECHOED:
            self._mutes[program] = Mute(why=why, at_ms=at_ms)
        held = self._mutes[program]
        while len(self._mutes) > MUTES_KEPT:
            self._mutes.popitem(last=False)
        return held

    def drop(self, program: Hashable) -> None:
        self._mutes.pop(program, None)
        self._echoes.pop(program, None)

    def echoed(self, program: Hashable) -> bool:
        """Count an answer that held the credential; True once there were too many."""
        times = self._echoes[program] = self._echoes.pop(program, 0) + 1
        while len(self._echoes) > MUTES_KEPT:
            self._echoes.popitem(last=False)
        return times >= ECHOES_MAX

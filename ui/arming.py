"""When a key may decide: arming after the card was drawn, and the rule that a deciding key counts only alone.

A key that comes too early, too close to another one, or before the whole card was on the screen decides nothing and
starts the arming again. A confirming word counts if a hand can have typed it. Time is an argument (monotonic seconds,
when the key was read). Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

LONE_S = 0.150  # no other key so long before and after a deciding key
CONFIRM_S = 0.5  # `y` counts only so long after its question was asked
BUNCH_S = 0.010  # characters closer together were handed over at once
HAND_S = 0.025  # on the average of a word, no hand is faster than that from one character to the next


@dataclass(slots=True, kw_only=True)
class Arming:
    """The wait between drawing a card and taking a yes for it."""

    arming_s: float = 1.5
    _since_s: float | None = None

    def begin(self, arming_s: float) -> None:
        """Another card, or a changed one: it is not drawn yet."""
        self.arming_s = arming_s
        self._since_s = None

    def drawn(self, now_s: float) -> None:
        """The whole card is on the screen. Later calls change nothing."""
        if self._since_s is None:
            self._since_s = now_s

    def again(self, now_s: float) -> None:
        """Start over, if it has started at all."""
        if self._since_s is not None:
            self._since_s = now_s

    def undrawn(self) -> None:
        """The card has to be drawn again first (another size)."""
        self._since_s = None

    def left_s(self, now_s: float) -> float:
        """Seconds to wait; the whole time where the card was not drawn yet."""
        if self._since_s is None:
            return self.arming_s
        return max(self._since_s + self.arming_s - now_s, 0.0)

    def ready(self, now_s: float) -> bool:
        return self._since_s is not None and self.left_s(now_s) <= 0.0


def by_hand(times_s: Sequence[float]) -> bool:
    """Whether a hand can have typed a word whose characters came at these times.

    A busy terminal hands keys over in bunches, so single gaps say little. A word took a hand some time as a whole, and
    a third of it at least came apart from its longest bunch; pasted text comes all at once.
    """
    if len(times_s) < 2:
        return True
    longest = bunch = 1
    for earlier, later in pairwise(times_s):
        bunch = bunch + 1 if later - earlier < BUNCH_S else 1
        longest = max(longest, bunch)
    took_s = times_s[-1] - times_s[0]
    return took_s >= (len(times_s) - 1) * HAND_S and longest * 3 <= len(times_s) * 2 + 2


@dataclass(slots=True, kw_only=True)
class LoneKey:
    """Holds a deciding key back until it proved to be alone."""

    _last_s: float = float("-inf")
    _held_since_s: float | None = field(default=None)

    def pressed(self, now_s: float) -> bool:
        """Note any key. True if none came shortly before it. A held-back key is dropped: see `dropped`."""
        quiet = now_s - self._last_s >= LONE_S
        self._last_s = now_s
        return quiet

    @property
    def last_s(self) -> float:
        """When the last key came."""
        return self._last_s

    def hold(self, now_s: float) -> None:
        self._held_since_s = now_s

    def drop(self) -> bool:
        """Forget the held-back key; True if there was one."""
        held = self._held_since_s is not None
        self._held_since_s = None
        return held

    @property
    def holding(self) -> bool:
        return self._held_since_s is not None

    def alone(self, now_s: float) -> bool:
        """True once, when the held-back key has been alone long enough."""
        if self._held_since_s is None or now_s - self._held_since_s < LONE_S:
            return False
        self._held_since_s = None
        return True

"""How many requests a rule lets through in a minute, whoever asks: a sliding minute, counted in two halves.

The last whole minute counts by the share of it that still lies within the sliding one, so that memory does not grow
with the number of requests and no burst doubles at a minute's border. Prompts have budgets of their own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

MINUTE_S = 60.0


@dataclass(slots=True, kw_only=True)
class _Count:
    minute: int
    now: int = 0
    before: int = 0


class Rates:
    """Counts by rule. Rules that nobody used for two minutes are forgotten with the next count."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._counts: dict[str, _Count] = {}

    def take(self, rules: Iterable[str], per_minute: int) -> bool:
        """Count one request under each of the rules; False, and nothing counted, where one of them is used up."""
        minute, into = divmod(self._monotonic_s(), MINUTE_S)
        self._turn(int(minute))
        counts = [self._counts.setdefault(rule, _Count(minute=int(minute))) for rule in rules]
        if any(count.now + count.before * (1 - into / MINUTE_S) >= per_minute for count in counts):
            return False
        for count in counts:
            count.now += 1
        return True

    def __len__(self) -> int:
        return len(self._counts)

    def _turn(self, minute: int) -> None:
        for rule, count in list(self._counts.items()):
            if count.minute == minute:
                continue
            if count.minute < minute - 1:
                del self._counts[rule]
            else:
                count.minute, count.before, count.now = minute, count.now, 0

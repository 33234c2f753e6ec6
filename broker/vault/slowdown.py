"""How long the next passphrase waits after wrong ones. Forgotten at a restart: the file itself can be copied anyway."""

from collections.abc import Callable

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0  # a caller who guesses must not keep the owner out for longer
_MAX_DOUBLINGS = 8


class Slowdown:
    """Doubling waits. An attempt within the wait is not looked at and does not lengthen it."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._failures = 0
        self._not_before_s = 0.0

    def failed(self) -> float:
        """Count a wrong one; seconds until the next is looked at."""
        wait_s = min(FIRST_WAIT_S * (1 << min(self._failures, _MAX_DOUBLINGS)), LONGEST_WAIT_S)
        self._failures += 1
        self._not_before_s = self._monotonic_s() + wait_s
        return wait_s

    def succeeded(self) -> None:
        self._failures = 0
        self._not_before_s = 0.0

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._not_before_s - self._monotonic_s()) if self._failures else 0.0

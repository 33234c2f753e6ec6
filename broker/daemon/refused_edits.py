"""Which refused states of the policy files go on record: each once, and no more in an hour than anybody would read."""

import hashlib
from collections import deque
from collections.abc import Callable

EDITS_PER_HOUR = 20
HOUR_S = 3600.0


class RefusedEdits:
    """Remembers the latest state. What is not recorded for their number is counted, and told with the next."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._latest = ""
        self._recorded_s: deque[float] = deque(maxlen=EDITS_PER_HOUR)
        self._passed_over = 0

    def due(self, told: str | None) -> int | None:
        """How many were passed over, where this state is to be recorded now; None where not. `told` is its faults."""
        if told is None:
            self._latest = ""
            return None
        state = hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()
        if state == self._latest:
            return None
        self._latest = state
        full = len(self._recorded_s) == EDITS_PER_HOUR
        if full and self._recorded_s[0] > self._monotonic_s() - HOUR_S:
            self._passed_over += 1
            return None
        return self._passed_over

    def recorded(self) -> None:
        self._recorded_s.append(self._monotonic_s())
        self._passed_over = 0

    def not_recorded(self) -> None:
        """The log did not take it: it is due once more."""
        self._latest = ""

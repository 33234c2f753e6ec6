"""The clocks of the machine, as the ports want them."""

import time
from datetime import tzinfo

from broker.core.policy.hours import Moment
from broker.policyfiles.local_time import local_zone, moment_of


class SystemClock:
    """Wall-clock milliseconds for records, monotonic seconds for waits, and what a clock on the wall shows.

    The zone is read once: who changes it starts the daemon again.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone or local_zone()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def moment(self) -> Moment:
        return moment_of(self.now_ms(), self._zone)

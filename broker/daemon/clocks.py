"""The clocks of the machine, as the ports want them."""

import time
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from broker.core.policy.hours import Moment

LOCAL_ZONE = Path("/etc/localtime")


class SystemClock:
    """Wall-clock milliseconds for records, monotonic seconds for waits, and what a clock on the wall shows.

    The zone is the machine's own, read once: no environment variable moves the hours of a rule.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone or _zone_of(LOCAL_ZONE)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def moment(self) -> Moment:
        return self.moment_of(self.now_ms())

    def moment_of(self, at_ms: int) -> Moment:
        shown = datetime.fromtimestamp(at_ms // 1000, tz=self._zone)
        return Moment(weekday=shown.weekday(), minute=shown.hour * 60 + shown.minute)


def _zone_of(path: Path) -> tzinfo:
    """The zone that a file describes; UTC where there is none, as the C library has it."""
    try:
        with path.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC

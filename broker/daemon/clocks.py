"""The clocks of the machine, as the ports want them."""

import time


class SystemClock:
    """Wall-clock milliseconds for records, monotonic seconds for waits."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

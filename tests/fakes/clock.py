"""A clock that stands still until it is moved."""

START_MS = 1_763_130_000_000


class SetClock:
    """Implements ports.Clock."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def now_ms(self) -> int:
        return START_MS + self.passed_ms

    def monotonic_s(self) -> float:
        return 100 + self.passed_ms / 1000

    def advance(self, *, seconds: int) -> None:
        self.passed_ms += seconds * 1000

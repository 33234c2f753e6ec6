"""Asking for the trail of a row when the focus has rested on it, once for each state of the row.

Asked anew where it was shown and another one took its place since. Pure but for its own state.
"""

from dataclasses import dataclass

from ui.messages import ReadTrail, TrailNews

REST_S = 0.3


@dataclass(slots=True)
class Resting:
    """`at` is told which row is in focus, and of which state of it the trail would be."""

    _on: tuple[str, int] | None = None
    _since_s: float = 0.0
    _asked: tuple[str, int] | None = None
    _shown: str | None = None

    def at(self, row: tuple[str, int], now_s: float, trail: TrailNews | None, *, lost: bool) -> tuple[ReadTrail, ...]:
        if row != self._on:
            self._on, self._since_s = row, now_s
        if trail is not None and trail.correlation_id == row[0]:
            self._shown = row[0]
        elif self._shown == row[0]:
            self.forget()
        if lost or row == self._asked or now_s - self._since_s < REST_S:
            return ()
        self._asked = row
        return (ReadTrail(correlation_id=row[0]),)

    def forget(self) -> None:
        """What was told is not known any more, or there is more to tell."""
        self._asked = self._shown = None

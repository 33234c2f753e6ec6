"""What far sides write down themselves, and the world that a case runs in.

Nothing of the daemon or of its client is in here, so that a far side's log can be held against the daemon's.
"""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One line of a far side's own log, in its own order.

    `what`: connected | received | committed | repeated | answered | broke | started | finished | killed.
    """

    case: str
    what: str
    detail: str = ""  # method and target, or the command
    status: int | None = None
    key: str | None = None  # under which the change was asked for
    credential: str | None = None  # as it came; never printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The same in numbers."""

    received: int
    committed: int
    keys: tuple[str, ...]  # different ones, in order
    events: tuple[Seen, ...] = field(default=())


class FarSide(Protocol):
    """A fault server. Armed once for each run of a case; told apart by the run's name."""

    def events(self, run: str) -> tuple[Seen, ...]:
        """What it wrote down of this run, in order."""
        ...


def recorded(events: tuple[Seen, ...]) -> Recorded:
    keys: dict[str, None] = {one.key: None for one in events if one.key is not None}
    return Recorded(
        received=sum(one.what == "received" for one in events),
        committed=sum(one.what == "committed" for one in events),
        keys=tuple(keys),
        events=events,
    )

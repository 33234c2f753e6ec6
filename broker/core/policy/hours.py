"""When a rule speaks: windows of local wall-clock time, `mon-fri 08:00-18:00` or `22:00-06:00`.

A window that ends before it begins goes over midnight, and belongs to the day on which it begins. Its end is not in it.
Where the clock is put on, what it leaves out never comes; where it is put back, it comes twice. Holds no clock.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from typing_extensions import override

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
SHAPE = "HH:MM-HH:MM, or days in front: mon-fri 08:00-18:00, sat,sun 10:00-12:00"
_WINDOW = re.compile(r"(?:([a-z,-]{3,40}) )?([0-2][0-9]):([0-5][0-9])-([0-2][0-9]):([0-5][0-9])")
_SPAN = re.compile(r"([a-z]{3})(?:-([a-z]{3}))?")


class WindowError(ValueError):
    """The text is no window. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Moment:
    """A minute of a week as a clock on the wall shows it; `weekday` 0 is Monday."""

    weekday: int
    minute: int

    @override
    def __str__(self) -> str:
        return f"{DAYS[self.weekday]} {self.minute // 60:02}:{self.minute % 60:02}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Minutes of a day, on these days (0 is Monday). `end` is at most `begin` where it goes over midnight."""

    text: str
    days: frozenset[int]
    begin: int
    end: int

    def holds(self, moment: Moment) -> bool:
        if self.begin < self.end:
            return moment.weekday in self.days and self.begin <= moment.minute < self.end
        if moment.minute >= self.begin:
            return moment.weekday in self.days
        return moment.minute < self.end and (moment.weekday - 1) % 7 in self.days

    @property
    def borders(self) -> frozenset[int]:
        """The minutes of the week at which it begins or has ended."""
        length = (self.end - self.begin) % DAY_MINUTES or DAY_MINUTES
        begins = [day * DAY_MINUTES + self.begin for day in self.days]
        return frozenset(at % WEEK_MINUTES for begin in begins for at in (begin, begin + length))


def window_of(text: str) -> Window:
    """Parse one window. Raises WindowError."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise WindowError("it is no window of time")
    begin, end = (60 * int(found[at]) + int(found[at + 1]) for at in (2, 4))
    if begin >= DAY_MINUTES or end > DAY_MINUTES:
        raise WindowError("a day has the times 00:00 to 24:00")
    if begin == end:
        raise WindowError("it begins where it ends; the whole day is 00:00-24:00")
    return Window(text=text, days=_days(found[1]), begin=begin, end=end)


def _days(text: str | None) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days: list[int] = []
    for part in text.split(","):
        found = _SPAN.fullmatch(part)
        names = [] if found is None else [name for name in found.groups() if name is not None]
        if not names or not set(names) <= set(DAYS):
            raise WindowError(f"days are {', '.join(DAYS)}, alone or as in mon-fri")
        first, last = DAYS.index(names[0]), DAYS.index(names[-1])
        days += [day % 7 for day in range(first, first + (last - first) % 7 + 1)]
    if len(set(days)) != len(days):
        raise WindowError("a day stands twice in it")
    return frozenset(days)


def is_within(windows: Iterable[Window], moment: Moment) -> bool:
    """Whether one of the windows holds the moment; no window at all holds every one."""
    listed = tuple(windows)
    return not listed or any(window.holds(moment) for window in listed)


def turns(hours: Mapping[str, tuple[Window, ...]]) -> dict[frozenset[str], Moment]:
    """Which of the names are within their windows together, and the first minute of a week at which just these are."""
    borders = {at for windows in hours.values() for window in windows for at in window.borders}
    found: dict[frozenset[str], Moment] = {}
    for at in sorted({0, *borders}):
        moment = Moment(weekday=at // DAY_MINUTES, minute=at % DAY_MINUTES)
        found.setdefault(frozenset(name for name, one in hours.items() if is_within(one, moment)), moment)
    return found

"""Days and times of day here, in few columns. The months are English whatever the locale is. Pure but for the zone."""

import time

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def minute(at_ms: int) -> str:
    """`14:02`."""
    return time.strftime("%H:%M", time.localtime(at_ms / 1000))


def day(at_ms: int, *, now_ms: int | None = None) -> str:
    """`2 Nov`, with the year where it is not that of `now_ms`."""
    at = time.localtime(at_ms / 1000)
    year = "" if now_ms is None or time.localtime(now_ms / 1000).tm_year == at.tm_year else f" {at.tm_year}"
    return f"{at.tm_mday} {_MONTHS[at.tm_mon - 1]}{year}"


def day_and_minute(at_ms: int) -> str:
    """`14 Nov 12:58`."""
    return f"{day(at_ms)} {minute(at_ms)}"


def near(at_ms: int, now_ms: int) -> str:
    """The time of day where it was today, else the day."""
    return minute(at_ms) if day_began_ms(now_ms) <= at_ms else day(at_ms, now_ms=now_ms)


def day_began_ms(now_ms: int) -> int:
    """Midnight here."""
    at = time.localtime(now_ms / 1000)
    return int(time.mktime((at.tm_year, at.tm_mon, at.tm_mday, 0, 0, 0, 0, 0, -1))) * 1000

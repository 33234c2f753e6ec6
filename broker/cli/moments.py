"""Moments as humans write them: RFC 3339, a date, `2h` for that long ago, `today`, `yesterday`."""

import re
from argparse import ArgumentTypeError
from datetime import datetime, timedelta

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
FORMS = "RFC 3339, a date, 2h (ago; s m h d w), today, yesterday"


def moment(text: str, *, now: datetime | None = None) -> int:
    """Milliseconds since the epoch. Without an offset it is local time. Raises ValueError."""
    at = now or datetime.now().astimezone()
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return _ms(at - timedelta(seconds=int(ago[1]) * _UNITS_S[ago[2]]))
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if text == "today":
        return _ms(midnight)
    if text == "yesterday":
        return _ms(midnight - timedelta(days=1))
    return _ms(datetime.fromisoformat(text).astimezone())


def told_moment(text: str) -> int:
    """A moment of the command line. Raises ArgumentTypeError, which names the forms that there are."""
    try:
        return moment(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time; good are: {FORMS}") from None


def _ms(at: datetime) -> int:
    found = int(at.timestamp() * 1000)
    if found < 0:
        raise ValueError(at)
    return found

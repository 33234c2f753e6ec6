"""How long an answer asks to wait, read strictly: a number that is half a number is none.

Dates are measured against the answer's own Date where it has one. A wait that can't be read is replaced by the
declared default, and said so; it never becomes zero.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from broker.contract.wire import JsonObject, JsonValue
from broker.core.policy.declarations import Delay
from broker.core.policy.model import RateLimit
from broker.core.policy.places import at

RETRY_AFTER = Delay(path="headers.retry-after", kind="http_retry_after")
DEFAULT_RATE_LIMIT = RateLimit(delays=(RETRY_AFTER,))

_FIRST_MEMBER = re.compile(r'\s*(?:"[^"]*"|[A-Za-z*][^\s;,="]*(?:=[^\s;,"]+)?)((?:\s*;[^;,]*)*)')
_PARAMETERS = re.compile(r";\s*([a-z*][a-z0-9_.*-]*)=([0-9.]+)(?=\s*(?:;|$))")
_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
_DAY, _MONTH, _TIME = (
    "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)",
    "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)",
    "[0-9]{2}:[0-9]{2}:[0-9]{2}",
)
_HTTP_DATE = re.compile(  # RFC 9110, section 5.6.7: the one form that is written, and two that are still to be read
    rf"{_DAY}, [0-9]{{2}} {_MONTH} [0-9]{{4}} {_TIME} GMT"
    rf"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [0-9]{{2}}-{_MONTH}-[0-9]{{2}} {_TIME} GMT"
    rf"|{_DAY} {_MONTH} [ 0-9][0-9] {_TIME} [0-9]{{4}}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """`doubtful` marks a wait that was told but could not be used."""

    seconds: int
    doubtful: bool = False


def wait_told(view: JsonObject, limit: RateLimit, *, now_ms: int, floor_s: int | None = None) -> Wait:
    """The first declared delay that can be read, not below the floor; else the declared default."""
    floor = max(limit.floor_s, floor_s or 0)
    doubtful = False
    for delay in limit.delays or (RETRY_AFTER,):
        told = at(view, delay.path)
        if told is None:
            continue
        seconds = _seconds(told, delay, reference_s=_reference_s(view, now_ms))
        if seconds is not None:
            return Wait(seconds=max(floor, seconds))
        doubtful = True
    return Wait(seconds=max(floor, limit.default_s), doubtful=doubtful)


def retry_after(view: JsonObject, *, now_ms: int) -> int | None:
    """Seconds of a readable Retry-After, at least one; None where there is none."""
    told = at(view, RETRY_AFTER.path)
    seconds = None if told is None else _seconds(told, RETRY_AFTER, reference_s=_reference_s(view, now_ms))
    return None if seconds is None else max(1, seconds)


def skew_s(view: JsonObject, *, now_ms: int) -> int | None:
    """By how many seconds the answer's Date differs from our clock; None where it has no readable one."""
    date = _http_date(at(view, "headers.date"))
    return None if date is None else date - now_ms // 1000


def told_s(view: JsonObject, delay: Delay, *, now_ms: int) -> int | None:
    """What one place tells; None where nothing stands there that can be read."""
    told = at(view, delay.path)
    return None if told is None else _seconds(told, delay, reference_s=_reference_s(view, now_ms))


def _seconds(told: JsonValue, delay: Delay, *, reference_s: float) -> int | None:
    kind = delay.kind
    if kind == "sf_param":
        told = _parameter(told, delay.parameter)
    date = _http_date(told) if kind == "http_retry_after" else None
    if date is not None:
        return max(0, math.ceil(date - reference_s))
    number = _number(told)
    if number is None:
        return None
    if kind == "epoch_s":
        number -= reference_s
    elif kind == "epoch_ms":
        number = number / 1000 - reference_s
    return max(0, math.ceil(number))


def _parameter(told: JsonValue, name: str) -> str | None:
    """A parameter of the first member of a structured field (RFC 9651); of repeated fields the first is read."""
    if isinstance(told, list):
        told = told[0]
    if not isinstance(told, str):
        return None
    member = _FIRST_MEMBER.match(told)
    found = _PARAMETERS.findall(member[1]) if member is not None else []
    return next((value for key, value in found if key == name), None)


def _number(told: JsonValue) -> float | None:
    """A number that is not negative; text only where all of it is one."""
    if isinstance(told, bool):
        return None
    if isinstance(told, str):
        return float(told) if _SECONDS.fullmatch(told.strip()) else None
    if isinstance(told, int | float):
        return float(told) if 0 <= told < 1e15 else None
    return None


def _reference_s(view: JsonObject, now_ms: int) -> float:
    date = _http_date(at(view, "headers.date"))
    return now_ms / 1000 if date is None else date


def _http_date(told: JsonValue) -> int | None:
    if not isinstance(told, str) or not _HTTP_DATE.fullmatch(told.strip()):
        return None
    try:
        moment = parsedate_to_datetime(told.strip())
        return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except ValueError:  # the thirtieth of February
        return None

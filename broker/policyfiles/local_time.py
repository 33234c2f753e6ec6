"""What a clock on the wall of this machine shows: its own zone, and no variable of anybody's environment."""

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from broker.core.policy.hours import Moment

LOCAL_ZONE = Path("/etc/localtime")


def local_zone(path: Path = LOCAL_ZONE) -> tzinfo:
    """The zone that a file describes; UTC where there is none, as the C library has it."""
    try:
        with path.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC


def moment_of(at_ms: int, zone: tzinfo) -> Moment:
    """The minute of the week at which this is, in a zone."""
    shown = datetime.fromtimestamp(at_ms // 1000, tz=zone)
    return Moment(weekday=shown.weekday(), minute=shown.hour * 60 + shown.minute)

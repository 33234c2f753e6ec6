from argparse import ArgumentTypeError
from datetime import UTC, datetime

import pytest

from broker.cli.moments import moment, told_moment

pytestmark = pytest.mark.usefixtures("in_utc")

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", NOON_MS - 2 * HOUR_MS),
        ("90s", NOON_MS - 90_000),
        ("5m", NOON_MS - 300_000),
        ("1d", NOON_MS - 24 * HOUR_MS),
        ("1w", NOON_MS - 7 * 24 * HOUR_MS),
        ("today", NOON_MS - 12 * HOUR_MS),
        ("yesterday", NOON_MS - 36 * HOUR_MS),
        ("2026-11-30", NOON_MS - 12 * HOUR_MS),
        ("2026-11-30T12:00:00Z", NOON_MS),
        ("2026-11-30T14:00:00.250+02:00", NOON_MS + 250),
        ("2026-11-30 11:00", NOON_MS - HOUR_MS),
    ],
)
def test_moments_as_humans_write_them(text: str, expected: int) -> None:
    assert expected == moment(text, now=NOON)


@pytest.mark.parametrize("text", ["", "soon", "2", "h", "-2h", "1969-01-01", "2026-13-01", "9" * 9 + "h"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        moment(text, now=NOON)


def test_what_is_no_moment_is_told_with_the_forms_that_there_are() -> None:
    assert told_moment("2026-11-30") < told_moment("1s")
    with pytest.raises(ArgumentTypeError, match=r"'yesterdy' is no time; good are: RFC 3339, a date, 2h"):
        told_moment("yesterdy")

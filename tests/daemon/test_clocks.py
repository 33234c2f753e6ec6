"""What a clock on the wall shows: the machine's own zone, over the turns of summer time."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path

import pytest
from typing_extensions import override

from broker.core.policy.hours import Moment, window_of
from broker.daemon.clocks import SystemClock
from broker.policyfiles.local_time import local_zone, moment_of

SPRING = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)


class Middle(tzinfo):
    """An hour before UTC in winter and two in summer, as in the middle of Europe in 2026."""

    @override
    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None
        at = moment.replace(tzinfo=UTC)
        is_summer = SPRING + timedelta(hours=1) <= at < AUTUMN + timedelta(hours=1)
        return timedelta(hours=2 if is_summer else 1)

    @override
    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    @override
    def tzname(self, moment: datetime | None) -> str:
        return "middle"

    @override
    def fromutc(self, moment: datetime) -> datetime:
        at = moment.replace(tzinfo=UTC)
        return moment + timedelta(hours=2 if SPRING <= at < AUTUMN else 1)


def shown(at: datetime, zone: tzinfo | None = None) -> str:
    return str(moment_of(int(at.timestamp() * 1000), zone or Middle()))


def test_the_minute_is_the_one_of_the_zone() -> None:
    assert "mon 00:30" == shown(datetime(2026, 1, 4, 23, 30, 59, tzinfo=UTC))
    assert "sun 23:30" == shown(datetime(2026, 1, 4, 23, 30, tzinfo=UTC), UTC)
    assert "sun 18:30" == shown(datetime(2026, 1, 4, 23, 30, tzinfo=UTC), timezone(timedelta(hours=-5)))


def test_an_hour_that_is_left_out_never_comes() -> None:
    window = window_of("02:15-02:45")
    minutes = [int((SPRING + timedelta(minutes=minute)).timestamp() * 1000) for minute in range(-180, 180)]

    assert ("sun 01:59", "sun 03:00") == (shown(SPRING - timedelta(minutes=1)), shown(SPRING))
    assert not any(window.holds(moment_of(at_ms, Middle())) for at_ms in minutes)


def test_an_hour_that_comes_twice_is_within_the_window_twice() -> None:
    window = window_of("02:15-02:45")
    minutes = [int((AUTUMN + timedelta(minutes=minute)).timestamp() * 1000) for minute in range(-180, 180)]

    assert ("sun 02:59", "sun 02:00") == (shown(AUTUMN - timedelta(minutes=1)), shown(AUTUMN))
    assert 2 * 30 == sum(window.holds(moment_of(at_ms, Middle())) for at_ms in minutes)


def test_the_zone_comes_from_the_machine_and_from_no_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = moment_of(0, local_zone())
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")

    assert before == moment_of(0, local_zone())
    assert UTC == local_zone(tmp_path / "nosuch")
    (tmp_path / "broken").write_bytes(b"no zone")
    assert UTC == local_zone(tmp_path / "broken")


def test_now_is_a_minute_of_the_week() -> None:
    now = SystemClock().moment()

    assert isinstance(now, Moment)
    assert (True, True) == (0 <= now.weekday < 7, 0 <= now.minute < 24 * 60)

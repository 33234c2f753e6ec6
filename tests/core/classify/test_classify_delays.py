from dataclasses import replace
from typing import Any

import pytest

from broker.contract.wire import JsonValue
from broker.core.classify.delays import retry_after, skew_s, told_s, wait_told
from broker.core.policy.declarations import Delay
from broker.core.policy.model import RateLimit
from broker.core.policy.places import at
from broker.core.predicate import answer_view
from tests.fakes.answers import DATE, NOW_MS

LIMIT = RateLimit(default_s=30, floor_s=1)


def told(value: str, *, date: str | None = None) -> dict[str, JsonValue]:
    headers = [("retry-after", value)] + ([] if date is None else [("date", date)])
    return answer_view(status=429, headers=headers)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        ("0", 1),
        ("0.503", 1),
        ("1.2", 2),
        (" 5 ", 5),
        ("Sun, 29 Nov 2026 12:02:00 GMT", 120),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1),
        ("Sunday, 29-Nov-26 12:02:00 GMT", 120),
        ("Sun Nov 29 12:02:00 2026", 120),
        ("Sun Nov  1 12:02:00 2026", 1),
    ],
)
def test_seconds_and_dates_are_read(value: str, seconds: int) -> None:
    wait = wait_told(told(value), LIMIT, now_ms=NOW_MS)

    assert (seconds, False) == (wait.seconds, wait.doubtful)


def test_a_date_is_measured_against_the_date_of_the_answer() -> None:
    view = told("Sun, 29 Nov 2026 12:02:00 GMT", date="Sun, 29 Nov 2026 12:01:50 GMT")

    assert 10 == wait_told(view, LIMIT, now_ms=NOW_MS).seconds


@pytest.mark.parametrize(
    "value",
    [
        "-3",
        "120junk",
        "junk",
        "1e3",
        "",
        "Sun, 29 Nov 2026 12:02:00 +0000",
        "Sun, 31 Feb 2026 12:02:00 GMT",
        "Sun Feb 31 12:02:00 2026",
        "Sun, 29-Nov-26 12:02:00 GMT",
        "٣",
    ],
)
def test_what_can_not_be_read_gives_the_default_and_says_so(value: str) -> None:
    wait = wait_told(told(value), LIMIT, now_ms=NOW_MS)

    assert (30, True) == (wait.seconds, wait.doubtful)


def test_without_a_word_the_default_holds() -> None:
    wait = wait_told(answer_view(status=429), LIMIT, now_ms=NOW_MS)

    assert (30, False) == (wait.seconds, wait.doubtful)


@pytest.mark.parametrize(
    ("kind", "value", "seconds"),
    [
        ("epoch_s", NOW_MS // 1000 + 300, 300),
        ("epoch_s", str(NOW_MS // 1000 + 300), 300),
        ("epoch_ms", NOW_MS + 2500, 3),
        ("epoch_s", NOW_MS // 1000 - 300, 1),
        ("delta_s", 42, 42),
        ("delta_s", 1.5, 2),
        ("delta_s", True, 30),
        ("delta_s", -1, 30),
        ("delta_s", 1e300, 30),
        ("delta_s", [], 30),
        ("delta_s", "Sun, 29 Nov 2026 12:02:00 GMT", 30),
    ],
)
def test_declared_kinds_are_read_where_they_stand(kind: str, value: JsonValue, seconds: int) -> None:
    limit = replace(LIMIT, delays=(Delay(path="json.reset", kind=kind),))

    assert seconds == wait_told(answer_view(status=429, json={"reset": value}), limit, now_ms=NOW_MS).seconds


def test_the_first_delay_that_can_be_read_counts() -> None:
    delays = tuple(Delay(path=f"json.{name}", kind="delta_s") for name in ("none", "bad", "good", "late"))
    limit = replace(LIMIT, delays=delays)
    view = answer_view(status=429, json={"bad": "soon", "good": 9, "late": 10})

    assert 9 == wait_told(view, limit, now_ms=NOW_MS).seconds


def test_no_wait_is_below_a_floor() -> None:
    assert 60 == wait_told(told("7"), LIMIT, now_ms=NOW_MS, floor_s=60).seconds
    assert 90 == wait_told(told("x"), LIMIT, now_ms=NOW_MS, floor_s=90).seconds


def test_retry_after_alone() -> None:
    assert 7 == retry_after(told("7"), now_ms=NOW_MS)
    assert 1 == retry_after(told("0"), now_ms=NOW_MS)
    assert None is retry_after(told("junk"), now_ms=NOW_MS)
    assert None is retry_after(answer_view(status=503), now_ms=NOW_MS)


def test_the_skew_of_clocks_is_told_by_the_date() -> None:
    assert 0 == skew_s(answer_view(status=200, headers=[("date", DATE)]), now_ms=NOW_MS)
    assert -3600 == skew_s(answer_view(status=200, headers=[("date", "Sun, 29 Nov 2026 11:00:00 GMT")]), now_ms=NOW_MS)
    assert None is skew_s(answer_view(status=200), now_ms=NOW_MS)


def test_a_place_is_a_plain_path_through_objects_and_rows() -> None:
    view: dict[str, JsonValue] = {"json": {"rows": [{"id": 7}], "text": "abc"}}

    assert 7 == at(view, "json.rows.0.id")
    assert None is at(view, "json.rows.1.id")
    assert None is at(view, "json.rows.x")
    assert None is at(view, "json.text.0")
    assert None is at(view, "json.none.none")


@pytest.mark.parametrize(
    ("told", "parameter", "seconds"),
    [
        ('"default";r=0;t=42', "t", 42),
        ('"default";t=42;r=0, "other";t=7', "t", 42),
        ("limit=100;w=60", "w", 60),
        ("100;w=60", "t", None),
        ('"default";t=soon', "t", None),
        (['"a";t=3', '"b";t=9'], "t", 3),
        ("", "t", None),
        (7, "t", None),
    ],
)
def test_a_parameter_of_a_structured_field_tells_seconds(told: object, parameter: str, seconds: int | None) -> None:
    view: Any = {"headers": {"ratelimit": told}}

    assert seconds == told_s(view, Delay(path="headers.ratelimit", kind="sf_param", parameter=parameter), now_ms=0)
    assert None is told_s({}, Delay(path="headers.ratelimit", kind="sf_param"), now_ms=0)

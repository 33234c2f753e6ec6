"""Windows of time: borders, midnight, days, and what a policy is at a moment."""

import pytest

from broker.core.policy.hours import DAYS, Moment, Window, WindowError, is_within, turns, window_of
from broker.core.policy.model import Policy
from tests.fakes.policies import SHOP, policy_of


def at(text: str) -> Moment:
    day, _, clock = text.partition(" ")
    return Moment(weekday=DAYS.index(day), minute=int(clock[:2]) * 60 + int(clock[3:]))


@pytest.mark.parametrize(
    ("window", "moment", "holds"),
    [
        ("09:00-17:30", "mon 08:59", False),
        ("09:00-17:30", "mon 09:00", True),
        ("09:00-17:30", "sun 17:29", True),
        ("09:00-17:30", "mon 17:30", False),
        ("00:00-24:00", "sun 23:59", True),
        ("00:00-24:00", "mon 00:00", True),
        ("22:00-24:00", "mon 23:59", True),
        ("22:00-24:00", "tue 00:00", False),
        ("22:00-06:00", "mon 22:00", True),
        ("22:00-06:00", "mon 00:00", True),
        ("22:00-06:00", "mon 05:59", True),
        ("22:00-06:00", "mon 06:00", False),
        ("22:00-00:00", "mon 23:59", True),
        ("22:00-00:00", "tue 00:00", False),
        ("mon-fri 09:00-17:00", "fri 16:59", True),
        ("mon-fri 09:00-17:00", "sat 10:00", False),
        ("fri 22:00-06:00", "fri 23:00", True),
        ("fri 22:00-06:00", "sat 05:59", True),
        ("fri 22:00-06:00", "fri 05:59", False),
        ("sun 22:00-06:00", "mon 05:59", True),
        ("sat-mon 10:00-11:00", "sun 10:30", True),
        ("sat-mon 10:00-11:00", "tue 10:30", False),
        ("sat,sun 10:00-11:00", "sat 10:30", True),
        ("mon-wed,sun 10:00-11:00", "sun 10:30", True),
    ],
)
def test_a_window_holds_from_its_first_minute_up_to_its_last(window: str, moment: str, holds: bool) -> None:  # noqa: FBT001 - a verdict
    assert holds == window_of(window).holds(at(moment))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is no window of time"),
        ("9:00-17:00", "it is no window of time"),
        ("09:00 - 17:00", "it is no window of time"),
        ("Mon 09:00-17:00", "it is no window of time"),
        ("09:00-17:60", "it is no window of time"),
        ("24:00-01:00", "a day has the times 00:00 to 24:00"),
        ("09:00-24:01", "a day has the times 00:00 to 24:00"),
        ("29:00-01:00", "a day has the times 00:00 to 24:00"),
        ("09:00-09:00", "it begins where it ends; the whole day is 00:00-24:00"),
        ("mo- 09:00-17:00", "days are mon, tue, wed, thu, fri, sat, sun, alone or as in mon-fri"),
        ("day 09:00-17:00", "days are mon, tue, wed, thu, fri, sat, sun, alone or as in mon-fri"),
        ("mon,mon 09:00-17:00", "a day stands twice in it"),
        ("mon-wed,tue 09:00-17:00", "a day stands twice in it"),
    ],
)
def test_what_is_no_window_is_told_why(text: str, why: str) -> None:
    with pytest.raises(WindowError) as told:
        window_of(text)
    assert why == str(told.value)


def test_a_rule_without_hours_speaks_always_and_several_windows_are_alternatives() -> None:
    lunch, night = window_of("12:00-13:00"), window_of("22:00-06:00")

    assert is_within((), at("wed 03:00"))
    assert is_within((lunch, night), at("wed 12:30"))
    assert is_within((lunch, night), at("wed 03:00"))
    assert not is_within((lunch, night), at("wed 10:00"))


@pytest.mark.parametrize(
    "text", ["mon-fri 09:00-17:00", "22:00-06:00", "sun 22:00-06:00", "00:00-24:00", "sat 23:00-24:00"]
)
def test_nothing_changes_between_two_borders(text: str) -> None:
    window = window_of(text)
    minutes = [Moment(weekday=day, minute=minute) for day in range(7) for minute in range(24 * 60)]
    changes = {
        minutes.index(moment)
        for before, moment in zip([minutes[-1], *minutes], minutes, strict=False)
        if window.holds(before) != window.holds(moment)
    }

    assert changes <= window.borders


def test_each_combination_of_rules_is_found_once_with_its_first_minute() -> None:
    hours: dict[str, tuple[Window, ...]] = {
        "day": (window_of("08:00-18:00"),),
        "lunch": (window_of("12:00-13:00"),),
        "never": (window_of("mon 03:00-04:00"),),
    }

    assert {
        frozenset(): "mon 00:00",
        frozenset({"never"}): "mon 03:00",
        frozenset({"day"}): "mon 08:00",
        frozenset({"day", "lunch"}): "mon 12:00",
    } == {names: str(moment) for names, moment in turns(hours).items()}


TIMED = """
[[rules]]
id = "office"
approval = "session"
hours = ["mon-fri 09:00-17:00", "sat 10:00-12:00"]

[[rules]]
id = "night"
approval = "deny"
hours = ["22:00-06:00"]

[[rules]]
id = "always"
approval = "per_call"
"""


def speaking(policy: Policy, moment: str) -> tuple[list[str], list[str]]:
    now = policy.at(at(moment))
    return sorted(rule.id for rule in now.rules), sorted(rule.id for rule in now.resting)


def test_a_policy_at_a_moment_has_the_rules_that_speak_then() -> None:
    policy = policy_of(SHOP, TIMED)

    assert (["always", "office"], ["night"]) == speaking(policy, "mon 16:59")
    assert (["always"], ["night", "office"]) == speaking(policy, "mon 17:00")
    assert (["always", "night"], ["office"]) == speaking(policy, "tue 00:00")
    assert speaking(policy, "sat 11:00") == speaking(policy.at(at("tue 00:00")), "sat 11:00")
    assert policy.digest == policy.at(at("mon 00:00")).digest


def test_a_policy_without_hours_is_the_same_at_any_moment() -> None:
    policy = policy_of(SHOP)

    assert policy is policy.at(at("mon 00:00"))

"""How often agents' days ask a human: once for a day of reading, once per deploy, and never beyond the limit."""

import pytest

from broker.core.policy.model import Limits
from tests.flow import agent_days
from tests.flow.agent_days import Told


@pytest.fixture(scope="module")
def days() -> dict[str, Told]:
    return {day.name: day for day in agent_days.days()}


def test_a_day_of_reading_asks_once_and_says_for_how_much_and_how_long(days: dict[str, Told]) -> None:
    (prompt,) = days["reading"].prompts

    assert (agent_days.DAY_BEGINS_S, "yes, for the session") == (prompt.at_s, prompt.answer)
    assert "500 calls or 8 h" in prompt.scope
    assert (225, 225, []) == (days["reading"].calls, days["reading"].sent, days["reading"].refused)


def test_a_day_of_deploys_asks_once_for_each_and_for_no_read(days: dict[str, Told]) -> None:
    day = days["deploying"]

    assert ["this one request, once. It can not be undone."] * 3 == [prompt.scope for prompt in day.prompts]
    assert all(prompt.what.startswith("WRITE market orders.create") for prompt in day.prompts)
    assert (60, 63, []) == (day.reads, day.sent, day.refused)


def test_a_flood_is_muted_at_the_limit_whatever_process_goes_on(days: dict[str, Told]) -> None:
    day, limit = days["flood"], Limits().prompts_per_minute
    *flood, after = day.prompts

    assert limit == len(flood)
    assert [(agent_days.DAY_BEGINS_S + limit, f"codex is muted: {limit} cards in a minute")] == day.lines
    assert {"muted": 80 - limit, "approval_expired": limit} == {
        code: day.refused.count(code) for code in set(day.refused)
    }
    assert (1, "yes, once") == (day.sent, after.answer), "unmuted, it is heard again"


def test_the_days_are_told_as_a_table(days: dict[str, Told]) -> None:
    told = agent_days.table(list(days.values()))
    print(told)

    assert ["day", "at", "asked", "about", "answer", "what", "a", "yes", "covers"] == told.splitlines()[0].split()
    assert "1 prompt for 225 calls (225 reads); 225 sent, 0 refused" in told
    assert "3 prompts for 63 calls (60 reads); 63 sent, 0 refused" in told
    assert all(line == line.rstrip() for line in told.splitlines())

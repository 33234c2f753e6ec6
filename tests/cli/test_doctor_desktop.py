"""What the doctor says of the desktop: never a fault, and always what then still works."""

import pytest

from broker.cli.doctor_desktop import desktop
from broker.cli.doctor_finding import Level
from broker.contract.wire import JsonValue


def found(**changes: JsonValue) -> list[tuple[Level, str]]:
    told: dict[str, JsonValue] = {
        "notices": "ready",
        "login_session": "ready",
        "delays_sleep": True,
        "forged_signals": 0,
        **changes,
    }
    return [(finding.level, finding.message) for finding in desktop({"desktop": told})]


def test_a_whole_desktop_is_in_order() -> None:
    (_, notices), (_, locks) = found()
    assert {Level.OK} == {level for level, _ in found()}
    assert "never approved" in notices
    assert "before a sleep, which waits for it, and when the screen locks" in locks


@pytest.mark.parametrize(
    ("state", "level", "words"),
    [
        ("off", Level.OK, "--no-notices"),
        ("no_bus", Level.OK, "no session bus"),
        ("no_service", Level.WARNING, "no notification service"),
        ("silent", Level.WARNING, "does not answer"),
    ],
)
def test_notices_that_do_not_come_are_told_with_what_shows_cards_then(state: str, level: Level, words: str) -> None:
    found_level, message = found(notices=state)[0]
    assert level == found_level
    assert words in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"login_session": "off"}, "--no-desktop-lock"),
        ({"login_session": "absent"}, "by hand, by idle time"),
        ({"login_session": "no_session"}, "before a sleep"),
        ({"delays_sleep": False}, "which may come first"),
    ],
)
def test_what_locks_the_vault_is_told(changes: dict[str, JsonValue], words: str) -> None:
    level, message = found(**changes)[1]
    assert Level.OK == level
    assert words in message


def test_forged_signals_are_counted_for_the_human() -> None:
    assert [(Level.WARNING, True)] == [
        (level, "3 signals" in message) for level, message in found(forged_signals=3)[2:]
    ]


def test_a_daemon_that_says_nothing_of_a_desktop_is_left_at_that() -> None:
    assert [] == list(desktop({}))

import pytest

from tests.fakes.cards import NOW_MS
from tests.ui.cards import calm_read
from tests.ui.scenes import entry, settled
from ui.paper import Paper, Role, Span
from ui.stamps import stamp, time_left, time_words

PAPER = Paper(width=80, height=24)


@pytest.mark.parametrize(
    ("left_ms", "shown"),
    [
        (75_400, Span("1:15")),
        (15_000, Span("0:15")),
        (14_999, Span("!0:14", Role.LOOK)),
        (999, Span("!0:00", Role.LOOK)),
        (-5000, Span("!0:00", Role.LOOK)),
    ],
)
def test_from_fourteen_seconds_on_the_time_that_is_left_stands_out(left_ms: int, shown: Span) -> None:
    card = entry(calm_read())

    assert shown == time_left(card, card.expires_at_ms - left_ms)


def test_the_title_of_a_card_says_the_same() -> None:
    card = entry(calm_read())

    assert "expires 1:42" == time_words(card, NOW_MS)
    assert "expires !0:14" == time_words(card, card.expires_at_ms - 14_500)
    assert "expired" == time_words(card, card.expires_at_ms)
    assert "settled" == time_words(settled(card, "denied"), NOW_MS)


@pytest.mark.parametrize(
    ("state", "ended_by", "words"),
    [
        ("expired", None, "EXPIRED"),
        ("approved", "approved", "APPROVED elsewhere"),
        ("denied", "denied", "DENIED elsewhere"),
        ("void", "locked", "VOID: vault locked"),
        ("void", "session_ended", "VOID: session ended"),
        ("superseded", "superseded", "SUPERSEDED: superseded"),
        ("void", None, "VOID: no longer waits"),
        ("\x1b[2J", None, "\\U{1B}[2J: no longer waits"),
        ("provided", None, "PROVIDED"),
    ],
)
def test_what_settled_a_card_is_said_in_its_rule(state: str, ended_by: str | None, words: str) -> None:
    assert words == stamp(settled(entry(calm_read()), state, ended_by), NOW_MS, PAPER)


def test_nothing_is_stamped_on_a_card_that_waits() -> None:
    assert stamp(entry(calm_read()), NOW_MS, PAPER) is None

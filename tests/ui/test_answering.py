import pytest

from ui.answering import NO_REASON, NOT_BY_HAND, REASONS, Answering, Approve, Barred, Deny, Key, Mode, Terms

CALM = Terms(typed_word=None, session_offered=True)
GRAVE = Terms(typed_word="1290", session_offered=False)
LONG = Terms(typed_word="svc-build-7", session_offered=False)
FREE = Barred(approving=None, denying=None)


class Hand:
    """Presses keys on an armed card, at a pace."""

    def __init__(self, terms: Terms = CALM, *, armed: bool = True) -> None:
        self.answering = Answering()
        self.answering.begin(terms, 1.5)
        self.now_s = 100.0
        if armed:
            self.answering.arming.drawn(0.0)

    def press(self, *names: str, every_s: float = 0.2, barred: Barred = FREE) -> "Hand":
        for name in names:
            self.answering.key(Key(name=name, character=name if len(name) == 1 else None), barred, self.now_s)
            self.now_s += every_s
        return self

    def wait(self, seconds: float, *, barred: Barred = FREE) -> Approve | Deny | None:
        self.now_s += seconds
        return self.answering.due(barred, self.now_s)


def test_a_alone_approves_once() -> None:
    assert Approve(scope="once", confirm=None) == Hand().press("a").wait(0.0)


def test_a_is_held_back_until_it_proved_to_be_alone() -> None:
    hand = Hand().press("a", every_s=0.0)

    assert hand.wait(0.14) is None
    assert Approve(scope="once", confirm=None) == hand.wait(0.01)


@pytest.mark.parametrize("other", ["a", "x", "j", "7", "enter", "escape"])
def test_another_key_shortly_after_drops_it(other: str) -> None:
    hand = Hand().press("a", every_s=0.1).press(other, every_s=0.0)

    assert hand.wait(0.2) is None


def test_another_key_shortly_before_drops_it() -> None:
    assert Hand().press("o", every_s=0.1).press("a").wait(0.2) is None


def test_a_dropped_key_starts_the_arming_again() -> None:
    hand = Hand().press("o", every_s=0.1).press("a")

    assert not hand.answering.arming.ready(hand.now_s)
    assert hand.press("a").wait(0.2) is None
    hand.now_s += 1.8
    assert Approve(scope="once", confirm=None) == hand.press("a").wait(0.0)


def test_a_key_before_the_card_was_drawn_decides_nothing() -> None:
    hand = Hand(armed=False).press("a")
    hand.answering.arming.drawn(hand.now_s)

    assert hand.wait(5.0) is None


def test_a_held_key_that_began_before_the_arming_decides_nothing() -> None:
    hand = Hand(armed=False)
    hand.answering.arming.drawn(hand.now_s)
    hand.press(*["a"] * 100, every_s=0.04)

    assert hand.wait(0.2) is None


def test_what_stands_in_the_way_stops_a_yes_and_not_a_no() -> None:
    barred = Barred(approving="see the rest: PgDn", denying=None)

    assert Hand().press("a", barred=barred).wait(0.2) is None
    assert Deny(reason="no", end_session=False) == Hand().press("d", "n", "o", "enter", barred=barred).wait(0.0)


def test_what_comes_up_while_a_key_is_held_back_stops_it() -> None:
    hand = Hand().press("a", every_s=0.0)

    assert hand.wait(0.2, barred=Barred(approving="EXPIRED", denying="EXPIRED")) is None


def test_enter_opens_the_reason_and_approves_nothing() -> None:
    hand = Hand().press("enter")

    assert Mode.DENYING is hand.answering.mode
    assert hand.wait(1.0) is None


def test_sixty_enters_decide_nothing() -> None:
    hand = Hand()
    for _ in range(60):
        hand.press("enter", every_s=0.04)
        assert hand.wait(0.0) is None
    assert hand.wait(1.0) is None


@pytest.mark.parametrize("number", ["1", "2", "3"])
def test_a_digit_alone_sends_its_ready_reason(number: str) -> None:
    expected = Deny(reason=REASONS[int(number) - 1], end_session=False)

    assert expected == Hand().press("d", number, "enter").wait(0.0)


def test_words_that_begin_with_a_digit_are_words() -> None:
    assert Deny(reason="1 is fine", end_session=False) == Hand().press("d", *"1 is fine", "enter").wait(0.0)


def test_a_no_needs_a_reason() -> None:
    hand = Hand().press("d", " ", "enter")

    assert hand.wait(1.0) is None
    assert NO_REASON == hand.answering.note
    assert "" == hand.press("n").answering.note


def test_an_unfinished_no_is_left_by_escape() -> None:
    hand = Hand().press("d", "n", "escape")

    assert Mode.LOOKING is hand.answering.mode
    assert "" == hand.answering.text


def test_pasted_text_goes_into_a_reason_and_its_line_ends_are_blanks() -> None:
    hand = Hand().press("d")
    hand.answering.paste("too\nwide\x1b[2J")

    assert "too wide [2J" == hand.answering.text


def test_pasted_text_goes_nowhere_else() -> None:
    hand = Hand()
    hand.answering.paste("a")
    typing = Hand(GRAVE).press("a")
    typing.answering.paste("1290")

    assert hand.wait(1.0) is None
    assert "" == typing.answering.text


def test_a_word_pasted_key_by_key_with_its_enter_decides_nothing() -> None:
    hand = Hand(GRAVE).press("a", *"1290", "enter", every_s=0.0)

    assert hand.wait(1.0) is None
    assert "1290" != hand.answering.text


def test_a_line_pasted_key_by_key_denies_nothing() -> None:
    assert Hand().press("d", "1", "enter", every_s=0.0).wait(1.0) is None


def test_a_wrong_word_and_a_pasted_one_are_told_to_be_so() -> None:
    hand = Hand(GRAVE).press("a", "1", "2", "enter", every_s=0.5)
    assert (Mode.TYPING, "that is not the word") == (hand.answering.mode, hand.answering.note)

    hand = Hand(GRAVE).press("a", every_s=0.5).press("1", "2", "9", "0", "enter", every_s=0.0)
    assert NOT_BY_HAND == hand.answering.note
    assert hand.wait(1.0) is None


def test_y_grants_to_the_session_after_half_a_second() -> None:
    hand = Hand().press("s", every_s=0.6).press("y")

    assert Approve(scope="session", confirm=None) == hand.wait(0.0)


def test_y_comes_too_early() -> None:
    hand = Hand().press("s", every_s=0.4).press("y")

    assert hand.wait(1.0) is None
    assert Mode.LOOKING is hand.answering.mode


def test_any_other_key_leaves_the_question() -> None:
    hand = Hand().press("s", every_s=0.6).press("n").press("y")

    assert hand.wait(1.0) is None


def test_s_means_nothing_where_no_grant_is_offered() -> None:
    hand = Hand(Terms(typed_word=None, session_offered=False)).press("s", every_s=0.6).press("y")

    assert hand.wait(1.0) is None


def test_x_and_y_deny_and_end_the_session() -> None:
    assert Deny(reason=None, end_session=True) == Hand(armed=False).press("x", every_s=0.6).press("y").wait(0.0)


def test_a_grave_card_is_approved_by_its_word_alone() -> None:
    hand = Hand(GRAVE).press("a")
    assert hand.wait(1.0) is None

    assert Approve(scope="once", confirm="1290") == hand.press(*"1290", "enter").wait(0.0)


@pytest.mark.parametrize("word", ["129", "12900", "1920", "1290 "])
def test_another_word_sends_nothing(word: str) -> None:
    assert Hand(GRAVE).press("a", *word, "enter").wait(1.0) is None


def test_a_wrong_letter_can_be_taken_back() -> None:
    hand = Hand(GRAVE).press("a", *"129x", "backspace", "0", "enter")

    assert Approve(scope="once", confirm="1290") == hand.wait(0.0)


def test_enter_right_behind_the_last_letter_is_too_quick_and_waits_again() -> None:
    hand = Hand(GRAVE).press("a", *"129").press("0", every_s=0.05).press("enter")

    assert hand.wait(1.0) is None
    assert "too quick: again" == hand.answering.note
    hand.now_s += 1.5
    assert Approve(scope="once", confirm="1290") == hand.press("enter").wait(0.0)


def test_a_changed_card_empties_the_field() -> None:
    hand = Hand(GRAVE).press("a", *"129")
    hand.answering.begin(GRAVE, 1.5)

    assert (Mode.LOOKING, "") == (hand.answering.mode, hand.answering.text)


def test_a_key_that_went_elsewhere_drops_the_held_one() -> None:
    hand = Hand().press("a", every_s=0.1)
    hand.answering.noticed(hand.now_s)

    assert hand.wait(1.0) is None
    assert not hand.answering.arming.ready(hand.now_s)


BUNCHES = {
    "two halves": (0.0, 0.0, 0.2, 0.2),
    "three and one": (0.0, 0.0, 0.0, 0.4),
    "the last three after a pause": (0.0, 0.5, 0.5, 0.5),
    "a quick hand": (0.0, 0.06, 0.12, 0.18),
}


@pytest.mark.parametrize("times_s", BUNCHES.values(), ids=BUNCHES)
def test_a_word_that_a_busy_terminal_hands_over_in_bunches_counts(times_s: tuple[float, ...]) -> None:
    hand = Hand(GRAVE).press("a")
    start_s = hand.now_s
    for at_s, name in zip(times_s, "1290", strict=True):
        hand.now_s = start_s + at_s
        hand.press(name, every_s=0.0)
    hand.now_s += 0.3

    assert Approve(scope="once", confirm="1290") == hand.press("enter").wait(0.2)


AT_ONCE = {
    "one stroke": (0.0, 0.0, 0.0, 0.0),
    "one by one without a pause": (0.0, 0.009, 0.018, 0.027),
    "in two strokes close together": (0.0, 0.0, 0.02, 0.02),
}


@pytest.mark.parametrize("times_s", AT_ONCE.values(), ids=AT_ONCE)
def test_a_word_that_came_at_once_is_taken_for_a_paste_however_long_enter_waits(times_s: tuple[float, ...]) -> None:
    hand = Hand(GRAVE).press("a")
    start_s = hand.now_s
    for at_s, name in zip(times_s, "1290", strict=True):
        hand.now_s = start_s + at_s
        hand.press(name, every_s=0.0)
    hand.now_s += 3.0

    assert hand.press("enter").wait(3.0) is None
    assert ("", NOT_BY_HAND) == (hand.answering.text, hand.answering.note)


def test_what_was_pasted_is_not_made_good_by_typing_its_end() -> None:
    hand = Hand(LONG).press("a").press(*"svc-build", every_s=0.0).press(*"-7").press("enter")

    assert hand.wait(1.0) is None
    assert NOT_BY_HAND == hand.answering.note


def test_letters_that_were_taken_back_do_not_count_as_time() -> None:
    hand = Hand(GRAVE).press("a").press(*"1290", every_s=0.0).press("x", every_s=2.0).press("backspace", "enter")

    assert hand.wait(1.0) is None


GAP = Terms(typed_word="svc-build-7", session_offered=False, choices=("collect", "limit"))


@pytest.mark.parametrize(("key", "choice"), [("c", "collect"), ("l", "limit")])
def test_another_way_is_chosen_by_its_key_alone(key: str, choice: str) -> None:
    assert Approve(scope="once", confirm=None, choice=choice) == Hand(GAP).press(key).wait(0.0)
    assert Hand(GAP).press(key, every_s=0.1).press("j", every_s=0.0).wait(0.2) is None


@pytest.mark.parametrize("key", ["c", "l"])
def test_a_way_that_is_not_offered_not_armed_or_barred_is_no_answer(key: str) -> None:
    assert Hand(GRAVE).press(key).wait(0.2) is None
    assert Hand(GAP, armed=False).press(key).wait(0.2) is None
    assert Hand(GAP).press(key, barred=Barred(approving="locked", denying=None)).wait(0.2) is None


def test_a_way_that_was_dropped_is_not_taken_along_by_a_yes() -> None:
    hand = Hand(Terms(typed_word=None, session_offered=False, choices=("collect",))).press("c", every_s=0.1)
    hand.press("j", every_s=2.0).press("a")

    assert Approve(scope="once", confirm=None) == hand.wait(0.0)


def test_a_gap_is_approved_by_its_word_alone() -> None:
    hand = Hand(GAP).press("a", *"svc-build-7", every_s=0.2)

    assert Approve(scope="once", confirm="svc-build-7") == hand.press("enter").wait(0.2)

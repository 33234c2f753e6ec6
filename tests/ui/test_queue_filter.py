"""The filter of the queue and its two panes: what moves, what is hidden and said to be. Nothing is answered by it."""

from dataclasses import replace

from tests.ui.cards import calm_read, codex_read, delete_accounts, delete_release, expiring, queue_of_twelve
from tests.ui.scenes import Scene, entry, settled
from ui.messages import Answered, Decide, Mute, QueueNews, SessionsNews
from ui.served import SessionRow


def three() -> Scene:
    return Scene().connect((calm_read(), 1), (delete_release(), 1), (codex_read(), 3))


def names(scene: Scene) -> list[str]:
    """The second row of each entry that is drawn in the queue."""
    return [line[:20].strip() for line in scene.rows()[4:22:2] if line[:20].strip()]


def test_the_filter_shows_what_holds_its_words_and_says_what_it_hides() -> None:
    scene = three().press("slash", *"Release")

    assert scene.rows()[2].startswith("─ / Release▏ ")
    assert ["releases.delete"] == names(scene)
    assert " 2 hidden: Esc" == scene.rows()[21][:15].rstrip()


def test_the_card_stays_until_the_words_are_complete() -> None:
    scene = three().press("slash", *"codex")
    assert "ap_000000000001" == scene.window.approvals.focus

    assert "ap_000000000007" == scene.press("enter").window.approvals.focus
    assert "1 of 1" in scene.rows()[2]


def test_letters_in_the_filter_answer_nothing() -> None:
    scene = three().on(2.0).press("slash", *"asdxy1", "enter").on(2.0)

    assert [] == scene.feed.done(Decide)


def test_the_card_behind_the_filter_is_armed_anew() -> None:
    scene = three().on(2.0).press("slash", "i", "enter")

    assert scene.slot().startswith("wait")


def test_escape_leaves_the_filter_and_shows_all() -> None:
    scene = three().press("slash", *"codex", "enter", "escape")

    assert scene.rows()[2].startswith("─ Waiting ")
    assert 3 == len(names(scene))


def test_the_keys_of_a_list_move_among_what_is_shown() -> None:
    scene = three().press("slash", *"read", "enter")
    seen = [scene.press(key).window.approvals.focus for key in ("j", "j", "k", "G", "g")]

    one, other = "ap_000000000001", "ap_000000000007"
    assert [other, other, one, other, one] == seen


def test_words_that_nothing_holds_leave_the_card_as_it_is() -> None:
    scene = three().press("slash", *"zzz", "enter")

    assert "ap_000000000001" == scene.window.approvals.focus
    assert "none match" in scene.rows()[4]
    assert "? of 0" in scene.rows()[2]


def test_after_the_last_of_them_is_answered_the_others_come_back() -> None:
    scene = three().press("slash", *"codex", "enter").on(2.0).press("a")
    scene.feed.tell(Answered(approval_id="ap_000000000007", state="approved"))

    assert "ap_000000000001" == scene.drawn().window.approvals.focus
    assert scene.rows()[2].startswith("─ Waiting ")


def test_a_pasted_filter_is_taken_and_a_pasted_answer_is_not() -> None:
    scene = three().press("slash")
    scene.window.paste("codex\n")

    assert ["issues.list x3"] == names(scene)
    assert [] == scene.on(1.0).feed.done(Decide)


def test_a_card_that_comes_and_does_not_match_is_counted() -> None:
    scene = Scene().connect((calm_read(), 1)).press("slash", *"issues", "enter")
    scene.feed.tell(QueueNews(waiting=(entry(calm_read()), entry(delete_release()))))

    assert "2 waiting" in scene.drawn().rows()[0]
    assert "1 hidden: Esc" in scene.rows()[21]


def test_the_filter_can_be_set_while_nothing_waits() -> None:
    scene = Scene().connect().press("slash", *"codex")

    assert scene.rows()[2].startswith("─ / codex▏ ")
    assert scene.press("escape").rows()[2].startswith("─ Waiting ")


def test_the_mouse_finds_the_row_that_is_drawn_under_a_filter() -> None:
    scene = three().press("slash", *"read", "enter")
    scene.window.clicked(3, 6)

    assert "ap_000000000007" == scene.window.approvals.focus


def test_tab_gives_the_moving_keys_to_the_card_and_says_so() -> None:
    scene = Scene().connect(*queue_of_twelve()).press("j", "tab")
    assert "[2 of 12]" in scene.rows()[2]
    assert scene.rows()[23].startswith(" j/k line")

    assert "ap_000000000007" == scene.press("j", "G", "g", "k").window.approvals.focus
    assert "─ 2 of 12" in scene.press("tab").rows()[2]


def test_the_card_s_pane_moves_line_by_line() -> None:
    scene = Scene(height=22).connect((delete_accounts(), 1)).press("tab")
    first = scene.rows()[5]

    assert first != scene.press("j").rows()[5]
    assert first == scene.press("k").rows()[5]


def test_escape_goes_back_one_level_at_a_time() -> None:
    scene = three().press("slash", *"read", "enter", "tab", "o", "escape")
    assert "[1 of 2]" in scene.rows()[2]

    assert "─ 1 of 2" in scene.press("escape").rows()[2]
    assert "─ 1 of 3" in scene.press("escape").rows()[2]


def test_u_hears_a_muted_session_again() -> None:
    scene = Scene().connect((calm_read(), 1))
    muted = SessionRow(
        id="se_1", agent="claude-code", identified=True, span="tree", pid=4711, exe=None, cwd=None, label=None,
        opened_at_ms=0, calls=1, denied=0, muted=True,
    )  # fmt: skip
    scene.feed.tell(SessionsNews(sessions=(muted,), grants=()))

    assert [Mute(session_id="se_1", muted=False)] == scene.press("u").feed.done(Mute)


def alike(*numbers: int) -> Scene:
    """As many cards of one kind, and another one in between."""
    cards = [(expiring(delete_accounts(), 90, f"ap_00000000001{number}"), 1) for number in numbers]
    scene = Scene().connect(cards[0], (calm_read(), 1), *cards[1:])
    groups = {"ap_000000000001": "another"}
    waiting = tuple(replace(one, group=groups.get(one.id, "a kind")) for one in scene.window.world.waiting)
    scene.feed.tell(QueueNews(waiting=waiting))
    return scene.drawn()


def test_cards_of_one_kind_are_counted_and_each_is_answered_by_itself() -> None:
    scene = alike(1, 2, 3)
    assert ["accounts.dele… 1/3", "issues.list", "accounts.dele… 2/3", "accounts.dele… 3/3"] == names(scene)
    assert "1 of 4, 1 of 3 alike" in scene.rows()[2]

    scene.press("d", "2", "enter")
    assert ["ap_000000000011"] == [task.approval_id for task in scene.feed.done(Decide)]
    scene.feed.tell(Answered(approval_id="ap_000000000011", state="denied"))
    assert ["issues.list", "accounts.dele… 1/2", "accounts.dele… 2/2"] == names(scene.drawn())


def test_the_last_of_a_kind_is_not_counted() -> None:
    scene = alike(1, 2)
    ended = [settled(one, "denied") if one.id.endswith("12") else one for one in scene.window.world.waiting]
    scene.feed.tell(QueueNews(waiting=tuple(ended)))

    assert "accounts.delete" == names(scene.drawn())[0]

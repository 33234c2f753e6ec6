"""A card that was asked for by a click at the desktop: shown where nobody is at the keys, else only told of."""

from pathlib import Path

import pytest

from tests.fakes.control_server import ControlServer
from tests.ui.cards import calm_read, delete_release
from tests.ui.ears import Ear
from tests.ui.scenes import Scene
from ui.brought_up import HANDS_OFF_S, WORDS, named
from ui.messages import BroughtUp, Connected, Lost, OpenCard

FIRST, SECOND = calm_read()["approval_id"], delete_release()["approval_id"]


def two_cards() -> Scene:
    return Scene().connect((calm_read(), 1), (delete_release(), 1))


def quiet() -> Scene:
    """Two cards, the first in focus, and no key for a while."""
    return two_cards().on(HANDS_OFF_S + 0.1)


def test_it_comes_up_where_nobody_is_at_the_keys_and_answers_nothing() -> None:
    scene = quiet()
    before = list(scene.feed.tasks)
    scene.feed.tell(BroughtUp(approval_id=SECOND))
    assert SECOND == scene.window.approvals.focus
    assert [OpenCard(approval_id=SECOND)] == [task for task in scene.feed.tasks if task not in before]
    assert not scene.window.approvals.answering.arming.ready(scene.clock.mono_s)


def test_it_comes_up_from_another_screen() -> None:
    scene = two_cards().press("6").on(HANDS_OFF_S + 0.1)
    scene.feed.tell(BroughtUp(approval_id=SECOND))
    assert (1, SECOND) == (scene.window.current, scene.window.approvals.focus)


@pytest.mark.parametrize("keys", ["j", "d\r", "?", "q", "F", "/"])
def test_nothing_moves_under_fingers_or_while_something_is_open(keys: str) -> None:
    scene = quiet()
    for key in keys:
        scene.press({"\r": "enter", "?": "question_mark", "/": "slash"}.get(key, key))
    if keys != "j":
        scene.on(HANDS_OFF_S + 0.1)
    focus, current = scene.window.approvals.focus, scene.window.current
    scene.feed.tell(BroughtUp(approval_id=SECOND if focus == FIRST else FIRST))
    assert (focus, current) == (scene.window.approvals.focus, scene.window.current)


def test_what_does_not_move_is_told() -> None:
    scene = quiet().press("g")
    scene.feed.tell(BroughtUp(approval_id=SECOND))
    assert WORDS in scene.rows()[-1]


@pytest.mark.parametrize("approval_id", ["", "ap_of_nobody"])
def test_a_card_that_does_not_wait_here_is_nothing(approval_id: str) -> None:
    scene = quiet()
    scene.feed.tell(BroughtUp(approval_id=approval_id))
    assert FIRST == scene.window.approvals.focus
    assert WORDS not in scene.rows()[-1]


def test_while_the_daemon_is_lost_nothing_comes_up() -> None:
    scene = quiet()
    scene.feed.tell(Lost(since_ms=0, tries=1, next_try_at_ms=1, why="gone"))
    scene.feed.tell(BroughtUp(approval_id=SECOND))
    assert FIRST == scene.window.approvals.focus


def test_the_bell_rings_for_it_and_not_often() -> None:
    scene = quiet()
    scene.clock.on(40)
    before = scene.window.rings
    for _ in range(5):
        scene.feed.tell(BroughtUp(approval_id=SECOND))
    assert before + 1 == scene.window.rings


@pytest.mark.parametrize(
    ("data", "expected"), [('{"id": "ap_1", "state": "pending"}', "ap_1"), ("{}", ""), ("no json", ""), ("[]", "")]
)
def test_the_event_names_the_card(data: str, expected: str) -> None:
    assert expected == named(data)


def test_the_feed_passes_it_on(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with ControlServer(tmp_path) as server:
        ear = Ear(tmp_path)
        ear.wait(Connected)
        server.changed("focus", {"id": "ap_1", "state": "pending"})
        assert "ap_1" == ear.wait(BroughtUp).approval_id
        ear.feed.stop()

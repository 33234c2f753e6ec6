from dataclasses import replace

from tests.ui.cards import calm_read
from tests.ui.scenes import READY, Scene
from ui.messages import ReadList, StatusNews, Unlock


def test_a_status_does_not_make_the_audit_screen_ask_for_the_next_one() -> None:
    scene = Scene().connect((calm_read(), 1)).press("7")
    before = len(scene.feed.done(ReadList))
    scene.window.learn(StatusNews(status=replace(READY, audit_seq=5000)))

    assert before == len(scene.feed.done(ReadList))


def test_the_page_that_comes_up_when_the_vault_locks_takes_the_passphrase_at_once() -> None:
    scene = Scene().connect((calm_read(), 1))
    scene.window.learn(StatusNews(status=replace(READY, vault_state="locked")))
    scene.press("u", "m", "enter")

    assert [Unlock(b"um")] == scene.feed.done(Unlock)

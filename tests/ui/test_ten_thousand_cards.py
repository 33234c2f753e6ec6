"""A queue of ten thousand: a frame and a key cost as many calls as with twenty. Counted, not timed."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from tests.ui.cards import calm_read
from tests.ui.scenes import READY, Scene, entry, served, settled
from ui.messages import ApproverNews, CardNews, Connected, QueueNews
from ui.served import Waiting

MANY, FEW = 10_000, 20


def calls(work: Callable[[], object]) -> int:
    """How many functions were entered."""
    count = 0

    def entered(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(entered)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def queue(length: int) -> tuple[Waiting, ...]:
    one = entry(calm_read())
    return tuple(replace(one, id=f"ap_{number:012}", agent=f"agent-{number % 7}") for number in range(length))


def scene_of(length: int) -> Scene:
    scene = Scene()
    scene.feed.cards["ap_000000000000"] = CardNews(served=served({**calm_read(), "approval_id": "ap_000000000000"}))
    scene.feed.tell(Connected(status=READY, waiting=queue(length)), ApproverNews(ready=True))
    return scene.drawn().on(2.0)


def steps(scene: Scene) -> dict[str, Callable[[], object]]:
    return {
        "draw": scene.window.picture,
        "tick": scene.window.tick,
        "j": lambda: scene.press("j"),
        "G": lambda: scene.press("G"),
        "draw at the end": scene.window.picture,
        "k": lambda: scene.press("k"),
        "n": lambda: scene.press("n"),
        "a click": lambda: scene.window.clicked(3, 8),
    }


@pytest.mark.parametrize("words", ["", "agent-3"])
def test_frames_and_keys_cost_the_same_for_ten_thousand_cards_as_for_twenty(words: str) -> None:
    few, many = scene_of(FEW), scene_of(MANY)
    for scene in (few, many):
        if words:
            scene.press("slash", *words, "enter")
    cost_of_few = {name: calls(step) for name, step in steps(few).items()}
    cost_of_many = {name: calls(step) for name, step in steps(many).items()}

    assert {} == {name: cost for name, cost in cost_of_many.items() if cost > 2 * cost_of_few[name] + 200}
    assert f"of {MANY if not words else len([one for one in queue(MANY) if one.agent == words])}" in many.rows()[2]


def test_the_counter_itself_sees_work_that_grows_with_the_queue() -> None:
    scene = scene_of(MANY)

    assert MANY < calls(lambda: scene.feed.tell(QueueNews(waiting=queue(MANY))))


def test_the_focus_and_the_counts_hold_for_ten_thousand() -> None:
    scene = scene_of(MANY).press("G")

    assert f"{MANY} waiting" in scene.rows()[0]
    assert f"{MANY} of {MANY}" in scene.rows()[2]
    assert f" ^ {MANY - 9} more" in scene.rows()[3]

    ended = tuple(settled(one, "expired") for one in queue(MANY - 1)) + queue(MANY)[-1:]
    scene.feed.tell(QueueNews(waiting=ended))
    assert "1 waiting" in scene.drawn().rows()[0]
    assert 1 == len(scene.press("slash", "z", "escape", "k").window.world.waiting.pending)

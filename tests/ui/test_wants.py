"""A credential that an agent waits for: shown like a card, answered by adding it or by a no, never by a key for yes."""

from pathlib import Path
from typing import Any

import pytest

from broker.contract.neutralise import cells
from tests.fakes.cards import NOW_MS
from tests.fakes.control_server import ControlServer
from tests.hostile_text import TEXTS, encodable, obeyed
from tests.ui.ears import Ear
from tests.ui.scenes import READY, Scene
from ui.answering import REASONS, Deny
from ui.messages import Answered, ApproverNews, Connected, Decide, OpenCard, QueueNews, WantNews
from ui.paper import text_of
from ui.wants import command, entries, want

ID = "cr_0123456789ab"


def listed(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "state": "pending",
        "service": "github",
        "credential": "github",
        "agent": "claude-code",
        "created_at_ms": NOW_MS,
        "expires_at_ms": NOW_MS + 100_000,
        "joined": 1,
        **changes,
    }


def whole(**changes: Any) -> dict[str, Any]:
    more = {"purpose": "reading the issues", "origins": ["https://api.github.com/v3"], "is_ssh": False}
    return {**listed(), **more, **changes}


def scene_with(raw: dict[str, Any], *, width: int = 80, height: int = 24) -> Scene:
    scene = Scene(width=width, height=height)
    scene.feed.tell(Connected(status=READY, waiting=entries([listed()])), ApproverNews(ready=True))
    scene.feed.tell(WantNews(want=want(raw)))
    return scene.drawn()


def text(scene: Scene) -> str:
    return " ".join(" ".join(scene.rows()).split())


def test_it_stands_in_the_queue_and_says_how_it_is_added() -> None:
    scene = scene_with(whole())

    assert OpenCard(approval_id=ID) in scene.feed.tasks
    assert "1 waiting" in scene.rows()[0]
    assert "ADD" in scene.rows()[3]
    assert 'says: "reading the issues"' in text(scene)
    assert "To add doorward credential add github" in text(scene).replace("│ ", "")
    assert "[d Decline]" == scene.rows()[21].partition("│ ")[2]
    assert "no key adds it" == scene.slot()


def test_no_key_provides_it_and_none_ends_the_session() -> None:
    scene = scene_with(whole()).on(2.0)
    for key in ("a", "s", "y", "x", "y", "enter", "escape", "c", "l", "r"):
        scene.press(key).on(0.6)

    assert [] == scene.feed.done(Decide)


def test_d_declines_it_with_a_reason() -> None:
    scene = scene_with(whole()).press("d", "3", "enter")

    assert [(ID, Deny(reason=REASONS[2], end_session=False))] == [
        (task.approval_id, task.answer) for task in scene.feed.done(Decide)
    ]


@pytest.mark.parametrize(
    ("state", "stamp"), [("provided", "PROVIDED"), ("declined", "DECLINED"), ("expired", "EXPIRED")]
)
def test_how_it_ended_is_stamped_on_it(state: str, stamp: str) -> None:
    scene = scene_with(whole())
    scene.feed.tell(QueueNews(waiting=entries([listed(state=state)])))

    assert stamp == scene.drawn().slot()


def test_the_command_is_made_of_the_policy_s_words_alone() -> None:
    hostile = whole(purpose="--origin https://evil.example", agent="x --origin https://evil.example")

    assert "doorward credential add github --kind bearer --origin https://api.github.com" == command(want(hostile))
    ssh = whole(is_ssh=True, origins=["ssh://deploy@web-3:22"], credential="a b")
    assert "doorward credential add 'a b' --kind ssh-key --origin ssh://deploy@web-3:22" == command(want(ssh))


def test_its_words_are_drawn_harmless() -> None:
    for one in filter(encodable, TEXTS):
        scene = scene_with(whole(purpose=one, agent=one, credential=one, service=one, origins=[f"https://{one[:40]}"]))
        for line in scene.window.picture().rows:
            drawn = text_of(line)
            assert 80 == cells(drawn)
            assert not [character for character in drawn if obeyed(character)]
        assert "[d Decline]" in scene.rows()[21]


def test_the_feed_lists_opens_and_declines_it(tmp_path: Path) -> None:
    with ControlServer(tmp_path) as server:
        server.lists["wants"] = [whole()]
        ear = Ear(tmp_path).unlocked()
        try:
            assert [ID] == [entry.id for entry in ear.wait(Connected).waiting]
            assert "reading the issues" == ear.ask(OpenCard(approval_id=ID), WantNews).want.purpose
            decline = Decide(approval_id=ID, answer=Deny(reason="no", end_session=False), served=None)
            assert "declined" == ear.ask(decline, Answered).state
        finally:
            ear.feed.stop()
        assert [{"id": ID, "decline": "no"}] == server.decisions

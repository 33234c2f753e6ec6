"""What the answers' rows say, and what each key of them does: read back, ready reasons, what a no covers."""

from dataclasses import replace
from typing import Any

import pytest

from broker.client.card import parse_card
from broker.client.card_words import naming
from tests.fakes.cards import NOW_MS
from tests.ui.activity_rows import ROWS, at
from tests.ui.cards import calm_read, changed_write, delete_accounts, proven_delete, repeat_in_doubt, unnamed_agent
from tests.ui.scenes import READY, Scene
from ui.answering import Approve
from ui.messages import ActivityNews, ApproverNews, Decide, Lost, ReadBack
from ui.paper import Role


def text(scene: Scene) -> str:
    return " ".join(" ".join(scene.rows()).split())


def without_a_read_back() -> dict[str, Any]:
    raw = repeat_in_doubt()
    return {**raw, "doubts": [{**one, "read_back": None} for one in raw["doubts"]]}


def test_r_alone_has_it_read_back_first_by_a_signed_choice_on_the_card_as_drawn() -> None:
    scene = Scene().connect((repeat_in_doubt(), 1)).on(2.0).press("r").on(0.5)

    (decided,) = scene.feed.done(Decide)
    assert Approve(scope="once", confirm=None, choice="read_back") == decided.answer
    assert decided.served is not None
    assert repeat_in_doubt()["approval_id"] == decided.served.id
    assert [] == scene.feed.done(ReadBack), "an attempt that is read back beside its card leaves a stale card"


def test_r_before_the_arming_or_beside_another_key_decides_nothing() -> None:
    early = Scene().connect((repeat_in_doubt(), 1)).press("r").on(1.0)
    beside = Scene().connect((repeat_in_doubt(), 1)).on(2.0).press("r", "j", every_s=0.05).on(1.0)

    assert [] == early.feed.done(Decide) + beside.feed.done(Decide)


@pytest.mark.parametrize("card", [calm_read(), without_a_read_back()], ids=["no doubt", "no read could tell"])
def test_r_means_nothing_and_is_not_offered_where_nothing_could_tell(card: dict[str, Any]) -> None:
    scene = Scene().connect((card, 1)).on(2.0)

    assert "Read back first" not in text(scene)
    assert [] == scene.press("r").on(1.0).feed.done(Decide)


def test_what_would_be_read_stands_beside_the_key() -> None:
    assert "r one read: deployments.list; it may settle the doubt" in text(Scene().connect((repeat_in_doubt(), 1)))


def test_the_ready_reasons_stand_whole_while_a_no_is_written() -> None:
    shown = text(Scene().connect((delete_accounts(), 1)).press("d"))

    assert "do not ask again │ today." in shown
    assert "Enter sends" in shown


def test_a_no_says_for_how_long_it_stands() -> None:
    assert "d the same change is refused for 10 min without asking" in text(Scene().connect((proven_delete(), 1)))


def test_what_differs_from_the_last_approved_request_stands_on_the_card() -> None:
    scene = Scene(width=120, height=40).connect((changed_write(), 1))
    signs = [
        line[at].role
        for line in scene.window.picture().rows
        for at in range(len(line) - 1)
        if line[at].text in {"-", "+"} and line[at + 1].text.startswith((" path", " body"))
    ]

    assert '- path "/repos/acme/site/issues/7"' in text(scene)
    assert '+ body.labels.1 "urgent"' in text(scene)
    assert [Role.LOOK] * 3 == signs


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_an_agent_that_no_policy_names_is_offered_a_name(width: int, height: int) -> None:
    shown = text(Scene(width=width, height=height).connect((unnamed_agent(), 1))).replace("│ ", "")

    assert "! unidentified" in shown
    assert all(line in shown for line in naming(parse_card(unnamed_agent())))


def test_the_empty_queue_counts_the_day_from_the_log() -> None:
    scene = Scene().connect()
    scene.clock.wall_ms = at("14:20:00")
    scene.feed.tell(ActivityNews(rows=ROWS, anew=True))

    assert "Today 9 calls by 2 agents in 1 session" in text(scene).replace("│ ", "")


def test_rows_that_do_not_reach_back_to_midnight_are_not_called_the_day() -> None:
    scene = Scene().connect()
    scene.clock.wall_ms = at("14:20:00")
    many = tuple(replace(ROWS[0], id=f"op_{number}", seq=number) for number in range(200))
    scene.feed.tell(ActivityNews(rows=many, anew=True))

    assert "Lately 200 calls" in text(scene).replace("│ ", "")


@pytest.mark.parametrize("height", [22, 24, 40])
def test_an_empty_queue_without_the_key_says_how_to_unlock_it(height: int) -> None:
    scene = Scene(height=height).connect(approver=False)
    scene.feed.tell(ApproverNews(ready=False))

    assert "u unlocks it in this window" in text(scene)
    assert "You can leave this open." in text(scene)


def test_a_vault_that_was_locked_says_why() -> None:
    for reason, words in (("suspend", "the machine went to sleep"), (None, "not unlocked since the daemon started")):
        locked = replace(READY, vault_state="locked", vault_locked_for=reason)
        assert words in text(Scene().connect(status=locked, approver=False))


def test_a_window_that_never_found_a_daemon_does_not_call_it_lost() -> None:
    scene = Scene()
    scene.feed.tell(Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS + 1000, why="refused the connection"))
    shown = text(scene.drawn())

    assert scene.rows()[0].startswith(" NO DAEMON")
    assert "!daemon NOT FOUND" in shown
    assert "To start: doorward serve" in shown
    assert not [words for words in ("LOST", "old", "void", "waited") if words in shown]
    assert "nothing is known yet" in scene.press("7").rows()[2]


def test_a_daemon_lost_with_no_card_waiting_says_nothing_of_cards() -> None:
    scene = Scene().connect()
    scene.feed.tell(Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS + 1000, why="refused the connection"))

    assert "void" not in text(scene.drawn())
    assert "this screen shows what is in doubt first" in text(scene)

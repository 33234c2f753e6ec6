from dataclasses import replace
from typing import Any

import pytest

from broker.client.control import Served
from tests.fakes.cards import NOW_MS, delete_sample, sample
from tests.ui.cards import calm_read, delete_release, expiring, queue_of_twelve, wide_write
from tests.ui.scenes import READY, Scene, entry, served, settled
from ui.answering import Approve, Deny
from ui.messages import (
    Answered,
    ApproverNews,
    CardFault,
    CardNews,
    Connected,
    Decide,
    Freeze,
    Lock,
    Lost,
    Mute,
    NotDone,
    OpenCard,
    QueueNews,
    ReadList,
    StatusNews,
    TryNow,
    Unlock,
)
from ui.paper import Paper, text_of


def decided(scene: Scene) -> list[Approve | Deny]:
    return [task.answer for task in scene.feed.done(Decide)]


def two_cards() -> Scene:
    return Scene().connect((calm_read(), 1), (delete_release(), 1))


def long_card(approval_id: str = "ap_00000000000f") -> dict[str, Any]:
    """More words of the agent's than fit."""
    words = " ".join(f"word{at}" for at in range(120))
    return expiring(sample(who={"says": words}), 100, approval_id)


def lost() -> Lost:
    return Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS + 1000, why="gone")


def test_the_first_card_is_opened_by_itself() -> None:
    assert OpenCard(approval_id="ap_000000000001") in two_cards().feed.tasks


def test_a_after_the_arming_approves_the_card_that_was_drawn() -> None:
    scene = two_cards().on(1.6).press("a")
    (task,) = scene.feed.done(Decide)

    assert Approve(scope="once", confirm=None) == task.answer
    assert isinstance(task.served, Served)
    assert served(calm_read()).digest == task.served.digest


def test_a_during_the_arming_is_dropped_and_waits_again() -> None:
    scene = two_cards().on(1.0).press("a").on(1.0)

    assert [] == decided(scene)
    assert scene.slot().startswith("wait 0.")


def test_the_slot_counts_down_to_ready() -> None:
    scene = two_cards()
    assert "wait 1.5 s" == scene.slot()
    assert "ready" == scene.on(1.6).slot()


@pytest.mark.parametrize("keys", [["enter"] * 60, ["escape"] * 10, ["y"], ["space"] * 5, ["tab"]])
def test_these_keys_never_approve(keys: list[str]) -> None:
    scene = two_cards().on(2.0).press(*keys, every_s=0.04).on(1.0)

    assert [] == decided(scene)


def test_d_1_enter_denies_with_the_ready_reason() -> None:
    scene = two_cards().press("d", "1", "enter")

    assert [Deny(reason="Wrong target: check which one is meant, then ask for it.", end_session=False)] == decided(
        scene
    )


def test_s_y_grants_to_the_session() -> None:
    scene = two_cards().on(1.6).press("s").on(0.5).press("y")

    assert [Approve(scope="session", confirm=None)] == decided(scene)


def test_a_delete_is_approved_by_its_word() -> None:
    scene = Scene().connect((delete_release(), 1)).on(1.6).press("a", *"1290", "enter")

    assert [Approve(scope="once", confirm="1290")] == decided(scene)


def test_pasted_words_decide_nothing() -> None:
    scene = two_cards().on(2.0)
    scene.window.paste("a")
    scene.window.paste("sy")

    assert [] == decided(scene.on(1.0))


def test_keys_typed_before_the_card_came_decide_nothing() -> None:
    scene = Scene().connect().press("a", "a")
    scene.feed.cards["ap_000000000001"] = CardNews(served=served(calm_read()))
    scene.feed.tell(QueueNews(waiting=(entry(calm_read()),)))

    assert [] == decided(scene.drawn().on(5.0))


@pytest.mark.parametrize("key", ["j", "n"])
def test_another_card_is_armed_anew(key: str) -> None:
    scene = two_cards().on(2.0).press(key)

    assert "ap_000000000002" == scene.window.approvals.focus
    assert scene.slot().startswith("wait 1.")


def test_another_size_is_armed_anew() -> None:
    scene = two_cards().on(2.0)
    scene.window.resize(Paper(width=100, height=30))

    assert "wait 1.5 s" == scene.drawn().slot()


def test_a_card_that_changed_is_armed_anew_and_says_where() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(CardNews(served=served(calm_read(), joined=2)))

    assert "wait 1.5 s" == scene.drawn().slot()
    assert any("Who     !claude-code" in line for line in scene.rows())


def test_the_same_card_again_is_not_armed_anew() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(CardNews(served=served(calm_read())))

    assert "ready" == scene.drawn().slot()


def test_more_requests_behind_the_card_have_it_fetched_again() -> None:
    scene = two_cards()
    before = len(scene.feed.done(OpenCard))
    scene.feed.tell(QueueNews(waiting=(entry(calm_read(), joined=2), entry(delete_release()))))

    assert before + 1 == len(scene.feed.done(OpenCard))


def test_the_terminal_s_focus_arms_anew() -> None:
    scene = two_cards().on(2.0)
    scene.window.focused()

    assert "wait 1.5 s" == scene.slot()


def test_a_daemon_that_came_back_arms_anew() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(lost())
    scene.drawn().press("a").on(1.0)
    scene.feed.tell(Connected(status=READY, waiting=(entry(calm_read()), entry(delete_release()))))
    scene.feed.tell(ApproverNews(ready=True))

    assert "wait 1.5 s" == scene.drawn().slot()
    assert [] == decided(scene)


def test_a_part_that_must_be_seen_is_scrolled_to_before_a_yes() -> None:
    scene = Scene().connect((long_card(), 1)).on(3.0)
    assert "see the rest: PgDn" == scene.slot()
    assert [] == decided(scene.press("a").on(1.0))

    while scene.slot() == "see the rest: PgDn":
        scene.press("pagedown")
    assert scene.slot().startswith("wait")
    assert [Approve(scope="once", confirm=None)] == decided(scene.on(1.6).press("a"))


def test_a_long_target_has_to_be_seen_whole() -> None:
    url = "https://api.github.com/" + "/".join(f"part{at}" for at in range(200))
    scene = Scene().connect((expiring(sample(target={"url": url}), 100, "ap_00000000000f"), 1)).on(3.0)

    assert "see the rest: PgDn" == scene.slot()
    assert any("…" in line for line in scene.rows()[4:5])


@pytest.mark.parametrize(("width", "height"), [(79, 24), (80, 21), (60, 20)])
def test_a_window_too_small_can_deny_and_not_approve(width: int, height: int) -> None:
    scene = Scene(width=width, height=height).connect((calm_read(), 1)).on(2.0).press("a").on(1.0)

    assert [] == decided(scene)
    assert "too small: 80x22" == scene.slot()
    assert [Deny(reason="no", end_session=False)] == decided(scene.press("d", "n", "o", "enter"))


def test_an_expired_card_stays_stamped_until_the_human_moves() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(QueueNews(waiting=(settled(entry(calm_read()), "expired"), entry(delete_release()))))

    assert "EXPIRED" == scene.drawn().slot()
    assert "ap_000000000001" == scene.window.approvals.focus
    assert [] == decided(scene.press("a").press("d", "1", "enter").on(1.0))
    scene.press("j")
    assert "ap_000000000002" == scene.window.approvals.focus
    assert ["ap_000000000002"] == [one.id for one in scene.window.world.waiting]


def test_a_card_expires_by_the_clock_though_nobody_told() -> None:
    scene = two_cards().on(2.0)
    scene.clock.on(120)

    assert "EXPIRED" == scene.drawn().slot()
    assert [] == decided(scene.press("a").on(1.0))


def test_a_void_card_says_why() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(QueueNews(waiting=(settled(entry(calm_read()), "void", "policy_changed"),)))

    assert "VOID: policy changed" == scene.drawn().slot()


def test_a_card_answered_elsewhere_stays_and_says_so() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(QueueNews(waiting=(settled(entry(calm_read()), "approved", "approved"), entry(delete_release()))))

    assert "APPROVED elsewhere" == scene.drawn().slot()


def test_the_own_answer_moves_on_to_the_next_card() -> None:
    scene = two_cards().on(1.6).press("a")
    assert "sending" == scene.slot()

    scene.feed.tell(Answered(approval_id="ap_000000000001", state="approved"))
    assert "ap_000000000002" == scene.drawn().window.approvals.focus
    assert ["ap_000000000002"] == [one.id for one in scene.window.world.waiting]
    assert "wait 1.5 s" == scene.slot()


def test_an_answer_is_sent_once() -> None:
    scene = two_cards().on(1.6).press("a").on(2.0).press("a").on(1.0)

    assert 1 == len(decided(scene))


def test_a_refused_answer_can_be_given_again() -> None:
    scene = two_cards().on(1.6).press("a")
    (task,) = scene.feed.done(Decide)
    scene.feed.tell(NotDone(task=task, code="not_armed", problem="The card was shown too short a time ago."))

    assert any("! The card was shown too short a time ago." in line for line in scene.drawn().rows())
    assert 2 == len(decided(scene.on(1.6).press("a")))


def test_without_the_approver_key_a_card_can_be_denied_and_not_approved() -> None:
    scene = Scene().connect((calm_read(), 1), approver=False)
    scene.feed.tasks.clear()
    scene.window.world = replace(scene.window.world, card=None)
    scene.window.approvals.reopen(scene.window.world)

    assert "approver locked: u" == scene.on(2.0).slot()
    assert [] == decided(scene.press("a").on(1.0))
    assert any("-approver" in line for line in scene.rows())
    assert [Deny(reason="no", end_session=False)] == decided(scene.press("d", "n", "o", "enter"))


def test_a_card_that_can_not_be_shown_whole_can_be_denied_and_not_approved() -> None:
    scene = Scene().connect((calm_read(), 1))
    scene.window.approvals.reopen(scene.window.world)
    scene.feed.tell(
        CardFault(approval_id="ap_000000000001", problem="the card has version 2, this client shows version 1")
    )

    assert "no whole card" == scene.on(2.0).slot()
    assert [] == decided(scene.press("a").on(1.0))
    assert any("version 2" in line for line in scene.rows())


def test_u_asks_for_the_passphrase_and_sends_it_once() -> None:
    scene = Scene().connect(approver=False).press("u", *"canary", "enter", "enter")

    assert [b"canary"] == [task.passphrase for task in scene.feed.done(Unlock)]
    assert not any("canary" in line for line in scene.rows())


def test_the_length_of_a_passphrase_stays_private() -> None:
    scene = Scene().connect(approver=False).press("u", *"x" * 30)

    assert any("[••••••••••▏ " in line for line in scene.rows())


def test_a_pasted_passphrase_is_taken() -> None:
    scene = Scene().connect(approver=False).press("u")
    scene.window.paste("canary phrase\n")

    assert [b"canary phrase"] == [task.passphrase for task in scene.press("enter").feed.done(Unlock)]


def test_a_wrong_passphrase_is_said_under_the_field() -> None:
    scene = Scene().connect(approver=False).press("u", "x", "enter")
    (task,) = scene.feed.done(Unlock)
    scene.feed.tell(NotDone(task=task, code="", problem="the passphrase does not open the approver key"))

    assert any("! the passphrase does not open the approver key" in line for line in scene.drawn().rows())


def test_keys_go_to_the_passphrase_field_and_nowhere_else() -> None:
    scene = (
        Scene()
        .connect(status=replace(READY, vault_state="locked"), approver=False)
        .press("2", "q", "F", "question_mark")
    )

    assert 1 == scene.window.current
    assert [] == scene.feed.done(Freeze)


def test_after_leaving_the_field_the_screens_can_be_reached() -> None:
    scene = Scene().connect(status=replace(READY, vault_state="locked"), approver=False).press("escape", "7")

    assert 7 == scene.window.current


def test_fold_outs_show_the_whole_and_arm_anew() -> None:
    scene = Scene().connect((wide_write(), 1)).on(2.0).press("e")
    assert "Esc: the card" == scene.slot()
    assert any("request" in line.lower() and "sha256:a41e07d2" in line for line in scene.rows())
    assert [] == decided(scene.press("a").on(1.0))

    assert scene.press("escape").slot().startswith("wait")


@pytest.mark.parametrize(
    ("key", "wanted"), [("o", "ci-legacy-2"), ("i", "(never a session)"), ("e", "op_0193a1b2c3d4")]
)
def test_each_fold_out_has_its_text(key: str, wanted: str) -> None:
    scene = Scene().connect((wide_write(), 1)).press(key)
    text = " ".join(scene.rows())
    for _ in range(5):
        text += " ".join(scene.press("pagedown").rows())

    assert wanted in text


def test_the_world_never_moves_the_focus() -> None:
    scene = two_cards().press("j")
    scene.feed.tell(QueueNews(waiting=(entry(calm_read()), entry(delete_release()), entry(wide_write()))))

    assert "ap_000000000002" == scene.window.approvals.focus


def test_the_queue_is_never_sorted_again() -> None:
    scene = two_cards()
    scene.feed.tell(QueueNews(waiting=(entry(delete_release()), entry(calm_read()))))

    assert ["ap_000000000001", "ap_000000000002"] == [one.id for one in scene.window.world.waiting]


def test_one_bell_for_a_card_that_comes_into_an_empty_queue() -> None:
    scene = Scene().connect()
    scene.feed.tell(QueueNews(waiting=(entry(calm_read()),)))
    scene.feed.tell(QueueNews(waiting=(entry(calm_read()), entry(delete_release()))))

    assert 1 == scene.window.rings


def test_no_second_bell_within_ten_seconds() -> None:
    scene = Scene().connect()
    scene.feed.tell(QueueNews(waiting=(entry(calm_read()),)))
    scene.feed.tell(QueueNews(waiting=()))
    scene.press("j")
    scene.feed.tell(QueueNews(waiting=(entry(delete_release()),)))
    assert 1 == scene.window.rings

    scene.clock.on(40)
    scene.feed.tell(QueueNews(waiting=(entry(delete_release()), entry(wide_write()))))
    assert 2 == scene.window.rings


def test_the_title_counts_and_names_nobody() -> None:
    assert "doorward: 2 waiting" == two_cards().window.title
    assert "doorward" == Scene().connect().window.title


@pytest.mark.parametrize(("key", "task"), [("F", Freeze()), ("L", Lock())])
def test_freeze_and_lock_ask_for_a_y(key: str, task: Freeze | Lock) -> None:
    scene = two_cards().press(key).on(0.5)
    assert "y yes, any other key leaves" in scene.rows()[-1]
    assert task not in scene.feed.tasks

    scene.press("y")
    assert task in scene.feed.tasks


@pytest.mark.parametrize("key", ["F", "L", "q"])
def test_any_other_key_leaves_the_question(key: str) -> None:
    scene = two_cards().press(key).on(0.5).press("n").press("y").on(1.0)

    assert not {Freeze, Lock} & {type(task) for task in scene.feed.tasks}
    assert not scene.window.closed


def test_a_hurried_y_leaves_the_question() -> None:
    scene = two_cards().press("F").press("y").on(1.0)

    assert [] == scene.feed.done(Freeze)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_and_ctrl_c_close_the_window_after_a_y(key: str) -> None:
    assert two_cards().press(key).on(0.5).press("y").window.closed


def test_ctrl_q_means_nothing() -> None:
    scene = two_cards().press("ctrl+q", "ctrl+s", "ctrl+z").on(1.0)

    assert not scene.window.closed


def test_no_key_answers_under_the_help() -> None:
    scene = two_cards().on(2.0).press("question_mark").press("a").on(1.0)

    assert [] == decided(scene)


def test_the_card_behind_the_help_is_armed_anew() -> None:
    scene = two_cards().on(2.0).press("question_mark").press("j")

    assert "ap_000000000001" == scene.window.approvals.focus
    assert scene.slot().startswith("wait 1.")


def test_keys_of_another_screen_do_not_decide() -> None:
    scene = two_cards().on(2.0).press("3").press("a", "y").on(1.0)

    assert [] == decided(scene)


def test_coming_back_to_the_card_arms_anew() -> None:
    scene = two_cards().on(2.0).press("7").press("1")

    assert scene.slot().startswith("wait 1.")


def test_n_shows_the_next_waiting_card_from_any_screen() -> None:
    scene = two_cards().press("6").press("n")

    assert 1 == scene.window.current
    assert "ap_000000000002" == scene.window.approvals.focus


def test_n_goes_round_and_p_goes_back() -> None:
    scene = two_cards().press("n", "n")
    assert "ap_000000000001" == scene.window.approvals.focus

    assert "ap_000000000002" == scene.press("p").window.approvals.focus


def test_the_mouse_moves_the_focus_and_never_answers() -> None:
    scene = two_cards().on(2.0)
    scene.window.clicked(3, 5)
    assert "ap_000000000002" == scene.window.approvals.focus

    for column in range(0, 80, 4):
        for line in range(24):
            scene.window.clicked(column, line)
    assert [] == decided(scene.on(2.0))


def test_a_lost_daemon_leaves_no_key_that_decides() -> None:
    scene = two_cards().on(2.0)
    scene.feed.tell(lost())
    scene.drawn().press("a", "d", "1", "enter", "x", "y").on(1.0)

    assert [] == decided(scene)
    assert "NO CONNECTION" in " ".join(scene.rows())
    assert "waiting" not in scene.rows()[0]


def test_r_tries_now_while_the_daemon_is_lost() -> None:
    scene = two_cards()
    scene.feed.tell(lost())

    assert [TryNow()] == scene.press("r").feed.done(TryNow)


def test_old_data_is_marked_old() -> None:
    scene = two_cards()
    scene.feed.tell(lost())

    assert "old: as at" in scene.press("7").rows()[2]


def test_the_connection_comes_back_with_what_is_in_doubt() -> None:
    scene = two_cards()
    scene.feed.tell(lost())
    scene.feed.tell(Connected(status=replace(READY, in_doubt=2), waiting=()))

    assert "in doubt now: 2 (screen 4)" in scene.drawn().rows()[-1]


def test_each_screen_asks_for_its_lists() -> None:
    scene = Scene().connect().press("2", "3", "4", "5", "6", "7")

    assert ["Activity", "Sessions", "In doubt", "Vault", "Policy", "Audit"] == [
        task.screen for task in scene.feed.done(ReadList)
    ][-6:]


def test_the_header_says_what_is_wrong() -> None:
    status = replace(READY, vault_state="quarantined", policy_digest=None, audit_anchored=False, frozen=True)
    header = Scene(width=120).connect(status=status, approver=False).rows()[0]

    for words in ("FROZEN", "!vault QUARANTINED", "-approver", "!policy NONE", "!audit UNANCHORED", "+daemon"):
        assert words in header


def test_a_policy_that_is_sealed_in_a_locked_vault_is_not_called_none() -> None:
    status = replace(READY, vault_state="locked", policy_digest=None)

    assert "!policy SEALED" in Scene(width=120).connect(status=status, approver=False).rows()[0]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("unwritable", "!audit CAN'T BE WRITTEN"),
        ("disk_low", "!audit DISK NEARLY FULL"),
        ("odd", "!audit OUT OF ORDER"),
    ],
)
def test_the_header_says_why_nothing_runs_where_the_log_is_the_reason(trouble: str, words: str) -> None:
    status = replace(READY, audit_trouble=trouble, audit_anchored=False)

    assert words in Scene(width=120).connect(status=status).rows()[0]


def test_a_pending_policy_is_marked_on_its_screen() -> None:
    assert "6 Policy!" in Scene().connect(status=replace(READY, policy_pending=True)).rows()[1]


def test_m_mutes_the_session_of_the_card_after_a_y() -> None:
    scene = two_cards().press("M").on(0.5).press("y")

    assert [Mute(session_id="se_1", muted=True)] == scene.feed.done(Mute)


def test_a_status_that_changes_has_the_screen_read_again() -> None:
    scene = Scene().connect().press("5")
    before = len(scene.feed.done(ReadList))
    scene.feed.tell(StatusNews(status=READY))

    assert before + 1 == len(scene.feed.done(ReadList))


def test_the_audit_screen_does_not_ask_for_a_status_at_each_status() -> None:
    scene = Scene().connect().press("7")
    before = len(scene.feed.done(ReadList))
    scene.feed.tell(StatusNews(status=READY))

    assert before == len(scene.feed.done(ReadList))


def test_the_activity_screen_is_read_every_two_seconds() -> None:
    scene = Scene().connect().press("2")
    before = len(scene.feed.done(ReadList))

    assert before + 2 == len(scene.on(4.2).feed.done(ReadList))


def test_the_queue_keeps_the_focus_in_sight() -> None:
    scene = Scene().connect(*queue_of_twelve())
    for _ in range(11):
        scene.press("j")
        assert any(text_of(line).startswith("▌") for line in scene.window.picture().rows)
    assert " ^ 3 more" in scene.rows()[3]


@pytest.mark.parametrize("screen", range(1, 8))
@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (20, 6), (40, 10), (59, 12), (80, 22), (81, 24), (119, 29), (200, 60)]
)
def test_every_screen_fits_every_size(screen: int, width: int, height: int) -> None:
    scene = Scene(width=width, height=height).connect((wide_write(), 1), (long_card(), 2))
    scene.window.current = screen
    picture = scene.drawn().window.picture()

    assert height == len(picture.rows) or height < 6
    assert all(len(text_of(line)) <= width for line in picture.rows)


def test_a_card_in_doubt_is_sent_again_by_its_word() -> None:
    doubt: dict[str, Any] = {
        "correlation_id": "op_0193a1b2c3d4",
        "sent_at_ms": NOW_MS - 360_000,
        "summary": "deploy deployments.create, prod web 2.4.1",
        "agent": "claude-code",
        "same_session": True,
    }
    raw = expiring(sample(doubts=[doubt], typed_word="2.4.1", summary={"effect": "WRITE"}), 90, "ap_00000000000d")
    raw["yes"]["session"] |= {"offered": False, "why_not": "an earlier attempt is in doubt"}
    scene = Scene().connect((raw, 1))
    rows = " ".join(scene.rows())

    assert "A yes may do it TWICE." in rows
    assert "nothing is sent; the first attempt stays in doubt" in rows
    assert "see the rest: PgDn" != scene.on(2.0).slot()
    assert "Type 2.4.1 to send again: [" in " ".join(scene.press("a").rows())
    assert [Approve(scope="once", confirm="2.4.1")] == decided(scene.press(*"2.4.1", "enter"))


def test_a_card_that_ended_is_swept_by_n() -> None:
    scene = Scene().connect((calm_read(), 1), (expiring(delete_sample(), 50, "ap_000000000002"), 1))
    scene.feed.tell(QueueNews(waiting=(settled(entry(calm_read()), "denied"), entry(delete_release()))))

    assert ["ap_000000000002"] == [one.id for one in scene.press("n").window.world.waiting]

"""The feed against a control socket that checks signatures: real threads, real keys, no screen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.contract.wire import digest
from tests.fakes.cards import delete_sample, sample
from tests.fakes.control_server import ControlServer
from tests.ui.ears import Ear
from ui.answering import Approve, Deny
from ui.messages import (
    ActivityNews,
    Answered,
    ApproverNews,
    CardFault,
    CardNews,
    Connected,
    CredentialsNews,
    Decide,
    Done,
    DoubtsNews,
    EndSession,
    Freeze,
    Lock,
    Lost,
    Mute,
    NotDone,
    OpenCard,
    PolicyNews,
    QueueNews,
    ReadBack,
    ReadList,
    RevokeGrant,
    SessionsNews,
    Settle,
    StatusNews,
    Trust,
    TryNow,
    Unlock,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    tmp_path.chmod(0o700)
    with ControlServer(tmp_path) as running:
        yield running


@pytest.fixture
def ear(server: ControlServer, tmp_path: Path) -> Iterator[Ear]:
    del server
    listening = Ear(tmp_path)
    yield listening
    listening.feed.stop()


def quick(raw: dict[str, Any]) -> dict[str, Any]:
    """The card without its arming time."""
    return {**raw, "arming_ms": 0}


def test_it_connects_and_tells_what_waits(server: ControlServer, ear: Ear) -> None:
    assert () == ear.wait(Connected).waiting
    approval_id = server.put(sample())

    assert [approval_id] == [one.id for one in ear.wait(QueueNews, lambda news: news.waiting).waiting]


def test_a_yes_is_signed_over_the_card_that_was_served(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put(quick(sample()))
    card = ear.unlocked().ask(OpenCard(approval_id=approval_id), CardNews).served
    answer = Approve(scope="session", confirm=None)
    told = ear.ask(Decide(approval_id=approval_id, answer=answer, served=card), Answered)
    (decision,) = server.decisions

    assert "approved" == told.state
    assert digest("doorward/card/v1", card.raw) == decision["statement"]["card_digest"]
    assert ("approve", "session", 200, 3600) == tuple(
        decision["statement"][name] for name in ("decision", "scope", "max_uses", "max_age_s")
    )


def test_the_typed_word_goes_with_the_yes(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put(quick(delete_sample()))
    card = ear.unlocked().ask(OpenCard(approval_id=approval_id), CardNews).served
    ear.ask(Decide(approval_id=approval_id, answer=Approve(scope="once", confirm="1290"), served=card), Answered)

    assert "1290" == server.decisions[0]["confirm"]


def test_a_no_needs_no_key(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put(sample())
    ear.wait(Connected)
    answer = Deny(reason="Too wide: ask for fewer at a time.", end_session=True)
    told = ear.ask(Decide(approval_id=approval_id, answer=answer, served=None), Answered)
    (decision,) = server.decisions

    assert "denied" == told.state
    assert ("deny", answer.reason, True) == tuple(decision[name] for name in ("decision", "reason", "end_session"))
    assert "signature" not in decision


def test_no_yes_leaves_without_a_key(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put(quick(sample()))
    card = ear.unlocked().ask(OpenCard(approval_id=approval_id), CardNews).served
    ear.ask(Lock(), ApproverNews, lambda news: not news.ready)
    told = ear.ask(Decide(approval_id=approval_id, answer=Approve(scope="once", confirm=None), served=card), NotDone)

    assert "the approver key is locked in this window: u" == told.problem
    assert [] == server.decisions


def test_a_yes_too_early_is_refused_and_said(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put(sample())
    card = ear.unlocked().ask(OpenCard(approval_id=approval_id), CardNews).served
    told = ear.ask(Decide(approval_id=approval_id, answer=Approve(scope="once", confirm=None), served=card), NotDone)

    assert "not_armed" == told.code


def test_without_the_key_no_card_is_asked_for(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put(sample())
    ear.wait(Connected)
    ear.feed.do(OpenCard(approval_id=approval_id))
    ear.ask(ReadList(screen="Approvals"), QueueNews)

    assert f"GET /v1/approvals/{approval_id}" not in server.asked


def test_a_card_of_another_version_is_not_shown(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put({**sample(), "v": 2})

    assert "version 2" in ear.unlocked().ask(OpenCard(approval_id=approval_id), CardFault).problem


def test_a_card_that_says_more_than_can_be_drawn_is_not_shown(server: ControlServer, ear: Ear) -> None:
    approval_id = server.put({**sample(), "surprise": 1})

    assert "surprise" in ear.unlocked().ask(OpenCard(approval_id=approval_id), CardFault).problem


def test_a_wrong_passphrase_never_reaches_the_daemon(server: ControlServer, ear: Ear) -> None:
    server.vault_state = "locked"
    ear.wait(Connected)

    assert "does not open" in ear.ask(Unlock(b"another"), NotDone).problem
    assert "POST /v1/unlock" not in server.asked


def test_the_right_one_opens_the_vault_and_the_key(server: ControlServer, ear: Ear) -> None:
    server.vault_state = "locked"
    ear.unlocked()

    assert "ready" == server.vault_state
    assert server.opened


def test_a_lock_takes_the_approver_key_of_this_window(server: ControlServer, ear: Ear) -> None:
    ear.unlocked()
    server.reply("POST", "/v1/lock", {})

    ear.wait(ApproverNews, lambda news: not news.ready)
    assert "locked" == ear.wait(StatusNews, lambda news: news.status.vault_state == "locked").status.vault_state


def test_it_says_that_nobody_listens_and_connects_by_itself(server: ControlServer, ear: Ear, tmp_path: Path) -> None:
    ear.wait(Connected)
    server.close()
    lost = ear.wait(Lost)
    assert 1 == lost.tries
    after = len(ear.heard)

    (tmp_path / "config" / "approver.key").unlink()
    with ControlServer(tmp_path):
        ear.feed.do(TryNow())
        ear.wait(Connected, after=after)


def test_a_daemon_that_does_not_take_the_key_is_there_all_the_same(
    server: ControlServer, ear: Ear, tmp_path: Path
) -> None:
    ear.unlocked()
    server.close()
    ear.wait(Lost)
    after = len(ear.heard)
    (tmp_path / "config" / "approver.key").unlink()
    with ControlServer(tmp_path):
        ear.feed.do(TryNow())
        told = ear.wait(ApproverNews, lambda news: not news.ready, after=after)

        assert "No enrolled approver key" in told.problem
        assert () == ear.ask(ReadList(screen="Approvals"), QueueNews).waiting


def test_it_says_so_when_there_never_was_a_daemon(tmp_path: Path) -> None:
    ear = Ear(tmp_path)

    assert "in DOORWARD_HOME, refused the connection" == ear.wait(Lost).why
    ear.feed.stop()


def test_lists_are_read_for_their_screens(server: ControlServer, ear: Ear) -> None:
    server.lists["credentials"] = [
        {"name": "github", "kind": "bearer", "origins": ["https://api.github.com"], "version": 3}
    ]
    server.doubts = [{"correlation_id": "op_1", "sent_at_ms": 1, "operation": "deploy.run", "read_back": None}]
    server.activity = [{"id": "op_1", "seq": 1, "last_seq": 4, "event": "action.requested", "category": "success"}]
    server.pending_policy = True
    ear.unlocked()

    assert "github" == ear.ask(ReadList(screen="Vault"), CredentialsNews).credentials[0].name
    assert "op_1" == ear.ask(ReadList(screen="In doubt"), DoubtsNews).doubts[0].correlation_id
    assert "success" == ear.ask(ReadList(screen="Activity"), ActivityNews).rows[0].category
    facts = ear.ask(ReadList(screen="Policy"), PolicyNews).facts
    assert (True, 2, 18) == (facts.waits, len(facts.changes), facts.pending_counter)
    assert 4211 == ear.ask(ReadList(screen="Audit"), StatusNews).status.audit_seq


def test_what_is_sealed_is_not_asked_for_without_the_key(server: ControlServer, ear: Ear) -> None:
    ear.wait(Connected)
    ear.feed.do(ReadList(screen="Vault"))
    ear.ask(ReadList(screen="Approvals"), QueueNews)

    assert "GET /v1/credentials" not in server.asked


def test_sessions_and_grants_can_be_taken_away(server: ControlServer, ear: Ear) -> None:
    server.lists["sessions"] = [{"id": "se_1", "agent": "codex", "pid": 1, "muted": False}]
    server.lists["grants"] = [{"id": "gr_1", "session_id": "se_1"}]
    ear.unlocked()
    ear.ask(Mute(session_id="se_1", muted=True), SessionsNews, lambda news: news.sessions[0].muted)
    ear.ask(Mute(session_id="se_1", muted=False), SessionsNews, lambda news: not news.sessions[0].muted)
    ear.ask(RevokeGrant(grant_id="gr_1"), SessionsNews, lambda news: not news.grants)

    assert "the session is ended" == ear.ask(EndSession(session_id="se_1"), Done).words


def test_trust_and_settlement_are_signed(server: ControlServer, ear: Ear) -> None:
    server.pending_policy = True
    server.doubts = [{"correlation_id": "op_1", "sent_at_ms": 1}]
    ear.unlocked()
    new = "sha256:b7d0412e" + "1" * 56

    assert "the new policy is in force" == ear.ask(Trust(digest=new, counter=18), Done).words
    assert (
        "settled by your word" == ear.ask(Settle(correlation_id="op_1", outcome="applied", reason="looked"), Done).words
    )
    assert {"correlation_id": "op_1", "as": "applied", "reason": "looked"} == server.decisions[1]["statement"]["params"]


def test_freeze_and_reading_back_end_in_one_sentence(server: ControlServer, ear: Ear) -> None:
    ear.unlocked()

    assert ear.ask(Freeze(), Done).words.startswith("everything is frozen")
    assert server.frozen
    assert "read back: outcome_unknown / still_running" == ear.ask(ReadBack(correlation_id="op_1"), Done).words


def test_a_passphrase_is_not_spelled_by_its_task() -> None:
    assert "canary" not in repr(Unlock(b"canary passphrase"))


def test_stopping_wipes_the_key_and_ends_the_threads(server: ControlServer, tmp_path: Path) -> None:
    del server
    ear = Ear(tmp_path).unlocked()
    ear.feed.stop()

    assert ear.feed._key is None

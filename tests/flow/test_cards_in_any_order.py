"""Humans, clock and world in any order, over the real desk and the pipeline: one end, one record, no yes too many."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from broker.approvals.answers import Answer, AnswerRefused
from broker.approvals.waiting import Waiting
from broker.contract.reasons import ApprovalState
from broker.contract.wire import dump
from broker.core.approval import Happening
from tests.fakes import market
from tests.fakes.desk_day import DeskDay, Request

ASKS = (market.CREATE, market.CANCEL, market.JOB, market.LISTING)
CALLERS = (market.agent(4711), market.agent(4712), market.agent(4713, name="codex"))
WORLD = {
    Happening.LOCKED: ("vault_locked", "locked"),
    Happening.FROZEN: ("broker_unavailable", "frozen"),
    Happening.POLICY_CHANGED: ("approval_timeout", "approval_void"),
    Happening.CREDENTIAL_CHANGED: ("approval_timeout", "approval_void"),
    Happening.SESSION_ENDED: ("session_denied", "session_ended"),
}
picks = st.integers(0, 9)


class CardsMachine(RuleBasedStateMachine):
    """Several agents ask the same few things; whatever can happen to a card happens."""

    def __init__(self) -> None:
        super().__init__()
        self.day = DeskDay()
        self.ended: dict[str, ApprovalState] = {}
        self.yes: set[str] = set()  # requests that a human said yes to
        self.void: dict[str, tuple[str, str]] = {}  # what the world ended, and how that has to be told

    @override
    def teardown(self) -> None:
        self.day.close()

    def _card(self, pick: int) -> Waiting:
        return self.day.cards[pick % len(self.day.cards)]

    @rule(ask=st.sampled_from(ASKS), who=st.sampled_from(CALLERS))
    def ask(self, ask: Any, who: Any) -> None:
        self.day.ask(ask, caller=who)

    @precondition(lambda self: self.day.cards)
    @rule(pick=picks, scope=st.sampled_from(["once", "session"]))
    def approve(self, pick: int, scope: str) -> None:
        card = self._card(pick)
        offered: Any = card.card["yes"]
        try:
            self.day.yes(card, scope=scope if offered["session"]["offered"] else "once")
        except AnswerRefused:
            assert ApprovalState.EXPIRED is card.state  # while it was looked at
            return
        self.yes.add(card.question.correlation_id)

    @precondition(lambda self: self.day.cards)
    @rule(pick=picks)
    def deny(self, pick: int) -> None:
        self.day.no(self._card(pick), "not now")

    @precondition(lambda self: self.ended)
    @rule(pick=picks)
    def answer_too_late(self, pick: int) -> None:
        settled = [card for card in self.day.desk._cards.values() if card.state is not ApprovalState.PENDING]
        with pytest.raises(AnswerRefused, match="settled already"):
            self.day.answer(settled[pick % len(settled)], Answer(decision="deny"))

    @precondition(lambda self: self.day.cards)
    @rule(pick=picks)
    def withdraw(self, pick: int) -> None:
        card = self._card(pick)
        assert self.day.desk.withdraw(card.question.correlation_id)
        self.day.loop.turn()

    @rule(seconds=st.sampled_from([1, 61, 125, 700]))
    def wait(self, seconds: int) -> None:
        self.day.loop.advance(seconds=seconds)

    @rule(happening=st.sampled_from([one for one in WORLD if one is not Happening.SESSION_ENDED]))
    def the_world_changes(self, happening: Happening) -> None:
        self._note(self.day.cards, happening)
        flow = self.day.flow
        match happening:
            case Happening.LOCKED:
                flow.vault.lock()
                self.day.desk.void(happening)
                flow.sessions.sessions.clear()
            case Happening.FROZEN:
                flow.sessions.frozen = True
                self.day.desk.void(happening)
                flow.sessions.sessions.clear()
            case Happening.POLICY_CHANGED:
                other = market.OTHER_DIGEST if flow.policies.policy.digest == market.DIGEST else market.DIGEST
                flow.policies.policy = replace(flow.policies.policy, digest=other)
                self.day.desk.void(happening)
            case _:
                flow.vault.put("market", market.TOKEN, market.BASE_URL)
                self.day.desk.void(happening, credential="market")
        self.day.loop.turn()
        flow.sessions.frozen = False
        if happening is Happening.LOCKED:
            flow.vault.unlock()

    @rule(who=st.sampled_from(CALLERS))
    def a_session_ends(self, who: Any) -> None:
        held = self.day.flow.sessions.of(who)
        if held is None:
            return
        self._note([card for card in self.day.cards if card.question.session.id == held.id], Happening.SESSION_ENDED)
        del self.day.flow.sessions.sessions[held.id]
        self.day.desk.void(Happening.SESSION_ENDED, session_id=held.id)
        self.day.loop.turn()

    def _note(self, cards: list[Waiting], happening: Happening) -> None:
        self.void |= {card.question.correlation_id: WORLD[happening] for card in cards}

    @invariant()
    def a_card_has_one_settled_state(self) -> None:
        for card in self.day.desk._cards.values():
            if card.state is not ApprovalState.PENDING:
                assert self.ended.setdefault(card.id, card.state) is card.state

    @invariant()
    def each_change_of_a_card_is_one_record(self) -> None:
        told = [event for event in self.day.flow.audit.events if event.name.value.startswith("approval.")]
        for card in self.day.desk._cards.values():
            names = [event.name.value for event in told if event.fields["approval_id"] == card.id]
            names = [name for name in names if name != "approval.refused"]
            settled = card.state is not ApprovalState.PENDING
            assert ["approval.requested", *(["approval.decided"] if settled else [])] == names

    @invariant()
    def nothing_is_sent_but_what_was_approved_and_is_not_void(self) -> None:
        sent = [permit.correlation_id for permit in self.day.flow.executor.permits]
        assert len(set(sent)) == len(sent)
        granted = {
            request.correlation_id
            for request in self.day.requests
            if request.envelope is not None and request.envelope["gate"]["session"] == "granted"  # type: ignore[call-overload, index]  # JSON
        }
        assert set(sent) <= self.yes | granted
        assert not set(sent) & set(self.void)

    @invariant()
    def what_the_world_ended_is_told_as_such(self) -> None:
        for request in self.day.requests:
            if request.correlation_id in self.void:
                assert request.envelope is not None
                assert self.void[request.correlation_id] == (request.envelope["category"], request.envelope["code"])

    @invariant()
    def who_joined_gets_the_same_end(self) -> None:
        by_id = {request.correlation_id: request for request in self.day.requests}
        for request in self.day.requests:
            if request.joined is not None:
                assert _spelled(by_id[request.joined]) == _spelled(request)

    @invariant()
    def every_request_that_ended_has_one_result_on_record(self) -> None:
        for request in self.day.requests:
            names = self.day.flow.audit.names(request.correlation_id)
            assert int(request.task.done()) == names.count("action.result")


def _spelled(request: Request) -> bytes | None:
    return None if request.envelope is None else dump(request.envelope)


CardsMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestCardsInAnyOrder = CardsMachine.TestCase

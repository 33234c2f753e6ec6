"""Another way than a yes or a no: signed, armed and bound to the card like a yes, and good for nothing else."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.approvals.answers import Answer, AnswerRefused
from broker.contract.reasons import ApprovalState
from broker.core.events import EventName
from broker.core.evidence_gate import Proof
from broker.ports import Approved, AuditUnwritable, Chosen, Question
from tests.fakes import market
from tests.fakes.collections_made import PRESENT, RECORD, judged
from tests.fakes.questions import ME, DeskRoom, question

CUT = judged(PRESENT, replace(RECORD, complete=False, ids=("ci-legacy-2",)))
GAP = Proof(judged=(CUT,), choices=("collect", "limit"))


def asked(proof: Proof = GAP) -> Question:
    return replace(question(market.CANCEL), proof=proof)


async def answered(answer: dict[str, Any], proof: Proof = GAP, **statement: Any) -> object:
    """What the pipeline is told after this answer."""
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        task = room.asking(tasks, asked(proof))
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        yes = room.yes(card.id, **statement)
        try:
            waiting = await room.desk.answer(card.id, replace(yes, **answer), ME)
        except AnswerRefused as refused:
            task.cancel()
            return refused.code
        assert ("approval.decided", "approve") == room.records()[-1]
        assert answer.get("choice") == room.audit.events[-1].fields["choice"]
    expected = ApprovalState.APPROVED if answer.get("choice") is None else ApprovalState.SUPERSEDED
    assert expected is waiting.state
    return task.result()


@pytest.mark.parametrize("choice", ["collect", "limit"])
async def test_a_choice_that_the_card_offers_needs_no_word(choice: str) -> None:
    told = await answered({"choice": choice}, choice=choice)

    assert isinstance(told, Chosen)
    assert choice == told.choice


async def test_a_yes_despite_the_gap_needs_the_first_target_without_proof() -> None:
    assert "wrong_confirm" == await answered({})
    assert "wrong_confirm" == await answered({"confirm": "o-7"})
    assert isinstance(await answered({"confirm": "svc-build-7"}), Approved)


@pytest.mark.parametrize(
    ("answer", "statement", "code"),
    [
        ({"choice": "collect"}, {}, "changed"),
        ({}, {"choice": "collect"}, "wrong_confirm"),
        ({"confirm": "svc-build-7"}, {"choice": "collect"}, "changed"),
        ({"choice": "limit"}, {"choice": "collect"}, "changed"),
        ({"choice": "read_back"}, {"choice": "read_back"}, "schema"),
        ({"choice": "collect", "scope": "session"}, {"choice": "collect"}, "schema"),
    ],
)
async def test_a_choice_is_the_one_that_was_signed_and_offered(
    answer: dict[str, Any], statement: dict[str, Any], code: str
) -> None:
    assert code == await answered(answer, **statement)


async def test_a_card_without_a_gap_offers_no_choice() -> None:
    assert "schema" == await answered({"choice": "collect"}, Proof(), choice="collect")


async def test_a_choice_that_can_not_be_recorded_does_not_count() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        task = room.asking(tasks, asked())
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        yes: Answer = replace(room.yes(card.id, choice="limit"), choice="limit")
        room.audit.break_at(EventName.APPROVAL_DECIDED)
        with pytest.raises(AuditUnwritable):
            await room.desk.answer(card.id, yes, ME)
        assert (ApprovalState.PENDING, None) == (card.state, card.choice)
        task.cancel()


async def test_lists_say_what_there_is_of_the_evidence() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        task = room.asking(tasks, asked())
        await room.card()
        assert ["incomplete"] == [row["evidence_state"] for row in room.desk.listing()]
        task.cancel()

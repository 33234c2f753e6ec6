"""A repeat of what is in doubt: a human has it looked at first, and is asked again about what is left of the doubt."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.approvals.answers import AnswerRefused
from broker.contract.reasons import ApprovalRule
from broker.core.approval import Happening
from broker.core.ledger import Doubt
from broker.ports import Chosen
from tests.fakes import market
from tests.fakes.desk_port import Card
from tests.fakes.flow import Flow, gist
from tests.fakes.questions import ME, DeskRoom, question
from tests.flow.test_safe_repeats import KEY, SET, flow_with


def asking_flow() -> Flow:
    return flow_with(KEY, approval=ApprovalRule.PER_CALL, in_doubt="ask")


def doubts_on(card: Card) -> list[Any]:
    drawn: Any = card.drawn["doubts"]
    return list(drawn)


@pytest.mark.parametrize("settles", [True, False])
async def test_the_card_comes_again_with_what_is_left_of_the_doubt(settles: bool) -> None:  # noqa: FBT001 - both ends
    flow = asking_flow()
    doubt = await flow.doubt_after_yes(SET)

    async def look(target: str) -> None:
        if settles:
            assert await flow.ledger.settle_by_repeat(target, {"as": "not_applied"}, lambda: asyncio.sleep(0))

    flow.follow_ups.look = look
    async with flow.asking(SET) as (first, answer):
        flow.desk.choose(first, "read_back")
        await flow.until(lambda: len(flow.desk.waiting) == 1)
        (again,) = flow.desk.waiting
        flow.desk.settle(again, Happening.APPROVED)

    assert [(doubt, flow.caller)] == flow.follow_ups.read
    assert ["prices.get"] == [one["read_back"] for one in doubts_on(first)]
    assert ([] if settles else [doubt]) == [one["correlation_id"] for one in doubts_on(again)]
    assert gist(answer.result())[:2] == ("success", "ok")
    assert 2 == len(flow.executor.permits), "the first, and the repeat after the second card"


async def test_nothing_is_sent_by_looking_first() -> None:
    flow = asking_flow()
    await flow.doubt_after_yes(SET)
    async with flow.asking(SET) as (first, answer):
        flow.desk.choose(first, "read_back")
        await flow.until(lambda: len(flow.desk.waiting) == 1)
        flow.desk.settle(flow.desk.waiting[0], Happening.DENIED)

    assert gist(answer.result())[:2] == ("call_denied", "declined")
    assert 1 == len(flow.executor.permits)


@pytest.mark.parametrize(
    ("operation", "outcome"), [("market.orders.create", "chosen"), ("market.others.create", "schema")]
)
async def test_looking_first_is_offered_only_where_something_could_tell(operation: str, outcome: str) -> None:
    doubt = Doubt(
        correlation_id="op_" + "1" * 44,
        session_id="se_1",
        agent="claude-code",
        operation=operation,
        summary="POST https://api.market.example/stalls/s1/orders",
        sent_at_ms=1,
    )
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        task = room.asking(tasks, question(market.CREATE, doubts=(doubt,)))
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        yes = replace(room.yes(card.id, choice="read_back"), choice="read_back")
        if outcome == "schema":
            with pytest.raises(AnswerRefused) as refused:
                await room.desk.answer(card.id, yes, ME)
            assert "schema" == refused.value.code
            room.desk.void(Happening.STOPPING)
        else:
            await room.desk.answer(card.id, yes, ME)

    assert isinstance(task.result(), Chosen) == (outcome == "chosen")

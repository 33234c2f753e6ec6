"""Cards that a yes for the session, given to another card, speaks for: what goes without an answer, and what waits."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.approvals.waiting import Waiting
from broker.contract.reasons import ApprovalState
from broker.core.approval import GRANTED, Happening
from broker.core.grants import Circumstances, Grant, make
from broker.core.resolve import HttpAsk
from broker.ports import Chosen, Question
from tests.fakes import market
from tests.fakes.questions import DeskRoom, question


def listing(page: int, **more: Any) -> Question:
    ask = HttpAsk(service=market.LISTING.service, operation=market.LISTING.operation, args={"page": str(page)})
    return question(ask, number=page, **more)


def grant_for(room: DeskRoom, asked: Question, **changed: Any) -> Grant:
    """What a yes for the session to this question makes."""
    under = Circumstances(
        session_id=asked.session.id,
        policy_digest=asked.policy.digest,
        credential_version=asked.credential_version,
        run=asked.caller.anchor_process.run,
        now_ms=room.clock.now_ms(),
    )
    made = make(grant_id="gr_1", ask=asked.ask, frozen=asked.frozen, limits=asked.policy.limits, under=under)
    return replace(made, **changed)


async def left(room: DeskRoom, tasks: asyncio.TaskGroup, *asked: Question, grant: Grant) -> list[Waiting]:
    for number, one in enumerate(asked, start=1):
        room.asking(tasks, one)
        await room.card(number)
    room.desk.granted([grant])
    return room.desk.waiting()


async def test_what_a_grant_covers_goes_on_the_oldest_first_while_uses_are_left() -> None:
    room = DeskRoom()
    grant = grant_for(room, listing(1), max_uses=3)
    async with asyncio.TaskGroup() as tasks:
        first = room.asking(tasks, listing(2))
        await room.card(1)
        waiting = await left(room, tasks, listing(2), listing(3), listing(4), grant=grant)
        assert [listing(4).correlation_id] == [card.question.correlation_id for card in waiting]
        room.desk.void(Happening.LOCKED)

    (card, *_) = room.desk._cards.values()
    assert Chosen(approval_id=card.id, choice=GRANTED) == first.result()
    assert ApprovalState.SUPERSEDED is card.state
    assert ("approval.decided", "superseded") in room.records()


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        (listing(2, session="se_2"), {}),
        (listing(2, caller=market.agent(4712)), {"run": (1, 2)}),
        (listing(2), {"effect": "write"}),
        (listing(2), {"used": 200, "max_uses": 200}),
        (listing(2), {"policy_digest": "sha256:other"}),
        (listing(2), {"credential_version": 9}),
        (listing(2), {"expires_at_ms": 0}),
        (question(market.CREATE, number=2), {}),
    ],
    ids=["session", "program", "effect", "used up", "policy", "credential", "age", "rule"],
)
async def test_any_other_card_waits_for_an_answer_of_its_own(asked: Question, changed: dict[str, Any]) -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        waiting = await left(room, tasks, asked, grant=grant_for(room, listing(1), **changed))
        assert 1 == len(waiting)
        room.desk.void(Happening.LOCKED)


async def test_a_card_that_takes_a_typed_word_waits_though_a_grant_covers_it() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, listing(2))
        card = await room.card()
        card.card = {**card.card, "typed_word": "site"}
        room.desk.granted([grant_for(room, listing(1))])
        assert [card] == room.desk.waiting()
        room.desk.void(Happening.LOCKED)


async def test_a_repeat_of_what_is_in_doubt_waits_though_a_grant_covers_it() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, listing(2))
        card = await room.card()
        card.question = replace(card.question, doubts=(object(),))  # type: ignore[arg-type]  # whatever it is
        room.desk.granted([grant_for(room, listing(1))])
        assert [card] == room.desk.waiting()
        room.desk.void(Happening.LOCKED)

"""Cards tell of the past: what was approved of the like, what was denied that day, and for how long a no stands."""

import asyncio
from dataclasses import replace
from typing import Any

from broker.approvals import past as past_module
from broker.approvals.answers import Answer
from broker.approvals.past import KEPT, Past
from broker.approvals.prompts import DAY_S, DENIALS_COUNTED, Prompts
from broker.core.approval import Happening
from broker.core.identity import UNIDENTIFIED
from broker.ports import Declined, Question
from tests.fakes import market
from tests.fakes.questions import ME, DeskRoom, question

OTHER = market.ask("orders.create", stall="s2", name="pear", note="ripe")


async def settled(room: DeskRoom, asked: Question, happening: Happening) -> dict[str, Any]:
    """Put the question, end its card so, and give the card."""
    async with asyncio.TaskGroup() as tasks:
        number = len(room.desk._cards) + 1
        asking = room.asking(tasks, asked)
        card = await room.card(number)
        match happening:
            case Happening.APPROVED:
                room.desk.served(card.id, ME)
                room.arm()
                await room.desk.answer(card.id, room.yes(card.id), ME)
            case Happening.DENIED:
                await room.desk.answer(card.id, Answer(decision="deny"), ME)
            case _:
                room.desk.void(happening)
        await asking
    found: Any = card.card
    assert isinstance(found, dict)
    return found


def before(card: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = card["before"]
    return part


async def test_a_card_shows_what_differs_from_the_last_approved_of_its_kind() -> None:
    room = DeskRoom()
    first = await settled(room, question(), Happening.APPROVED)
    second = await settled(room, question(OTHER, number=2), Happening.STOPPING)

    assert {"denied": None, "previous": None} == before(first)
    previous = before(second)["previous"]
    assert (question().correlation_id, "once") == (previous["correlation_id"], previous["scope"])
    assert first["exact"]["request_digest"] == previous["request_digest"]
    assert previous["changes"]
    assert {"path", "body.name", "body.note"} <= {change["what"] for change in previous["changes"]}


async def test_only_a_yes_is_remembered_and_only_for_that_agent() -> None:
    room = DeskRoom()
    await settled(room, question(), Happening.STOPPING)
    assert before(await settled(room, question(number=2), Happening.APPROVED))["previous"] is None
    stranger = question(number=3, session="se_2", caller=market.agent(4712, name="codex"))
    assert before(await settled(room, stranger, Happening.STOPPING))["previous"] is None
    assert before(await settled(room, question(number=4), Happening.STOPPING))["previous"] is not None


async def test_a_lock_forgets_what_requests_said() -> None:
    room = DeskRoom()
    await settled(room, question(), Happening.APPROVED)
    room.desk.void(Happening.LOCKED)

    assert before(await settled(room, question(number=2), Happening.STOPPING))["previous"] is None


async def test_a_denial_of_today_stands_on_later_cards_of_its_rule() -> None:
    room = DeskRoom()
    await settled(room, question(), Happening.DENIED)
    at_ms = room.clock.now_ms()
    room.clock.advance(seconds=60)
    later = await settled(room, question(OTHER, number=2), Happening.DENIED)

    assert {"rule": later["why"]["rule"], "times": 1, "last_at_ms": at_ms} == before(later)["denied"]
    room.clock.advance(seconds=int(DAY_S) - 30)
    assert 1 == before(await settled(room, question(number=3), Happening.STOPPING))["denied"]["times"]
    room.clock.advance(seconds=60)
    assert before(await settled(room, question(number=4), Happening.STOPPING))["denied"] is None


async def test_who_is_denied_is_told_how_long_that_stands() -> None:
    room = DeskRoom()
    card = await settled(room, question(), Happening.DENIED)
    room.clock.advance(seconds=150)
    refused = await room.desk.ask(question(number=2))

    assert {"memory_s": 600} == card["no"]
    assert isinstance(refused, Declined)
    assert "denied_recently" == refused.refusal.code
    assert "2 min ago" in refused.refusal.message
    assert "another 7 min" in refused.refusal.message


def test_what_is_remembered_is_bounded() -> None:
    prompts = Prompts(monotonic_s=lambda: 100.0)
    past = Past(prompts)
    for number in range(KEPT + 5):
        caller = market.agent(name=f"agent-{number}")
        past.approve(question(caller=caller), scope="once", at_ms=number)
    for _ in range(DENIALS_COUNTED + 5):
        prompts.deny(question())

    assert KEPT == len(past) == past_module.KEPT
    assert (DENIALS_COUNTED, 0.0) == prompts.denied_today(question())


def test_programs_without_a_name_are_told_apart_by_what_they_execute() -> None:
    past = Past(Prompts(monotonic_s=lambda: 100.0))
    one = market.agent(name=UNIDENTIFIED)
    other = replace(one, program=replace(one.program, exe="/usr/bin/other"))
    past.approve(question(caller=one), scope="session", at_ms=1)

    assert past.before(question(caller=one), now_ms=2)["previous"] is not None
    assert past.before(question(caller=other), now_ms=2)["previous"] is None


async def test_cards_of_one_kind_are_one_group_and_each_is_answered_by_itself() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = [room.asking(tasks, asked) for asked in (question(), question(OTHER, number=2))]
        other = room.asking(tasks, question(number=3, session="se_2", caller=market.agent(4712)))
        await room.card(3)
        first, second, third = room.desk.listing()
        assert first["group"] == second["group"] != third["group"]
        assert [2, 2, 1] == [item["group_size"] for item in (first, second, third)]
        await room.desk.answer(str(first["id"]), Answer(decision="deny"), ME)
        assert ["denied", "pending", "pending"] == [item["state"] for item in room.desk.listing()]
        assert [1, 1, 1] == [item["group_size"] for item in room.desk.listing()]
        room.desk.void(Happening.STOPPING)

    assert ["declined", "shutting_down"] == [task.result().refusal.code for task in asking]  # type: ignore[union-attr]  # all of them declined
    assert other.done()

"""Credentials that agents wait for: what answers them, what ends them, and how often a human is asked."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.approvals import wants as wants_module
from broker.approvals.answers import AnswerRefused
from broker.approvals.want import Want
from broker.approvals.wants import SETTLED_KEPT, WaitingWant, whole
from broker.core.approval import Happening
from broker.core.identity import Caller
from broker.core.policy.model import Limits
from tests.fakes import market
from tests.fakes.questions import DeskRoom, question


def want(
    *, number: int = 1, session: str = "se_1", caller: Caller | None = None, muted: bool = False, credential: str = "c"
) -> Want:
    asked = question(number=number, session=session, caller=caller, muted=muted)
    service = replace(asked.frozen.service, name=f"of-{credential}", credential=credential)
    return Want(
        correlation_id=asked.correlation_id,
        caller=asked.caller,
        session=asked.session,
        policy=asked.policy,
        service=service,
        credential=credential,
        purpose="to look",
    )


class Room(DeskRoom):
    """A desk at which somebody waits for a credential."""

    async def put(self, tasks: asyncio.TaskGroup, asked: Want) -> tuple[Any, WaitingWant]:
        before = len(self.waiting)
        task = tasks.create_task(self.desk.wants.ask(asked))
        async with asyncio.timeout(15):
            while len(self.waiting) == before:  # noqa: ASYNC110 - the desk tells of it by a call
                await asyncio.sleep(0)
        return task, next(reversed(self.desk.wants._all.values()))


async def test_an_added_credential_answers_all_who_wait_for_it() -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        first, waiting = await room.put(tasks, want())
        second, _ = await room.put(tasks, want(number=2))
        other, _ = await room.put(tasks, want(number=3, session="se_2", caller=market.agent(4712)))
        room.desk.void(Happening.CREDENTIAL_CHANGED, credential="another")
        assert ["pending", "pending"] == [one["state"] for one in room.desk.wants.listing()]
        room.desk.void(Happening.CREDENTIAL_CHANGED, credential="c")

    assert [None, None, None] == [task.result() for task in (first, second, other)]
    assert 2 == waiting.joined
    assert ["provided", "provided"] == [one["state"] for one in room.desk.wants.listing()]
    assert [
        ("approval.requested", None),
        ("approval.requested", None),
        ("approval.decided", "provided"),
        ("approval.decided", "provided"),
    ] == room.records()


@pytest.mark.parametrize(
    ("happening", "code"),
    [
        (Happening.LOCKED, "locked"),
        (Happening.FROZEN, "frozen"),
        (Happening.SESSION_ENDED, "session_ended"),
        (Happening.POLICY_CHANGED, "approval_void"),
        (Happening.STOPPING, "shutting_down"),
    ],
)
async def test_what_ends_cards_ends_wishes_and_says_so(happening: Happening, code: str) -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        asking, _ = await room.put(tasks, want())
        room.desk.void(happening, session_id="se_2")
        assert not asking.done()
        room.desk.void(happening, session_id="se_1")
        room.desk.void(happening)

    refused: Any = asking.result()
    assert code == refused.code
    assert [("approval.requested", None), ("approval.decided", happening.value)] == room.records()


async def test_a_wish_expires_and_is_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        asking, _ = await room.put(tasks, want())
        assert not room.desk.withdraw("op_other")
        assert room.desk.withdraw(want().correlation_id)
    withdrawn: Any = asking.result()
    monkeypatch.setattr(wants_module, "EXPIRES_S", 0.0)
    expired: Any = await room.desk.wants.ask(want(number=2))

    assert ["withdrawn", "no_approver"] == [withdrawn.code, expired.code]


async def test_a_no_is_told_remembered_and_final() -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        asking, waiting = await room.put(tasks, want())
        room.desk.wants.decline(waiting.id, "Not that one.")
        with pytest.raises(AnswerRefused, match="settled already: declined"):
            room.desk.wants.decline(waiting.id, None)
    refused: Any = asking.result()
    again: Any = await room.desk.wants.ask(want(number=2, session="se_2", caller=market.agent(4712)))

    assert ("declined", True) == (refused.code, "Not that one." in refused.message)
    assert "denied_recently" == again.code
    with pytest.raises(AnswerRefused, match="no such request"):
        room.desk.wants.decline("cr_none", None)
    room.clock.advance(seconds=market.POLICY.limits.denial_memory_s)
    async with asyncio.TaskGroup() as tasks:
        await room.put(tasks, want(number=3))
        room.desk.void(Happening.STOPPING)


async def test_wishes_and_cards_use_up_the_same_budget() -> None:
    room = Room()
    limits = Limits(prompts_per_minute=2)

    def few(asked: Want) -> Want:
        return replace(asked, policy=replace(asked.policy, limits=limits))

    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, question(limits=limits))
        await room.card()
        await room.put(tasks, few(want(number=2)))
        over: Any = await room.desk.wants.ask(few(want(number=3, credential="d")))
        room.desk.void(Happening.STOPPING)
    muted: Any = await room.desk.wants.ask(want(number=4, muted=True))

    assert ["muted", "muted"] == [over.code, muted.code]
    assert [("se_1", "2 cards in a minute")] == room.mutes


async def test_the_users_own_budget_mutes_nobody() -> None:
    room = Room()
    limits = Limits(prompts_per_minute=1)
    async with asyncio.TaskGroup() as tasks:
        for number in range(1, 5):
            caller = market.agent(4711 + number, name=f"agent-{number}")
            asked = want(number=number, session=f"se_{number}", caller=caller)
            await room.put(tasks, replace(asked, policy=replace(asked.policy, limits=limits)))
        last = want(number=9, session="se_9", caller=market.agent(4799, name="agent-9"))
        over: Any = await room.desk.wants.ask(replace(last, policy=replace(last.policy, limits=limits)))
        room.desk.void(Happening.STOPPING)

    assert ("local_limit", []) == (over.code, room.mutes)


async def test_what_is_listed_holds_no_word_of_the_agent_and_is_bounded() -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        for number in range(SETTLED_KEPT + 3):
            room.clock.advance(seconds=60)
            await room.put(tasks, want(number=number + 1))
            room.desk.void(Happening.SESSION_ENDED)
        _, waiting = await room.put(tasks, want(number=99))
        listed = room.desk.wants.listing()
        shown = whole(waiting)
        room.desk.void(Happening.STOPPING)

    assert SETTLED_KEPT + 1 == len(listed)
    assert "to look" not in str(listed)
    assert ("to look", [market.BASE_URL], False) == (shown["purpose"], shown["origins"], shown["is_ssh"])


async def test_a_dead_log_shows_no_wish_and_ends_those_there_are() -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        asking, _ = await room.put(tasks, want())
        room.audit.broken = True
        room.desk.void(Happening.LOCKED)

    refused: Any = asking.result()
    assert "locked" == refused.code

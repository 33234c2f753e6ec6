"""Cards: who they wait for, what settles them, and that each has one end on record."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.approvals import desk as desk_module
from broker.approvals.answers import Answer, AnswerRefused
from broker.approvals.desk import REFUSED_RECORDED
from broker.approvals.waiting import Waiting
from broker.contract.reasons import ApprovalState
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.policy.model import Limits
from broker.ports import Approved, AuditUnwritable, Chosen, Declined, Joined, Question
from tests.fakes import market
from tests.fakes.questions import ME, DeskRoom, question

DENY = Answer(decision="deny", reason="Not on a Friday.")


class Beset(DeskRoom):
    """A desk at which things happen while an answer is being recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Any] = []
        append = self.audit.append

        async def slowly(event: Any) -> Any:
            for happen in self.meanwhile:
                happen()
            await asyncio.sleep(0)
            return await append(event)

        self.audit.append = slowly  # type: ignore[method-assign]  # the disk takes its time


def hasty() -> Question:
    """A question whose time is over at once, sooner than a policy may say."""
    asked = question()
    return replace(asked, ask=replace(asked.ask, rule=replace(asked.ask.rule, expires_s=0)))


def outcome(task: "asyncio.Task[Approved | Chosen | Declined | Joined]") -> Any:
    return task.result()


async def test_a_yes_lets_the_request_on() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        answered = await room.desk.answer(card.id, room.yes(card.id), ME)

    assert Approved(approval_id=card.id, scope="once") == outcome(asking)
    assert ApprovalState.APPROVED is answered.state
    assert [("approval.requested", None), ("approval.decided", "approve")] == room.records()
    assert [(card.id, "pending"), (card.id, "approved")] == room.changes


async def test_the_record_of_a_yes_can_be_checked_by_anyone() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        said = room.yes(card.id, reason="as agreed")
        await room.desk.answer(card.id, said, ME)

    fields: Any = room.audit.events[-1].fields
    assert said.statement == fields["statement"]
    assert said.signature is not None
    assert said.signature.hex() == fields["signature"]
    assert card.digest == fields["card"] == fields["statement"]["card_digest"]
    assert room.desk._verify(b"x", said.signature) is None
    assert "as agreed" == fields["reason"]


async def test_a_no_is_delivered_with_its_reason() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        await room.desk.answer(card.id, DENY, ("anybody",))

    refused = outcome(asking)
    assert ("call_denied", "declined", False) == (refused.refusal.category, refused.refusal.code, refused.expired)
    assert "Not on a Friday." in refused.refusal.message
    assert [("approval.requested", None), ("approval.decided", "deny")] == room.records()


async def test_what_was_denied_is_not_asked_again_for_a_while() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        card = await room.card()
        await room.desk.answer(card.id, DENY, ME)

    again = await room.desk.ask(question(number=2, session="se_2", caller=market.agent(4712)))
    assert isinstance(again, Declined)
    assert "denied_recently" == again.refusal.code
    room.clock.advance(seconds=market.POLICY.limits.denial_memory_s + 1)
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, question(number=3))
        await room.card(2)
        room.desk.void(Happening.STOPPING)


async def test_the_same_request_joins_the_card_that_waits() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        first = room.asking(tasks)
        card = await room.card()
        assert Joined(leader=question().correlation_id) == await room.desk.ask(question(number=2))
        other = room.asking(tasks, question(number=3, session="se_2", caller=market.agent(4712)))
        await room.card(2)
        assert [f"op_{number:044x}" for number in (1, 2, 3)] == room.waiting, "a human is asked about each"
        room.desk.void(Happening.LOCKED)

    assert 2 == card.joined
    assert isinstance(outcome(first), Declined)
    assert isinstance(outcome(other), Declined)


@pytest.mark.parametrize(
    ("seen", "code"),
    [("by nobody", "no_approver"), ("in a list", "approval_expired"), ("as a card", "approval_expired")],
)
async def test_a_card_expires_and_says_whether_anybody_could_have_seen_it(seen: str, code: str) -> None:
    room = DeskRoom()
    room.present = seen == "in a list"
    asked = hasty()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks, asked)
        card = await room.card()
        if seen == "as a card":
            room.desk.served(card.id, ME)

    refused = outcome(asking)
    assert (code, True) == (refused.refusal.code, refused.expired)
    assert [("approval.requested", None), ("approval.decided", "expired")] == room.records()
    with pytest.raises(AnswerRefused, match="settled already"):
        await room.desk.answer(card.id, DENY, ME)


@pytest.mark.parametrize(
    ("happening", "category", "code"),
    [
        (Happening.LOCKED, "vault_locked", "locked"),
        (Happening.FROZEN, "broker_unavailable", "frozen"),
        (Happening.SESSION_ENDED, "session_denied", "session_ended"),
        (Happening.POLICY_CHANGED, "approval_timeout", "approval_void"),
        (Happening.CREDENTIAL_CHANGED, "approval_timeout", "approval_void"),
        (Happening.STOPPING, "broker_unavailable", "shutting_down"),
    ],
)
async def test_what_voids_a_card_decides_what_the_agent_is_told(happening: Happening, category: str, code: str) -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        assert 0 == room.desk.void(happening, session_id="se_other")
        assert 0 == room.desk.void(happening, credential="other")
        assert 1 == room.desk.void(happening, session_id="se_1", credential="market")
        assert 0 == room.desk.void(happening)

    refused = outcome(asking)
    assert (category, code) == (refused.refusal.category, refused.refusal.code)
    assert [("approval.requested", None), ("approval.decided", happening.value)] == room.records()
    assert happening is card.ended_by


async def test_cards_are_voided_though_the_audit_log_is_dead() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = [room.asking(tasks), room.asking(tasks, question(market.CANCEL, number=2))]
        await room.card(2)
        room.audit.broken = True
        assert 2 == room.desk.void(Happening.LOCKED)

    assert ["locked", "locked"] == [outcome(task).refusal.code for task in asking]


async def test_no_card_is_shown_that_could_not_be_recorded() -> None:
    room = DeskRoom()
    room.audit.break_at(EventName.APPROVAL_REQUESTED)

    with pytest.raises(AuditUnwritable):
        await room.desk.ask(question())
    assert [] == room.desk.listing()


async def test_a_request_is_withdrawn_before_it_was_answered() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        assert not room.desk.withdraw("op_other")
        assert room.desk.withdraw(card.question.correlation_id)
        assert not room.desk.withdraw(card.question.correlation_id)

    assert "withdrawn" == outcome(asking).refusal.code


async def test_two_answers_at_once_have_one_effect_and_one_record() -> None:
    room = Beset()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        yes = tasks.create_task(room.desk.answer(card.id, room.yes(card.id), ME))
        await asyncio.sleep(0)
        with pytest.raises(AnswerRefused) as late:
            await room.desk.answer(card.id, DENY, ME)
        await yes

    assert "settled" == late.value.code
    assert isinstance(outcome(asking), Approved)
    assert ["approve"] == [what for name, what in room.records() if name == "approval.decided"]


async def test_nothing_goes_on_before_the_answer_is_on_record() -> None:
    room = Beset()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        room.meanwhile = [lambda: seen.append(asking.done()), lambda: seen.append(card.settled.done())]
        seen: list[bool] = []
        await room.desk.answer(card.id, room.yes(card.id), ME)

    assert [False, False] == seen


async def test_what_happens_while_a_yes_is_recorded_leaves_one_decision_on_record() -> None:
    """The yes came first; whether it still holds is looked at once more before anything is sent."""
    room = Beset()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        room.meanwhile = [lambda: room.desk.void(Happening.LOCKED)]
        await room.desk.answer(card.id, room.yes(card.id), ME)

    assert isinstance(outcome(asking), Approved)
    assert ["approve"] == [what for name, what in room.records() if name == "approval.decided"]


async def test_a_yes_in_the_last_moment_is_waited_for() -> None:
    room = Beset()
    asked = hasty()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks, asked)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        recorded = asyncio.Event()
        append = room.audit.append

        async def late(event: Any) -> Any:
            await recorded.wait()
            return await append(event)

        room.audit.append = late  # type: ignore[method-assign]  # the disk takes its time
        answering = tasks.create_task(room.desk.answer(card.id, room.yes(card.id), ME))
        async with asyncio.timeout(60):
            while not card.overdue:  # noqa: ASYNC110 - the desk tells nobody of this
                await asyncio.sleep(0.001)
        assert not asking.done()
        recorded.set()
        await answering

    assert isinstance(outcome(asking), Approved)


async def refused_to_record(room: DeskRoom, answer: Answer, card: Waiting) -> None:
    room.audit.broken = True
    with pytest.raises(AuditUnwritable):
        await room.desk.answer(card.id, answer, ME)


async def test_a_yes_that_can_not_be_recorded_does_not_count() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        await refused_to_record(room, room.yes(card.id), card)
        assert ApprovalState.PENDING is card.state
        assert not asking.done()
        room.desk.void(Happening.STOPPING)

    assert "shutting_down" == outcome(asking).refusal.code


async def test_a_yes_that_fails_to_be_recorded_after_its_time_ends_the_card() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        card.overdue = True
        await refused_to_record(room, room.yes(card.id), card)

    assert ApprovalState.EXPIRED is card.state
    assert isinstance(outcome(asking), Declined)


async def test_a_no_counts_though_it_can_not_be_recorded() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        asking = room.asking(tasks)
        card = await room.card()
        await refused_to_record(room, DENY, card)

    assert "declined" == outcome(asking).refusal.code


async def test_an_answer_that_is_refused_is_on_record() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        card = await room.card()
        with pytest.raises(AnswerRefused, match="look at the card first"):
            await room.desk.answer(card.id, Answer(decision="approve"), ME)
        room.audit.broken = True
        with pytest.raises(AnswerRefused, match="look at the card first"):
            await room.desk.answer(card.id, Answer(decision="approve"), ME)
        room.desk.void(Happening.STOPPING)

    assert ("approval.refused", "control_session_required") == room.records()[1]


async def test_answers_without_end_that_do_not_count_make_no_log_grow() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        card = await room.card()
        for _ in range(REFUSED_RECORDED + 10):
            with pytest.raises(AnswerRefused):
                await room.desk.answer(card.id, Answer(decision="approve"), ME)
        room.desk.void(Happening.STOPPING)

    assert REFUSED_RECORDED == [name for name, _ in room.records()].count("approval.refused")


async def test_there_is_no_answer_to_what_was_never_asked() -> None:
    room = DeskRoom()
    for asked in (room.desk.answer("ap_none", DENY, ME), None):
        with pytest.raises(AnswerRefused) as refused:
            await asked if asked is not None else room.desk.served("ap_none", ME)
        assert "unknown" == refused.value.code


async def test_arming_begins_when_a_card_is_first_shown_to_a_session() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        card = await room.card()
        _, first = room.desk.served(card.id, ME)
        room.arm()

        assert first is room.desk.served(card.id, ME)[1]
        assert first.nonce != room.desk.served(card.id, ("another",))[1].nonce
        room.desk.void(Happening.STOPPING)


async def test_a_muted_session_is_not_asked_for() -> None:
    room = DeskRoom()
    refused = await room.desk.ask(question(muted=True))

    assert [] == room.waiting

    assert isinstance(refused, Declined)
    assert ("session_denied", "muted", False) == (refused.refusal.category, refused.refusal.code, refused.expired)


async def test_too_many_cards_mute_and_identical_ones_do_not_count() -> None:
    room = DeskRoom()
    limits = Limits(pending_cards=1, prompts_per_minute=100)
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, question(limits=limits))
        await room.card()
        assert isinstance(await room.desk.ask(question(number=2, limits=limits)), Joined)
        assert [] == room.mutes
        refused = await room.desk.ask(question(market.CANCEL, number=3, limits=limits))
        room.desk.void(Happening.STOPPING)

    assert isinstance(refused, Declined)
    assert [("se_1", "1 cards wait already")] == room.mutes


async def test_too_many_prompts_a_minute_mute() -> None:
    room = DeskRoom()
    limits = Limits(prompts_per_minute=1)
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, question(limits=limits))
        await room.card()
        refused = await room.desk.ask(question(market.CANCEL, number=2, limits=limits))
        room.desk.void(Happening.STOPPING)

    assert isinstance(refused, Declined)
    assert "muted" == refused.refusal.code
    assert [("se_1", "1 cards in a minute")] == room.mutes


async def test_who_finds_the_users_budget_used_up_is_not_muted_for_it() -> None:
    room = DeskRoom()
    limits = Limits(prompts_per_minute=1)
    async with asyncio.TaskGroup() as tasks:
        for number in range(4):
            who = market.agent(5000 + number, name=f"agent-{number}")
            room.asking(tasks, question(number=number, session=f"se_{number}", caller=who, limits=limits))
            await room.card(number + 1)
        refused = await room.desk.ask(question(number=9, session="se_9", limits=limits))
        room.desk.void(Happening.STOPPING)

    assert isinstance(refused, Declined)
    assert ("broker_unavailable", "local_limit", True) == (
        refused.refusal.category, refused.refusal.code, refused.expired,
    )  # fmt: skip
    assert [] == room.mutes


async def test_settled_cards_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "SETTLED_KEPT", 1)
    room = DeskRoom()
    for number, ask in enumerate((market.CREATE, market.CANCEL, market.JOB), 1):
        async with asyncio.TaskGroup() as tasks:
            room.asking(tasks, question(ask, number=number))
            async with asyncio.timeout(60):
                while room.desk.pending == 0:  # noqa: ASYNC110 - the desk tells of it by a call
                    await asyncio.sleep(0)
            room.desk.void(Happening.STOPPING)

    assert ["market.orders.cancel", "market.jobs.run"] == [row["operation"] for row in room.desk.listing()]
    assert [] == room.desk.listing("pending")


async def test_a_list_shows_names_and_states_and_no_body() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        await room.card()
        (row,) = room.desk.listing("pending")
        room.desk.void(Happening.STOPPING)

    assert ("WRITE", "market.orders.create", "per_call", "pending", 1) == (
        row["effect"],
        row["operation"],
        row["gate"],
        row["state"],
        row["joined"],
    )
    assert "2025-11-14T" in str(row["created_at"])
    assert not {"body", "card", "says"} & set(row)

"""Session grants as the pipeline makes and uses them: what a human saw on the card, and nothing of it later."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.core.approval import Happening
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, gist

Change = Callable[[Flow], None]


async def granted(flow: Flow, ask: HttpAsk = market.LISTING) -> None:
    await flow.ask_and_answer(ask, scope="session")
    assert 1 == len(flow.sessions.grants)


async def asks_again(flow: Flow, ask: HttpAsk = market.LISTING) -> bool:
    """Whether the same request raises a card; it is denied then."""
    before = len(flow.desk.cards)
    received = flow.received(ask)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(flow.perform(received))
        await flow.until(lambda: task.done() or len(flow.desk.cards) > before)
        for card in flow.desk.waiting:
            flow.desk.settle(card, Happening.DENIED)
    return len(flow.desk.cards) > before


async def test_a_yes_for_the_session_is_used_without_asking_until_it_is_used_up() -> None:
    flow = Flow()
    await granted(flow)

    assert [False, False, True] == [await asks_again(flow) for _ in range(3)]
    assert 3 == flow.sessions.grants[0].used


async def test_a_yes_for_once_grants_nothing() -> None:
    flow = Flow()
    await flow.ask_and_answer(market.LISTING, scope="once")

    assert [] == flow.sessions.grants
    assert await asks_again(flow)


async def test_a_grant_ends_with_its_age() -> None:
    flow = Flow()
    await granted(flow)
    flow.clock.advance(seconds=59)
    assert not await asks_again(flow)
    flow.clock.advance(seconds=1)
    assert await asks_again(flow)


def _new_policy(flow: Flow) -> None:
    flow.policies.policy = replace(market.POLICY, digest=market.OTHER_DIGEST)


def _rotate(flow: Flow) -> None:
    flow.vault.put("market", market.TOKEN, market.BASE_URL)


def _other_program(flow: Flow) -> None:
    flow.caller = replace(flow.caller, anchor_process=replace(flow.caller.anchor_process, exe_id=(8, 2)))


@pytest.mark.parametrize("change", [_new_policy, _rotate, _other_program], ids=["policy", "credential", "exec"])
async def test_a_grant_does_not_outlive_what_it_was_given_under(change: Change) -> None:
    flow = Flow()
    await granted(flow)
    change(flow)

    assert await asks_again(flow)


async def test_a_grant_is_one_sessions_own() -> None:
    flow = Flow()
    await granted(flow)
    flow.caller = market.agent(4712)

    assert await asks_again(flow)


async def test_a_grant_ends_with_its_process() -> None:
    flow = Flow()
    await granted(flow)
    flow.sessions.exit(flow.caller)

    assert gist(await flow.ask(market.LISTING))[:2] == ("session_denied", "session_ended")
    assert [] == flow.sessions.grants


async def test_a_rule_for_each_call_makes_no_grant_even_if_the_desk_says_session() -> None:
    flow = Flow()
    await flow.ask_and_answer(market.CREATE, scope="session")

    assert [] == flow.sessions.grants
    assert await asks_again(flow, market.CREATE)


async def test_a_change_in_doubt_is_never_sent_again_under_a_grant() -> None:
    flow = Flow()
    await granted(flow, market.SEND)
    flow.executor.answers.append(market.LOST)
    assert gist(await flow.ask(market.SEND))[0] == "outcome_unknown"  # under the grant, and lost

    assert await asks_again(flow, market.SEND)
    assert 1 == len(flow.desk.cards[-1].question.doubts)


async def test_a_yes_to_a_repeat_in_doubt_makes_no_grant_even_if_the_desk_says_session() -> None:
    flow = Flow()
    await flow.doubt_after_yes(market.SEND)
    await flow.ask_and_answer(market.SEND, scope="session")

    assert [] == flow.sessions.grants


@pytest.mark.parametrize("change", [_new_policy, _rotate], ids=["policy", "credential"])
async def test_a_yes_to_what_has_changed_grants_nothing_of_the_new(change: Change) -> None:
    flow = Flow()
    async with flow.asking(market.LISTING) as (card, answer):
        change(flow)
        flow.desk.settle(card, Happening.APPROVED, scope="session")

    assert gist(answer.result())[:2] == ("approval_timeout", "approval_void")
    assert [] == flow.sessions.grants


async def test_a_grant_is_as_old_as_the_yes() -> None:
    flow = Flow()
    async with flow.asking(market.LISTING) as (card, _):
        flow.clock.advance(seconds=100)
        flow.desk.settle(card, Happening.APPROVED, scope="session")

    assert flow.clock.now_ms() == flow.sessions.grants[0].made_at_ms

"""T03: a yes for the session that was given to something harmless lets nothing through that destroys."""

import asyncio
from dataclasses import replace

from broker.contract.reasons import ApprovalRule
from broker.core.approval import Happening
from broker.core.policy.model import Rule
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow

BROAD = Rule(id="all", approval=ApprovalRule.SESSION, max_uses=9, max_age_s=600, place=market.PLACE)


def flow_under_one_broad_rule() -> Flow:
    flow = Flow()
    flow.policies.policy = replace(market.POLICY, rules=(BROAD,))
    return flow


async def is_asked_about(flow: Flow, ask: HttpAsk) -> bool:
    """Whether the request raises a card, which is denied then."""
    before, sent = len(flow.desk.cards), len(flow.executor.permits)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(flow.perform(flow.received(ask)))
        await flow.until(lambda: task.done() or len(flow.desk.cards) > before)
        for card in flow.desk.waiting:
            flow.desk.settle(card, Happening.DENIED)
    is_asked = len(flow.desk.cards) > before
    assert is_asked is (len(flow.executor.permits) == sent)
    return is_asked


async def test_a_yes_to_a_read_lets_no_deletion_through() -> None:
    flow = flow_under_one_broad_rule()
    await flow.ask_and_answer(market.LISTING, scope="session")

    assert not await is_asked_about(flow, market.READ), "another read rides on it"
    assert await is_asked_about(flow, market.CANCEL)
    assert not await is_asked_about(flow, market.READ)


async def test_a_yes_to_a_deletion_was_given_with_its_word_typed_and_covers_what_the_card_said() -> None:
    flow = flow_under_one_broad_rule()
    await flow.ask_and_answer(market.CANCEL, scope="session")

    assert not await is_asked_about(flow, market.ask("orders.cancel", order="o-8"))
    assert not await is_asked_about(flow, market.READ)

"""The key under which a change goes out is the one that the human was shown, and the one on record."""

from typing import Any

from broker.contract.reasons import ApprovalRule
from broker.core.approval import Happening
from tests.flow.test_safe_repeats import KEY, SET, flow_with


def on_card(card: Any) -> Any:
    return card.drawn["exact"]["idempotency_key"]


async def test_the_key_on_the_card_is_the_key_that_is_sent_and_recorded() -> None:
    flow = flow_with(KEY, approval=ApprovalRule.PER_CALL)
    async with flow.asking(SET) as (card, answer):
        flow.desk.settle(card, Happening.APPROVED)

    (permit,) = flow.executor.permits
    (started,) = [event for event in flow.audit.trail(flow.last) if event.name == "dispatch.started"]
    assert "success" == answer.result()["category"]
    assert on_card(card)
    assert on_card(card) == permit.idempotency_key == started.fields["idempotency_key"]


async def test_a_repeat_shows_the_key_of_the_first() -> None:
    flow = flow_with(KEY, approval=ApprovalRule.PER_CALL, in_doubt="ask")
    await flow.doubt_after_yes(SET)
    async with flow.asking(SET) as (card, _):
        flow.desk.settle(card, Happening.APPROVED)

    first, again = flow.executor.permits
    assert first.idempotency_key == again.idempotency_key == on_card(card)


async def test_a_key_that_was_forgotten_while_the_card_waited_is_not_sent() -> None:
    flow = flow_with(KEY, approval=ApprovalRule.PER_CALL, in_doubt="ask")
    await flow.doubt_after_yes(SET)
    async with flow.asking(SET) as (card, _):
        flow.clock.advance(seconds=3600)
        flow.desk.settle(card, Happening.APPROVED)

    first, again = flow.executor.permits
    assert first.idempotency_key == on_card(card)
    assert on_card(card) != again.idempotency_key

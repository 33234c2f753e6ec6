"""Changes in doubt: refused by default, shown where a rule asks, and never sent past a doubt that no card showed."""

import asyncio

import pytest

from broker.core.approval import Happening
from broker.core.ledger import AttemptState
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist

REFUSED = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")


@pytest.mark.parametrize(
    "raw",
    [
        market.LOST,
        market.TIMED_OUT,
        market.failed(Fault.WRITE_TIMEOUT, Phase.HEADERS_SENT),
        market.failed(Fault.TOTAL_TIMEOUT, Phase.BODY_SENT, sent=20),
        market.failed(Fault.INTERNAL, Phase.BODY_SENT, sent=20),
        market.answered(500),
        market.answered(303),
        market.answered(200, b"{", fault=Fault.TRUNCATED),
    ],
    ids=["lost", "no answer", "half written", "over time", "our fault", "500", "303", "cut"],
)
async def test_a_write_that_nothing_settles_is_in_doubt_and_not_repeated(raw: RawOutcome) -> None:
    flow = Flow()
    flow.executor.answers.append(raw)
    first = await flow.ask(market.TIP)
    doubt = flow.last

    assert first["remote_effect"] == "unknown"
    assert AttemptState.IN_DOUBT is flow.ledger.state(doubt)
    again = await flow.ask(market.TIP)
    assert REFUSED == gist(again)
    assert (doubt, f"doorward reconcile {doubt}") == (
        again["previous_correlation_id"], as_json(again)["next"]["command"],
    )  # fmt: skip
    assert 1 == len(flow.executor.permits)


@pytest.mark.parametrize(
    "raw",
    [
        market.answered(201),
        market.answered(202),
        market.answered(409),
        market.answered(401),
        market.answered(429),
        market.REFUSED,
        market.failed(Fault.TLS_NAME, Phase.CONNECTING),
    ],
    ids=["201", "202", "409", "401", "429", "not reached", "tls"],
)
async def test_a_write_that_is_settled_may_be_made_again(raw: RawOutcome) -> None:
    flow = Flow()
    flow.executor.answers.append(raw)
    await flow.ask(market.TIP)

    assert AttemptState.DONE is flow.ledger.state(flow.last)
    assert gist(await flow.ask(market.TIP))[:2] == ("success", "ok")


async def test_reads_go_on_while_a_change_is_in_doubt() -> None:
    flow = Flow()
    await flow.doubt()

    assert gist(await flow.ask(market.READ))[:2] == ("success", "ok")


async def test_another_change_goes_on_while_one_is_in_doubt() -> None:
    flow = Flow()
    await flow.doubt()

    assert gist(await flow.ask(market.AD_HOC))[:2] == ("success", "ok")


async def test_what_was_settled_may_be_made_again() -> None:
    flow = Flow()
    flow.ledger.settle(await flow.doubt())

    assert gist(await flow.ask(market.TIP))[:2] == ("success", "ok")


async def test_a_repeat_is_refused_without_a_card_unless_the_rule_says_ask() -> None:
    flow = Flow()
    await flow.doubt_after_yes(market.CREATE)

    assert REFUSED == gist(await flow.ask(market.CREATE))
    assert 1 == len(flow.desk.cards)


async def test_where_the_rule_says_ask_the_card_shows_the_doubt_and_the_record_that_a_human_chose() -> None:
    flow = Flow()
    doubt = await flow.doubt_after_yes(market.SEND)
    async with flow.asking(market.SEND) as (card, answer):
        flow.desk.settle(card, Happening.APPROVED)
    started = next(event for event in flow.audit.trail(flow.last) if event.name == "dispatch.started")

    assert [doubt] == [shown["correlation_id"] for shown in as_json(card.drawn)["doubts"]]
    assert card.drawn["typed_word"] == "n1"
    assert gist(answer.result())[:2] == ("success", "ok")
    assert [doubt] == started.fields["doubts"]
    assert AttemptState.IN_DOUBT is flow.ledger.state(doubt)  # the first stays as it is


async def test_a_conflict_after_a_doubt_of_ours_may_be_our_own_first_attempt() -> None:
    flow = Flow()
    await flow.doubt_after_yes(market.SEND)
    flow.executor.answers.append(market.answered(409))
    envelope = await flow.ask_and_answer(market.SEND)

    assert gist(envelope)[:2] == ("outcome_unknown", "in_progress_conflict")
    assert AttemptState.IN_DOUBT is flow.ledger.state(flow.last)


@pytest.mark.parametrize(
    ("first", "second"),
    [(market.CREATE, market.ask("orders.create", stall="s1", name="leek", note="other")), (market.SEND, market.SEND)],
    ids=["refused rule", "asking rule"],
)
async def test_a_yes_does_not_carry_past_a_doubt_that_came_up_while_the_card_waited(
    first: HttpAsk, second: HttpAsk
) -> None:
    flow = Flow()
    async with (
        flow.asking(first) as (one, lost),
        flow.asking(second, caller=market.agent(4712)) as (other, repeated),
    ):
        flow.executor.answers.append(market.LOST)
        flow.desk.settle(one, Happening.APPROVED)
        await flow.until(lost.done)
        flow.desk.settle(other, Happening.APPROVED, scope="session")

    assert lost.result()["category"] == "outcome_unknown"
    assert REFUSED == gist(repeated.result())
    assert lost.result()["correlation_id"] == repeated.result()["previous_correlation_id"]
    assert 1 == len(flow.executor.permits)
    assert [] == flow.sessions.grants


async def test_an_interrupted_change_is_in_doubt_after_the_start() -> None:
    flow = Flow()
    flow.executor.may_answer.clear()
    received = flow.received(market.TIP)
    flow.runs.start(received.correlation_id)
    async with asyncio.TaskGroup() as tasks:
        killed = tasks.create_task(flow.pipeline.perform(received))
        await flow.until(lambda: len(flow.executor.permits) == 1)
        killed.cancel()
    flow.ledger.interrupt()

    assert REFUSED == gist(await flow.ask(market.TIP))

"""Repeats by request id: the recorded envelope, byte for byte, and nothing sent; another request is a conflict."""

import asyncio
from dataclasses import replace

import pytest

from broker.contract.wire import dump
from broker.core.approval import Happening
from broker.core.ledger import AttemptState
from broker.core.outcome import RawOutcome
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist

CONFLICT = ("invalid_request", "request_id_conflict", "never", "none")


@pytest.mark.parametrize(
    ("ask", "raw"),
    [
        (market.TIP, market.answered(201)),
        (market.TIP, market.answered(422)),
        (market.TIP, market.LOST),
        (market.TIP, market.REFUSED),
        (market.READ, market.answered(200, b'{"price":1.10,"b":1,"a":[2.50]}')),
        (market.READ, market.TIMED_OUT),
        (market.AD_HOC, market.answered(202)),
    ],
    ids=["made", "refused there", "lost", "not sent", "read", "timed out", "accepted"],
)
async def test_the_same_id_with_the_same_request_is_told_the_same_bytes_and_sends_nothing(
    ask: HttpAsk, raw: RawOutcome
) -> None:
    flow = Flow()
    flow.executor.answers.append(raw)
    first = await flow.ask(ask, request_id="r1")
    again = await flow.ask(ask, request_id="r1")

    assert dump(first) == dump(again)
    assert 1 == len(flow.executor.permits)
    assert ["action.requested", "policy.decided", "action.result"] == flow.audit.names(flow.last)
    end = flow.audit.trail(flow.last)[-1]
    assert ({"recorded": first["correlation_id"]}, "se_1") == (end.fields, end.session_id)


async def test_the_same_id_with_another_request_conflicts() -> None:
    flow = Flow()
    await flow.ask(market.TIP, request_id="r1")

    assert CONFLICT == gist(await flow.ask(market.READ, request_id="r1"))
    assert 1 == len(flow.executor.permits)


async def test_a_request_may_be_made_under_many_ids_and_an_id_by_many_anchors() -> None:
    flow = Flow()
    await flow.ask(market.TIP, request_id="r1")
    await flow.ask(market.TIP, request_id="r2")
    await flow.ask(market.READ, request_id="r1", caller=market.agent(4712))

    assert 3 == len(flow.executor.permits)


async def test_without_an_id_a_request_is_a_new_one() -> None:
    flow = Flow()
    await flow.ask(market.TIP)
    await flow.ask(market.TIP)

    assert 2 == len(flow.executor.permits)


async def test_a_read_without_an_id_is_not_kept() -> None:
    flow = Flow()
    await flow.ask(market.READ)

    assert [] == flow.ledger.attempts


@pytest.mark.parametrize("other", [False, True], ids=["the same", "another"])
async def test_a_repeat_while_the_first_still_runs_waits_for_it_or_conflicts(*, other: bool) -> None:
    flow = Flow()
    flow.executor.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(flow.ask(market.TIP, request_id="r1"))
        await flow.until(lambda: len(flow.executor.permits) == 1)
        second = tasks.create_task(flow.ask(market.READ if other else market.TIP, request_id="r1"))
        if not other:
            await flow.until(lambda: len(flow.runs.runs) == 2)
            assert not second.done()
        else:
            await flow.until(second.done)
        flow.executor.may_answer.set()

    if other:
        assert CONFLICT == gist(second.result())
    else:
        assert dump(first.result()) == dump(second.result())
    assert 1 == len(flow.executor.permits)


async def test_a_repeat_while_the_firsts_card_waits_shares_its_denial() -> None:
    flow = Flow()
    async with flow.asking(market.CREATE, request_id="r1") as (card, first), asyncio.TaskGroup() as tasks:
        second = tasks.create_task(flow.ask(market.CREATE, request_id="r1"))
        await flow.until(lambda: len(flow.runs.runs) == 2)
        flow.desk.settle(card, Happening.DENIED)

    assert gist(first.result())[:2] == ("call_denied", "declined")
    assert dump(first.result()) == dump(second.result())
    assert 1 == len(flow.desk.cards)


@pytest.mark.parametrize("happening", [Happening.EXPIRED, Happening.DENIED, Happening.LOCKED])
async def test_what_was_refused_before_it_was_sent_may_be_asked_again_under_its_id(happening: Happening) -> None:
    flow = Flow()
    await flow.ask_and_answer(market.CREATE, happening, request_id="r1")
    envelope = await flow.ask_and_answer(market.CREATE, request_id="r1")

    assert gist(envelope)[:2] == ("success", "ok")
    assert 1 == len(flow.executor.permits)


async def test_a_recorded_answer_is_given_only_while_the_policy_still_lets_the_agent_ask() -> None:
    flow = Flow()
    await flow.ask(market.TIP, request_id="r1")
    flow.policies.policy = replace(market.POLICY, digest=market.OTHER_DIGEST, rules=())

    assert gist(await flow.ask(market.TIP, request_id="r1"))[0] == "policy_denied"


async def test_after_a_crash_a_change_is_told_as_unknown_and_not_made_again() -> None:
    flow = Flow()
    received = flow.received(market.TIP, request_id="r1")
    flow.runs.start(received.correlation_id)
    flow.executor.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        killed = tasks.create_task(flow.pipeline.perform(received))
        await flow.until(lambda: len(flow.executor.permits) == 1)
        killed.cancel()
    flow.runs.end(received.correlation_id, None)
    flow.ledger.interrupt()
    flow.executor.may_answer.set()
    again = await flow.ask(market.TIP, request_id="r1")

    assert gist(again) == ("outcome_unknown", "unrecorded", "reconcile_first", "unknown")
    assert received.correlation_id == again["correlation_id"]
    assert 1 == len(flow.executor.permits)


async def test_an_attempt_whose_end_was_never_written_is_not_taken_for_one_that_did_nothing() -> None:
    flow = Flow()
    flow.executor.during = lambda: setattr(flow.ledger, "fault", RuntimeError("disk"))
    with pytest.raises(RuntimeError):
        await flow.ask(market.TIP, request_id="r1")
    assert AttemptState.RUNNING is flow.ledger.state(flow.last)

    assert gist(await flow.ask(market.TIP, request_id="r1")) == (
        "outcome_unknown", "unrecorded", "reconcile_first", "unknown",
    )  # fmt: skip
    assert 1 == len(flow.executor.permits)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (market.TIP, ("broker_unavailable", "internal", "reconcile_first", "unknown")),
        (market.READ, ("broker_unavailable", "internal", "after_human", "none")),
    ],
)
async def test_a_repeat_of_a_run_that_ended_without_an_answer_says_what_is_known(
    ask: HttpAsk, told: tuple[str, str, str, str]
) -> None:
    flow = Flow()
    flow.executor.answers.append(RuntimeError("a bug"))
    flow.executor.may_answer.clear()

    async def let_it_break() -> None:
        await flow.until(lambda: len(flow.runs.runs) == 2)
        flow.executor.may_answer.set()

    leader = flow.received(ask, request_id="r1")
    first, second, _ = await asyncio.gather(
        flow.perform(leader), flow.ask(ask, request_id="r1"), let_it_break(), return_exceptions=True
    )

    assert isinstance(first, RuntimeError)
    assert isinstance(second, dict)
    assert told == gist(second)
    assert 1 == len(flow.executor.permits)
    if told[2] == "reconcile_first":
        assert f"doorward reconcile {leader.correlation_id}" == as_json(second)["next"]["command"]

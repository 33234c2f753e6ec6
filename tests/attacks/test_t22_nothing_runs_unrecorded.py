"""T22, the pipeline's part: a log that can't be written stops everything, and what was sent is told as unknown."""

import pytest

from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.ledger import AttemptState
from broker.core.outcome import RawOutcome
from broker.core.resolve import HttpAsk
from broker.ports import AuditUnwritable
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist

NOT_SENT = ("broker_unavailable", "audit_unwritable", "after_human", "none")
UNKNOWN = ("broker_unavailable", "audit_unwritable", "reconcile_first", "unknown")


@pytest.mark.parametrize("name", [EventName.ACTION_REQUESTED, EventName.POLICY_DECIDED])
@pytest.mark.parametrize("ask", [market.READ, market.TIP])
async def test_a_request_that_can_not_be_recorded_is_not_begun(ask: HttpAsk, name: EventName) -> None:
    flow = Flow()
    flow.audit.break_at(name)

    assert NOT_SENT == gist(await flow.ask(ask))
    assert ([], []) == (flow.executor.permits, flow.ledger.attempts)


@pytest.mark.parametrize("ask", [market.READ, market.TIP])
async def test_an_intent_that_can_not_be_recorded_is_not_carried_out(ask: HttpAsk) -> None:
    flow = Flow()
    flow.audit.break_at(EventName.DISPATCH_STARTED)
    envelope = await flow.ask(ask)

    assert NOT_SENT == gist(envelope)
    assert [] == flow.executor.permits
    assert not flow.runs.runs[flow.last].sent
    assert envelope["operation"] is not None
    assert as_json(envelope)["next"]["command"] == "doorward doctor"


async def test_an_attempt_that_was_not_carried_out_is_not_in_doubt() -> None:
    flow = Flow()
    flow.audit.break_at(EventName.DISPATCH_STARTED)
    await flow.ask(market.TIP)

    assert flow.ledger.state(flow.last) is None


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        (EventName.REMOTE_ANSWERED, market.answered(201)),
        (EventName.TRANSPORT_FAILED, market.LOST),
        (EventName.DEADLINE_EXPIRED, market.TIMED_OUT),
        (EventName.ACTION_RESULT, market.answered(201)),
        (EventName.ACTION_RESULT, market.answered(422)),
        (EventName.ACTION_RESULT, market.LOST),
    ],
)
@pytest.mark.parametrize("request_id", [None, "r1"])
async def test_a_change_whose_outcome_can_not_be_recorded_is_unknown_and_in_doubt(
    name: EventName, raw: RawOutcome, request_id: str | None
) -> None:
    flow = Flow()
    flow.executor.answers.append(raw)
    flow.audit.break_at(name)
    envelope = await flow.ask(market.TIP, request_id=request_id)

    assert UNKNOWN == gist(envelope)
    assert AttemptState.IN_DOUBT is flow.ledger.state(flow.last)
    assert f"doorward reconcile {flow.last}" == as_json(envelope)["next"]["command"]
    assert envelope["http"] is None  # nothing of the answer without its record


@pytest.mark.parametrize("name", [EventName.REMOTE_ANSWERED, EventName.ACTION_RESULT])
@pytest.mark.parametrize(("request_id", "state"), [(None, None), ("r1", AttemptState.DONE)])
async def test_a_read_whose_outcome_can_not_be_recorded_has_no_effect_and_no_answer(
    name: EventName, request_id: str | None, state: AttemptState | None
) -> None:
    flow = Flow()
    flow.audit.break_at(name)
    envelope = await flow.ask(market.READ, request_id=request_id)

    assert NOT_SENT == gist(envelope)
    assert envelope["http"] is None
    assert state is flow.ledger.state(flow.last)


@pytest.mark.parametrize("ask", [market.FORBIDDEN, HttpAsk(service="nowhere", operation="x", args={})])
async def test_even_a_refusal_is_given_only_on_record(ask: HttpAsk) -> None:
    flow = Flow()
    flow.audit.break_at(EventName.ACTION_RESULT)

    assert NOT_SENT == gist(await flow.ask(ask))


async def test_a_refused_repeat_still_says_that_the_change_may_have_been_made() -> None:
    flow = Flow()
    doubt = await flow.doubt()
    flow.audit.break_at(EventName.ACTION_RESULT)
    envelope = await flow.ask(market.TIP)

    assert UNKNOWN == gist(envelope)
    assert f"doorward reconcile {doubt}" == as_json(envelope)["next"]["command"]


@pytest.mark.parametrize(
    ("ask", "told"), [(market.TIP, UNKNOWN), (market.READ, NOT_SENT)]
)  # fmt: skip
async def test_a_recorded_answer_that_can_not_be_given_again_does_not_deny_what_was_done(
    ask: HttpAsk, told: tuple[str, str, str, str]
) -> None:
    flow = Flow()
    first = await flow.ask(ask, request_id="r1")
    flow.audit.break_at(EventName.ACTION_RESULT)
    envelope = await flow.ask(ask, request_id="r1")

    assert told == gist(envelope)
    assert first["correlation_id"] == envelope["previous_correlation_id"]


async def test_a_card_that_can_not_be_recorded_is_not_put() -> None:
    flow = Flow()
    flow.audit.break_at(EventName.APPROVAL_REQUESTED)

    assert NOT_SENT == gist(await flow.ask(market.CREATE))
    assert [] == flow.desk.cards


async def test_a_yes_on_a_dead_log_sends_nothing() -> None:
    flow = Flow()
    async with flow.asking(market.CREATE) as (card, answer):
        flow.audit.break_at(EventName.APPROVAL_DECIDED)
        with pytest.raises(AuditUnwritable):
            flow.desk.settle(card, Happening.APPROVED)

    assert NOT_SENT == gist(answer.result())
    assert [] == flow.executor.permits


async def test_after_one_failure_nothing_runs_any_more() -> None:
    flow = Flow()
    flow.audit.break_at(EventName.ACTION_RESULT)
    await flow.ask(market.TIP)
    recorded = len(flow.audit.events)

    for ask in (market.READ, market.TIP, market.LISTING, market.CREATE, market.FORBIDDEN):
        assert NOT_SENT == gist(await flow.ask(ask))
    assert (1, recorded) == (len(flow.executor.permits), len(flow.audit.events))

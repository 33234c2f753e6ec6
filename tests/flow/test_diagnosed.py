"""What was no success is kept before the record that names it, and what can't be kept costs nothing else."""

import pytest

from broker.contract.wire import JsonObject, dump
from broker.core.events import EventName
from broker.core.outcome import Fault, RawOutcome
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist

TEXT = ("content-type", "text/plain")
FAILURES = [
    market.answered(500),
    market.answered(404),
    market.answered(202),
    market.answered(200, b"{,"),
    market.answered(200, b"{", fault=Fault.TRUNCATED),
    market.LOST,
    market.REFUSED,
    market.TIMED_OUT,
]


def ended(flow: Flow) -> JsonObject:
    (event,) = [event for event in flow.audit.events if event.name is EventName.ACTION_RESULT]
    return event.fields


@pytest.mark.parametrize("raw", FAILURES)
async def test_a_failure_is_kept_and_named_in_the_answer_and_in_the_record(raw: RawOutcome) -> None:
    flow = Flow()
    flow.executor.answers.append(raw)
    envelope = await flow.ask(market.TIP)
    ((reference, kept),) = flow.diagnostics.items.items()

    assert reference == envelope["diagnostics_ref"] == ended(flow)["diagnostics_ref"]
    assert (envelope["category"], envelope["code"], flow.last, "market.tips.give") == (
        kept["category"], kept["code"], kept["correlation_id"], kept["operation"],
    )  # fmt: skip
    assert flow.executor.permits[0].frozen.digest == kept["request_digest"]


async def test_a_success_and_a_refusal_leave_nothing_to_look_at() -> None:
    flow = Flow()
    for ask in (market.TIP, market.FORBIDDEN):
        assert None is (await flow.ask(ask))["diagnostics_ref"]

    assert {} == flow.diagnostics.items


async def test_it_is_there_before_the_record_that_names_it() -> None:
    flow = Flow()
    flow.executor.answers.append(market.answered(500))
    seen: list[tuple[int, str]] = []
    keep = flow.diagnostics.keep

    async def watched(correlation_id: str, details: JsonObject) -> str | None:
        seen.append((len(flow.audit.events), flow.audit.events[-1].name.value))
        return await keep(correlation_id, details)

    flow.diagnostics.keep = watched  # type: ignore[method-assign]  # the same, and looked on
    await flow.ask(market.TIP)

    assert "dispatch.started" == seen[0][1]
    assert ["remote.answered", "action.result"] == flow.audit.names(flow.last)[-2:]


@pytest.mark.parametrize("raw", FAILURES)
async def test_a_store_that_fails_changes_nothing_but_the_reference(raw: RawOutcome) -> None:
    told = []
    for is_broken in (False, True):
        flow = Flow()
        flow.diagnostics.is_broken = is_broken
        flow.executor.answers.append(raw)
        told.append(as_json(await flow.ask(market.TIP)))
    assert None is told[1]["diagnostics_ref"]
    assert {**told[0], "diagnostics_ref": None} == told[1]


async def test_a_result_that_is_given_again_names_the_same_details() -> None:
    flow = Flow()
    flow.executor.answers.append(market.answered(404))
    first = await flow.ask(market.TIP, request_id="r1")
    again = await flow.ask(market.TIP, request_id="r1")

    assert dump(first) == dump(again)
    assert 1 == len(flow.diagnostics.items)


async def test_where_the_outcome_can_not_be_recorded_the_details_are_an_orphan() -> None:
    flow = Flow()
    flow.executor.answers.append(market.answered(500))
    flow.audit.break_at(EventName.ACTION_RESULT)
    envelope = await flow.ask(market.TIP)

    assert ("broker_unavailable", "audit_unwritable") == gist(envelope)[:2]
    assert None is envelope["diagnostics_ref"]
    assert 1 == len(flow.diagnostics.items)

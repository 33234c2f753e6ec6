"""Every record that can fail, under a write, a read and a repeat: who is told what, and what the ledger keeps."""

import pytest

from broker.core.events import EventName
from broker.core.ledger import AttemptState
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, gist

BEFORE = {EventName.ACTION_REQUESTED, EventName.POLICY_DECIDED}
RECORDS = [*sorted(BEFORE), EventName.DISPATCH_STARTED, EventName.REMOTE_ANSWERED, EventName.ACTION_RESULT]


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize(("ask", "request_id"), [(market.TIP, None), (market.READ, None), (market.READ, "r1")])
async def test_whatever_record_fails_the_answer_and_the_ledger_say_what_is_known(
    name: EventName, ask: HttpAsk, request_id: str | None
) -> None:
    flow = Flow()
    flow.audit.break_at(name)
    envelope = await flow.ask(ask, request_id=request_id)
    is_sent = name in {EventName.REMOTE_ANSWERED, EventName.ACTION_RESULT}
    is_unknown = is_sent and ask is market.TIP
    is_tracked = is_sent and (ask is market.TIP or request_id is not None)

    assert is_sent is (len(flow.executor.permits) == 1)
    assert ("reconcile_first", "unknown") == gist(envelope)[2:] if is_unknown else gist(envelope)[3] == "none"
    assert (AttemptState.IN_DOUBT if is_unknown else AttemptState.DONE if is_tracked else None) is (
        flow.ledger.state(flow.last)
    )


async def test_what_came_to_nothing_for_the_logs_sake_is_no_outcome_of_its_request_id() -> None:
    flow = Flow()
    flow.audit.break_at(EventName.DISPATCH_STARTED)
    assert "audit_unwritable" == gist(await flow.ask(market.TIP, request_id="r1"))[1]
    flow.audit.mend()

    assert ("success", "ok") == gist(await flow.ask(market.TIP, request_id="r1"))[:2]
    assert 1 == len(flow.executor.permits)


async def test_a_freeze_comes_before_everything_but_the_shape() -> None:
    flow = Flow()
    flow.sessions.frozen = True

    assert gist(await flow.ask(market.READ)) == ("broker_unavailable", "frozen", "after_human", "none")


@pytest.mark.parametrize("ask", [market.FORBIDDEN, market.TIP])
async def test_a_refusal_or_a_repeat_that_can_not_be_recorded_is_not_given(ask: HttpAsk) -> None:
    flow = Flow()
    await flow.ask(ask, request_id="r1")
    flow.audit.break_at(EventName.ACTION_RESULT)

    assert gist(await flow.ask(ask, request_id="r1"))[:2] == ("broker_unavailable", "audit_unwritable")

"""Faults of the broker's own: they are raised to who called, and the trail still says how far the request came."""

import pytest

from broker.core.events import EventName
from broker.core.ledger import AttemptState
from broker.ports import LedgerSealed
from tests.fakes import market
from tests.fakes.flow import Flow, gist

BEFORE = ["action.requested", "policy.decided", "action.result"]
SENT = ["action.requested", "policy.decided", "dispatch.started", "transport.failed", "action.result"]


async def test_a_fault_before_the_dispatch_ends_the_trail_and_sends_nothing() -> None:
    flow = Flow()
    flow.ledger.fault = RuntimeError("disk")
    with pytest.raises(RuntimeError, match="disk"):
        await flow.ask(market.TIP)

    assert BEFORE == flow.audit.names(flow.last)
    assert ("broker_unavailable", "internal") == gist_of_end(flow)
    assert [] == flow.executor.permits


async def test_a_fault_in_flight_is_followed_by_a_failed_transport_and_an_end() -> None:
    flow = Flow()
    flow.executor.answers.append(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        await flow.ask(market.TIP)

    assert SENT == flow.audit.names(flow.last)
    assert flow.audit.trail(flow.last)[-2].fields == {"fault": "internal"}
    assert flow.runs.runs[flow.last].sent
    assert AttemptState.RUNNING is flow.ledger.state(flow.last)  # who called closes it as in doubt


async def test_a_fault_after_the_end_adds_no_second_end() -> None:
    flow = Flow()
    flow.executor.during = lambda: setattr(flow.ledger, "fault", RuntimeError("disk"))
    with pytest.raises(RuntimeError, match="disk"):
        await flow.ask(market.TIP)

    assert ["remote.answered", "action.result"] == flow.audit.names(flow.last)[-2:]


@pytest.mark.parametrize("name", [EventName.TRANSPORT_FAILED, EventName.ACTION_RESULT])
async def test_a_fault_on_a_dead_log_is_still_the_fault(name: EventName) -> None:
    flow = Flow()
    flow.executor.answers.append(RuntimeError("a bug"))
    flow.audit.break_at(name)
    with pytest.raises(RuntimeError, match="a bug"):
        await flow.ask(market.TIP)


def gist_of_end(flow: Flow) -> tuple[str, str]:
    end = flow.audit.trail(flow.last)[-1].fields
    return str(end["category"]), str(end["code"])


async def test_others_are_served_after_a_fault() -> None:
    flow = Flow()
    flow.executor.answers.append(RuntimeError("a bug"))
    with pytest.raises(RuntimeError):
        await flow.ask(market.READ)

    assert gist(await flow.ask(market.READ))[:2] == ("success", "ok")


async def test_a_lock_that_sealed_the_ledger_meanwhile_is_told_as_a_lock() -> None:
    flow = Flow()

    def lock() -> None:
        flow.vault.lock()
        raise LedgerSealed

    flow.ledger.meanwhile = lock
    envelope = await flow.ask(market.TIP)

    assert "vault_locked" == gist(envelope)[0]
    assert [] == flow.executor.permits

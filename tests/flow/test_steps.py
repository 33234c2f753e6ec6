from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from broker.core import records
from broker.core.events import EventName
from broker.ports import AuditUnwritable
from broker.steps import Named, Received, Recorded, Stop, Trail
from tests.fakes import market
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import START_MS, SetClock
from tests.fakes.flow import Flow

OP = "op_" + "0" * 44


def trail(audit: MemoryAudit) -> Trail:
    return Trail(audit, SetClock(), OP)


@pytest.mark.parametrize("step", [Received, Named, Stop, Recorded])
def test_what_passes_from_step_to_step_is_a_value(step: type) -> None:
    assert is_dataclass(step)
    assert not hasattr(step, "__dict__") or "__slots__" in vars(step)


def test_a_request_stays_as_it_was_received() -> None:
    received = Flow().received(market.READ)
    for field in fields(received):
        with pytest.raises(FrozenInstanceError):
            setattr(received, field.name, None)


async def test_each_record_names_the_request_and_the_session_once_it_is_known() -> None:
    audit = MemoryAudit()
    written = trail(audit)
    written.post(EventName.ACTION_REQUESTED, {})
    written.session_id = "se_1"
    receipt = await written.append(EventName.ACTION_RESULT, {"code": "ok"})

    assert [(OP, None), (OP, "se_1")] == [(event.correlation_id, event.session_id) for event in audit.events]
    assert {START_MS} == {event.at_ms for event in audit.events}
    assert (EventName.ACTION_RESULT, OP) == (receipt.event, receipt.correlation_id)


@pytest.mark.parametrize(
    ("last", "owed"),
    [
        (EventName.ACTION_REQUESTED, ["action.result"]),
        (EventName.POLICY_DECIDED, ["action.result"]),
        (EventName.DISPATCH_STARTED, ["transport.failed", "action.result"]),
        (EventName.REMOTE_ANSWERED, ["action.result"]),
        (EventName.ACTION_RESULT, []),
    ],
)
async def test_a_trail_knows_what_is_owed(last: EventName, owed: list[str]) -> None:
    audit = MemoryAudit()
    written = trail(audit)
    written.post(last, {})
    await written.close()
    await written.close()

    assert [last.value, *owed] == audit.names(OP)
    if owed:
        assert records.BROKEN == audit.events[-1].fields


async def test_a_dead_log_takes_no_last_word() -> None:
    audit = MemoryAudit()
    written = trail(audit)
    written.post(EventName.DISPATCH_STARTED, {})
    audit.broken = True
    await written.close()

    assert ["dispatch.started"] == audit.names(OP)
    with pytest.raises(AuditUnwritable):
        written.post(EventName.ACTION_RESULT, {})

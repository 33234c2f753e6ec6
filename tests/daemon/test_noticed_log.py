import pytest

from broker.core.events import AuditEvent, EventName
from broker.daemon.noticed_log import NoticedLog
from broker.ports import AuditUnwritable
from tests.fakes.audit_log import MemoryAudit

EVENT = AuditEvent(name=EventName.SESSION_OPENED, at_ms=1, session_id="se_1")


async def test_what_the_log_took_is_told_of_and_nothing_else() -> None:
    log = MemoryAudit()
    noticed: list[AuditEvent] = []
    watched = NoticedLog(log, noticed.append)
    watched.post(EVENT)
    receipt = await watched.append(EVENT)
    log.broken = True
    with pytest.raises(AuditUnwritable):
        watched.post(EVENT)
    with pytest.raises(AuditUnwritable):
        await watched.append(EVENT)

    assert [EVENT, EVENT] == noticed == log.events
    assert EventName.SESSION_OPENED is receipt.event
    assert log.room() == watched.room()

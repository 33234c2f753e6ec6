"""An audit log in memory: every record in order, and a disk that can fail for good."""

import asyncio
import hashlib

from broker.core.events import AuditEvent, EventName, Receipt
from broker.ports import AuditUnwritable


class MemoryAudit:
    """Implements ports.AuditLog. What fails once takes nothing any more, as the real writer."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.has_room = True
        self.broken = False
        self._breaks_at: tuple[EventName, str | None] | None = None
        self._head = b""

    def break_at(self, name: EventName, correlation_id: str | None = None) -> None:
        """The disk fails when this event is written, of that request or of any."""
        self._breaks_at = (name, correlation_id)

    def mend(self) -> None:
        """As a restart over a disk that works again."""
        self.broken, self._breaks_at = False, None

    def post(self, event: AuditEvent) -> None:
        self._take(event)

    async def append(self, event: AuditEvent) -> Receipt:
        self._take(event)
        seq, head = len(self.events), self._head.hex()
        await asyncio.sleep(0)  # others run while the disk is waited for
        return Receipt(seq=seq, head=head, event=event.name, correlation_id=event.correlation_id)

    def room(self) -> bool:
        return self.has_room

    def trail(self, correlation_id: str) -> list[AuditEvent]:
        """The records of one request, in order."""
        return [event for event in self.events if event.correlation_id == correlation_id]

    def names(self, correlation_id: str) -> list[str]:
        return [event.name.value for event in self.trail(correlation_id)]

    def _take(self, event: AuditEvent) -> None:
        self.broken = self.broken or self._breaks_at in {(event.name, None), (event.name, event.correlation_id)}
        if self.broken:
            raise AuditUnwritable("the disk failed")
        self._head = hashlib.sha256(self._head + event.encode()).digest()
        self.events.append(event)

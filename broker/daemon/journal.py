"""The audit log as the pipeline sees it: post, append, room; and one word for everything that keeps it from writing."""

from broker.audit import AuditError
from broker.audit.writer import AuditWriter
from broker.core.events import AuditEvent, Receipt
from broker.ports import AuditUnwritable


class Journal:
    """Implements ports.AuditLog over the writer."""

    def __init__(self, writer: AuditWriter) -> None:
        self._writer = writer

    def post(self, event: AuditEvent) -> None:
        try:
            self._writer.post(event)
        except AuditError as cause:
            raise AuditUnwritable(str(cause)) from cause

    async def append(self, event: AuditEvent) -> Receipt:
        try:
            return await self._writer.append(event)
        except AuditError as cause:
            raise AuditUnwritable(str(cause)) from cause

    def room(self) -> bool:
        return self._writer.room()

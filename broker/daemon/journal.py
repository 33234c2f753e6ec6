"""The audit log as the pipeline sees it: post, append, room; and one word for everything that keeps it from writing."""

from collections.abc import Callable

from broker.audit import AuditError
from broker.audit.writer import AuditWriter
from broker.core.events import AuditEvent, Receipt
from broker.ports import AuditUnwritable


class Journal:
    """Implements ports.AuditLog over the writer. `written` and `noticed` are called when the writer was given it."""

    def __init__(
        self,
        writer: AuditWriter,
        written: Callable[[], None],
        noticed: Callable[[AuditEvent], None] = lambda _: None,
    ) -> None:
        self._writer = writer
        self._written = written
        self._noticed = noticed

    def post(self, event: AuditEvent) -> None:
        try:
            self._writer.post(event)
        except AuditError as cause:
            raise AuditUnwritable(str(cause)) from cause
        self._written()
        self._noticed(event)

    async def append(self, event: AuditEvent) -> Receipt:
        try:
            receipt = await self._writer.append(event)
        except AuditError as cause:
            raise AuditUnwritable(str(cause)) from cause
        self._written()
        self._noticed(event)
        return receipt

    def room(self) -> bool:
        return self._writer.room()

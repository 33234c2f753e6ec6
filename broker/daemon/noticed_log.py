"""An audit log that tells somebody of each event it took, for what is a projection of the log and of nothing else."""

from collections.abc import Callable

from broker.core.events import AuditEvent, Receipt
from broker.ports import AuditLog


class NoticedLog:
    """Implements ports.AuditLog over another. What could not be recorded is not told of."""

    def __init__(self, log: AuditLog, notice: Callable[[AuditEvent], None]) -> None:
        self._log = log
        self._notice = notice

    def post(self, event: AuditEvent) -> None:
        self._log.post(event)
        self._notice(event)

    async def append(self, event: AuditEvent) -> Receipt:
        receipt = await self._log.append(event)
        self._notice(event)
        return receipt

    def room(self) -> bool:
        return self._log.room()

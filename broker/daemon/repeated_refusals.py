"""Refused control requests on record: so many a minute in full, the rest as a number.

Who is refused can ask again as often as they like; the log must not grow with it.
"""

from contextlib import suppress

from broker.core.events import AuditEvent, EventName
from broker.ports import AuditLog, AuditUnwritable, Clock
from broker.server.office import Refused

WINDOW_S = 60.0
IN_FULL = 60


class RepeatedRefusals:
    """Records refusals. Never raises: a refusal stands, recorded or not."""

    def __init__(self, *, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._began_s = float("-inf")
        self._told = 0
        self._untold = 0

    def record(self, refused: Refused) -> None:
        now = self._clock.monotonic_s()
        if now - self._began_s > WINDOW_S:
            self.summarise()
            self._began_s, self._told = now, 0
        if self._told >= IN_FULL:
            self._untold += 1
            return
        self._told += 1
        self._post(
            EventName.CONTROL_REFUSED,
            code=refused.code,
            route=refused.route,
            agent=refused.agent,
            pid=refused.pid,
            exe=refused.exe,
        )

    def summarise(self) -> None:
        """Record how many there were beyond those told in full."""
        if self._untold:
            self._post(EventName.FLOOD_SUMMARY, of=EventName.CONTROL_REFUSED.value, count=self._untold)
            self._untold = 0

    def _post(self, name: EventName, **fields: str | int | None) -> None:
        with suppress(AuditUnwritable):
            self._audit.post(AuditEvent(name=name, at_ms=self._clock.now_ms(), fields=fields))

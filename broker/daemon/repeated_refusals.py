"""Refused control requests on record: so many a minute in full, the rest as a number.

Who is refused can ask again as often as they like; the log must not grow with it. The number is recorded when the
minute is over and at a clean stop; a daemon that is killed loses the count of one minute.
"""

from contextlib import suppress
from dataclasses import dataclass

from broker.contract.wire import JsonObject
from broker.core.events import AuditEvent, EventName
from broker.ports import AuditLog, AuditUnwritable, Clock
from broker.server.office import Refused

WINDOW_S = 60.0
IN_FULL = 60


@dataclass(slots=True, kw_only=True)
class _Count:
    first_ms: int
    last_ms: int
    number: int = 0


class RepeatedRefusals:
    """Records refusals. Never raises: a refusal stands, recorded or not."""

    def __init__(self, *, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._began_s = float("-inf")
        self._told = 0
        self._untold: dict[str, _Count] = {}  # by code, of which there is a closed set

    def record(self, refused: Refused) -> None:
        now = self._clock.monotonic_s()
        if now - self._began_s > WINDOW_S:
            self.summarise()
            self._began_s, self._told = now, 0
        if self._told >= IN_FULL:
            now_ms = self._clock.now_ms()
            count = self._untold.setdefault(refused.code, _Count(first_ms=now_ms, last_ms=now_ms))
            count.number, count.last_ms = count.number + 1, now_ms
            return
        self._told += 1
        self._post(
            EventName.CONTROL_REFUSED,
            {
                "code": refused.code,
                "route": refused.route,
                "agent": refused.agent,
                "pid": refused.pid,
                "exe": refused.exe,
            },
        )

    def summarise(self) -> None:
        """Record how many there were beyond those told in full; what the log does not take now, it is told later."""
        for code, count in list(self._untold.items()):
            fields: JsonObject = {
                "of": EventName.CONTROL_REFUSED.value,
                "anchor": None,
                "code": code,
                "count": count.number,
                "first_ms": count.first_ms,
                "last_ms": count.last_ms,
            }
            if self._post(EventName.FLOOD_SUMMARY, fields):
                del self._untold[code]

    def _post(self, name: EventName, fields: JsonObject) -> bool:
        with suppress(AuditUnwritable):
            self._audit.post(AuditEvent(name=name, at_ms=self._clock.now_ms(), fields=fields))
            return True
        return False

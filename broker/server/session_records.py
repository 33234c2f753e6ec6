"""Sessions on record: so many of one program a minute come and go in full, the rest as a number.

A process that starts others without end must not make the log grow with them. What matters is recorded whatever the
number: a session that anything hangs on (a grant, a mute, an answered card, an action) has both its records. All
others have both or are one of a count, never in between. A daemon that is killed loses the count of one minute.
"""

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass

from broker.contract.wire import JsonObject
from broker.core.events import AuditEvent, EventName
from broker.ports import AuditLog, AuditUnwritable, Clock

MINUTE_S = 60.0
IN_FULL = 120
PROGRAMS_KEPT = 1000


@dataclass(slots=True, kw_only=True)
class _Program:
    opened: int = 0
    anchor_id: str = ""
    code: str = ""
    uncounted: int = 0  # came and went, and no record tells of them
    first_ms: int = 0
    last_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Untold:
    program: Hashable
    anchor_id: str
    opened_at_ms: int
    fields: JsonObject


class SessionRecords:
    """Never raises: a session begins and ends, recorded or not; where the log is dead nothing runs anyway."""

    def __init__(self, *, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._programs: OrderedDict[Hashable, _Program] = OrderedDict()
        self._untold: dict[str, _Untold] = {}

    def opened(self, session_id: str, program: Hashable, anchor_id: str, fields: JsonObject) -> None:
        if self._clock.monotonic_s() - self._began_s >= MINUTE_S:
            self.summarise()
        count = self._of(program)
        count.opened += 1
        if count.opened > IN_FULL:
            now_ms = self._clock.now_ms()
            self._untold[session_id] = _Untold(program=program, anchor_id=anchor_id, opened_at_ms=now_ms, fields=fields)
            return
        self._post(EventName.SESSION_OPENED, session_id, fields)

    def matters(self, session_id: str) -> None:
        """Something hangs on the session from now on: what was not recorded of it is."""
        untold = self._untold.pop(session_id, None)
        if untold is not None:
            fields = {**untold.fields, "opened_at_ms": untold.opened_at_ms}
            self._post(EventName.SESSION_OPENED, session_id, fields)

    def tell(self, name: EventName, session_id: str, fields: JsonObject) -> None:
        """What happens to a session in between."""
        self.matters(session_id)
        self._post(name, session_id, fields)

    def ended(self, session_id: str, why: str, fields: JsonObject) -> None:
        untold = self._untold.pop(session_id, None)
        if untold is None:
            self._post(EventName.SESSION_ENDED, session_id, {"why": why, **fields})
            return
        count = self._of(untold.program)
        if not count.uncounted:
            count.first_ms = untold.opened_at_ms
        count.anchor_id, count.code, count.last_ms = untold.anchor_id, why, self._clock.now_ms()
        count.uncounted += 1

    def summarise(self) -> None:
        """Record how many came and went beyond those told in full, and begin another minute."""
        for program, count in list(self._programs.items()):
            if self._told(count):
                del self._programs[program]
            else:
                count.opened = 0
        self._began_s = self._clock.monotonic_s()

    def _of(self, program: Hashable) -> _Program:
        count = self._programs.setdefault(program, _Program())
        self._programs.move_to_end(program)  # who goes on is not forgotten for those who come and go
        while len(self._programs) > PROGRAMS_KEPT:
            self._told(self._programs.popitem(last=False)[1])
        return count

    def _told(self, count: _Program) -> bool:
        if not count.uncounted:
            return True
        fields: JsonObject = {
            "of": EventName.SESSION_OPENED.value,
            "anchor": count.anchor_id,
            "code": count.code,
            "count": count.uncounted,
            "first_ms": count.first_ms,
            "last_ms": count.last_ms,
        }
        return self._post(EventName.FLOOD_SUMMARY, None, fields)

    def _post(self, name: EventName, session_id: str | None, fields: JsonObject) -> bool:
        with suppress(AuditUnwritable):
            self._audit.post(AuditEvent(name=name, at_ms=self._clock.now_ms(), session_id=session_id, fields=fields))
            return True
        return False

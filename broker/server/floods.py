"""Refused requests without end: so many a minute of one process are looked at and recorded, the rest is turned away.

The log must not grow with how often somebody is told no. What was turned away is recorded as a number, when the minute
is over, at an unlock and at a clean stop; a daemon that is killed loses the count of one minute and nothing else. Who
goes on is recorded in full ever less. All processes of a program together have a limit of their own, so that a swarm
is no way round. Requests that something came of are not counted; how often a human is asked has limits of its own.
"""

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass

from broker.contract.reasons import Category
from broker.contract.wire import JsonObject
from broker.core.events import AuditEvent, EventName
from broker.ports import AuditLog, AuditUnwritable, Clock

MINUTE_S = 60.0
IN_FULL = 600
IN_FULL_OF_A_PROGRAM = 6000
LESS_EACH_MINUTE = 4  # of what goes on minute after minute only a fourth of the last one's number is taken
AT_LEAST_IN_FULL = 30
KEPT = 2000

_NO = frozenset(
    {
        Category.POLICY_DENIED.value,
        Category.SESSION_DENIED.value,
        Category.CALL_DENIED.value,
        Category.VAULT_LOCKED.value,
        Category.INVALID_REQUEST.value,
        Category.RECONCILE_REQUIRED.value,
        Category.BROKER_UNAVAILABLE.value,
    }
)


@dataclass(slots=True, kw_only=True)
class _Flood:
    most: int
    anchor_id: str
    code: str
    first_ms: int
    last_ms: int
    refused: int = 0
    turned_away: int = 0


class Floods:
    """Counts by anchor and by program, whatever connections they come over."""

    def __init__(self, *, audit: AuditLog, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock
        self._began_s = clock.monotonic_s()
        self._floods: OrderedDict[Hashable, _Flood] = OrderedDict()
        self._others: _Flood | None = None  # let go of while the log took nothing

    def turns_away(self, anchor_id: str, program: Hashable) -> bool:
        """Whether it was refused so often within this minute that it is not looked at any more."""
        if self._clock.monotonic_s() - self._began_s >= MINUTE_S:
            self.summarise()
        for key in (anchor_id, program):
            flood = self._floods.get(key)
            if flood is not None and flood.refused >= flood.most:
                flood.turned_away += 1
                flood.last_ms = self._clock.now_ms()
                return True
        return False

    def note(self, anchor_id: str, program: Hashable, envelope: JsonObject) -> None:
        """Count what came of a request, if it is a no."""
        if envelope["category"] in _NO:
            self._count(anchor_id, IN_FULL, anchor_id, str(envelope["code"]))
            self._count(program, IN_FULL_OF_A_PROGRAM, anchor_id, str(envelope["code"]))

    def _count(self, key: Hashable, most: int, anchor_id: str, code: str) -> None:
        now = self._clock.now_ms()
        flood = self._floods.setdefault(
            key, _Flood(most=most, anchor_id=anchor_id, code=code, first_ms=now, last_ms=now)
        )
        if not flood.refused and not flood.turned_away:
            flood.first_ms = now
        flood.anchor_id, flood.code, flood.last_ms = anchor_id, code, now
        flood.refused += 1
        self._floods.move_to_end(key)  # who goes on is not forgotten for those who come and go
        while len(self._floods) > KEPT:
            self._let_go(self._floods.popitem(last=False)[1])

    def _let_go(self, flood: _Flood) -> None:
        if self._tell(flood):
            return
        if self._others is not None:
            flood.turned_away += self._others.turned_away
            flood.first_ms = min(flood.first_ms, self._others.first_ms)
        self._others = flood

    def summarise(self, *, afresh: bool = False) -> None:
        """Record what was turned away, and begin another minute; `afresh` gives everybody the whole number again."""
        for key, flood in list(self._floods.items()):
            goes_on = flood.turned_away > 0
            if self._tell(flood) and (afresh or not goes_on):
                del self._floods[key]
                continue
            flood.refused = 0
            flood.most = max(flood.most // LESS_EACH_MINUTE, AT_LEAST_IN_FULL) if goes_on else flood.most
        if self._others is not None and self._tell(self._others):
            self._others = None
        self._began_s = self._clock.monotonic_s()

    def _tell(self, flood: _Flood) -> bool:
        """True where nothing of it is left to be told."""
        if not flood.turned_away:
            return True
        fields: JsonObject = {
            "of": EventName.ACTION_REQUESTED.value,
            "anchor": flood.anchor_id,
            "code": flood.code,
            "count": flood.turned_away,
            "first_ms": flood.first_ms,
            "last_ms": flood.last_ms,
        }
        with suppress(AuditUnwritable):
            self._audit.post(AuditEvent(name=EventName.FLOOD_SUMMARY, at_ms=self._clock.now_ms(), fields=fields))
            flood.turned_away = 0
            return True
        return False

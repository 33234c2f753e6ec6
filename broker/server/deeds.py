"""What each session is doing, and how much of what kind it did: a projection of the events as they are recorded.

Follows sessions that are there; of one that ended nothing is kept.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject, JsonValue
from broker.core.events import AuditEvent, EventName

IN_FLIGHT_TOLD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deed:
    operation: str
    effect: str
    since_ms: int


class Deeds:
    """By session; `begin` and `forget` say which are there."""

    def __init__(self) -> None:
        self._under_way: dict[str, dict[str, _Deed]] = {}
        self._done: dict[str, Counter[str]] = {}

    def begin(self, session_id: str) -> None:
        self._under_way[session_id], self._done[session_id] = {}, Counter()

    def forget(self, session_id: str) -> None:
        """It ended. What it has under way is finished and told by its run."""
        self._under_way.pop(session_id, None)
        self._done.pop(session_id, None)

    def notice(self, event: AuditEvent) -> None:
        """What was recorded. Only what was sent and what became of it counts here."""
        correlation_id = event.correlation_id
        flying = self._under_way.get(event.session_id or "")
        if correlation_id is None or flying is None:
            return
        if event.name is EventName.DISPATCH_STARTED:  # each page of a walk has one
            flying.setdefault(
                correlation_id,
                _Deed(
                    operation=str(event.fields.get("operation")),
                    effect=str(event.fields.get("effect")),
                    since_ms=event.at_ms,
                ),
            )
        elif event.name is EventName.ACTION_RESULT:
            deed = flying.pop(correlation_id, None)
            if deed is not None:
                self._done[event.session_id or ""][deed.effect] += 1

    def of(self, session_id: str) -> dict[str, JsonValue]:
        """As a list of sessions shows it: the oldest of what is under way, and numbers."""
        flying, done = self._under_way.get(session_id, {}), self._done.get(session_id, Counter())
        oldest = islice(flying.items(), IN_FLIGHT_TOLD)
        return {
            "in_flight": [_told(correlation_id, deed) for correlation_id, deed in oldest],
            "in_flight_more": max(0, len(flying) - IN_FLIGHT_TOLD),
            "done": {effect.value: done[effect.value] for effect in Effect},
        }


def _told(correlation_id: str, deed: _Deed) -> JsonObject:
    return {
        "correlation_id": correlation_id,
        "operation": deed.operation,
        "effect": deed.effect,
        "since_ms": deed.since_ms,
    }

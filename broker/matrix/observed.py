"""What one run of a case left behind, as values: steps, the far side's log, the trail, the log's verdict, and leaks.

Checks are pure functions of it, so that a doctored one has to be told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from typing_extensions import override

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix.cases import Case
from broker.matrix.records import Recorded, Seen, recorded
from broker.matrix.transcript import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """Something that does not hold. `assertion`: result | next | remote | trail | secret | run."""

    assertion: str
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.assertion}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One record of the audit log, decrypted."""

    seq: int
    name: str
    correlation_id: str | None
    fields: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One run, over."""

    case: Case
    name: str  # of the run
    token: str = field(repr=False)
    steps: tuple[Step, ...]
    far: tuple[Seen, ...]
    trail: tuple[Event, ...]  # all that was done meanwhile, read-backs too, in the order of the log
    verdict: str = "OK"  # of the offline check of the whole log
    leaks: tuple[str, ...] = ()  # where the token was found
    daemon_died: bool = False  # and was started again meanwhile, as the case has it

    @property
    def primary(self) -> Step | None:
        """The step that the case is about: the first that is no preparation, and has an answer if the daemon died."""
        steps = [step for step in self.steps if step.deed != "warm_up"]
        answered = [step for step in steps if step.envelope is not None] if self.daemon_died else []
        return next(iter(answered or steps), None)

    @property
    def recorded(self) -> Recorded:
        return recorded(self.far)

    @property
    def own(self) -> Recorded:
        """What was written down of the case's own request, not of preparations, look-ups and notes."""
        primary = self.primary
        events = () if primary is None else self.events_of(primary)
        sent = next((_sent(one) for one in events if one.name == "policy.decided"), None)
        if sent is None:
            return self.recorded
        return recorded(tuple(one for one in self.far if one.detail.partition("?")[0] == sent))

    def events_of(self, step: Step) -> tuple[Event, ...]:
        return tuple(one for one in self.trail if one.correlation_id == step.correlation_id)


def _sent(event: Event) -> str | None:
    """Method and path of what was decided on, as a far side writes it down; None for what is no HTTP."""
    request = event.fields.get("request")
    url = request.get("url") if isinstance(request, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(url, str):
        return None
    return f"{request.get('method')} {urlsplit(url).path}"


def event_of(row: Mapping[str, JsonValue]) -> Event:
    """A record as the control socket tells it."""
    fields, correlation_id, seq = row.get("fields"), row.get("correlation_id"), row.get("seq")
    return Event(
        seq=seq if isinstance(seq, int) else -1,
        name=str(row.get("event")),
        correlation_id=correlation_id if isinstance(correlation_id, str) else None,
        fields=fields if isinstance(fields, Mapping) else {},
    )

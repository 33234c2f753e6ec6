"""The views over all events at once, as plainly as can be: what the projection keeps up to date has to equal these."""

from collections.abc import Iterable, Sequence

from broker.audit.activity import OPENERS, Row, Told, alone, heads_a_row, request
from broker.audit.attendance import Attendance, attendances, concerns_a_session


def plain_fold(events: Iterable[Told]) -> list[Row]:
    """All rows of the Activity view, by their places."""
    heads: list[Told] = []
    trails: dict[str, list[Told]] = {}
    for seq, event in events:
        correlation_id = event.get("correlation_id")
        opened = isinstance(correlation_id, str) and correlation_id in trails
        if heads_a_row(event) and not (opened and event.get("event") in OPENERS):
            heads.append((seq, event))
        if isinstance(correlation_id, str) and (opened or event.get("event") in OPENERS):
            trails.setdefault(correlation_id, []).append((seq, event))
    return [
        request(str(event["correlation_id"]), trails[str(event["correlation_id"])])
        if event.get("event") in OPENERS and isinstance(event.get("correlation_id"), str)
        else alone(seq, event)
        for seq, event in heads
    ]


def plain_attendances(events: Sequence[Told]) -> list[Attendance]:
    """The Sessions view."""
    return attendances(((seq, event) for seq, event in events if concerns_a_session(event)), plain_fold(events))

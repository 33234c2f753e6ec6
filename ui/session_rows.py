"""The rows of the Sessions screen: each session with what belongs to it below, and the ones that ended. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ui.served import GrantRow, InFlight, SessionRow
from ui.served_log import PastSession
from ui.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A line on how a session is named, or why it is muted. Takes no focus."""

    session: SessionRow
    grants: int
    last: bool

    @property
    def id(self) -> str:
        return f"{self.session.id} about"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A line on what a live session has asked for that has no end yet, or on its cards. Takes no focus."""

    session_id: str
    number: int
    flight: InFlight | None
    count: int  # of cards that wait, or of requests under way that are not named
    last: bool

    @property
    def id(self) -> str:
        return f"{self.session_id} under way {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGrant:
    grant: GrantRow
    last: bool

    @property
    def id(self) -> str:
        return self.grant.id


Item: TypeAlias = SessionRow | About | HeldGrant | UnderWay | PastSession


def takes_no_focus(item: Item) -> bool:
    return isinstance(item, About | UnderWay)


def more_of(item: Item) -> str:
    """What a filter looks at."""
    match item:
        case SessionRow():
            return f"{item.agent} {item.cwd or ''} {item.label or ''} {item.pid} {item.container or ''}"
        case About(session=session):
            return f"{session.agent} {session.exe or ''} {session.muted_why or ''}"
        case HeldGrant(grant=grant):
            return f"{grant.agent} {grant.rule} {grant.scope}"
        case UnderWay():
            return f"in flight {item.flight.operation}" if item.flight is not None else "waiting"
        case PastSession():
            return f"{item.agent} {item.pid} ended {item.why or ''}"


def items_of(world: World, folded: frozenset[str]) -> list[Item]:
    """In the order in which the daemon tells the sessions; then the ended ones, the latest first."""
    grants: dict[str, list[GrantRow]] = defaultdict(list)
    for grant in world.grants:
        grants[grant.session_id].append(grant)
    past = {one.id: one for one in world.past}
    out: list[Item] = []
    for session in world.sessions:
        out.append(session)
        if session.id not in folded:
            out += _below(session, grants[session.id], past.get(session.id))
    live = {session.id for session in world.sessions}
    return [*out, *(one for one in world.past if one.ended_at_ms is not None and one.id not in live)]


def _below(session: SessionRow, grants: list[GrantRow], past: PastSession | None) -> Iterator[Item]:
    waits = session.waiting or (past.waiting if past is not None else 0)
    flights = session.in_flight
    unnamed = session.in_flight_more
    if not flights and past is not None:
        unnamed = max(past.open - past.waiting, 0)
    rest = len(grants) + len(flights) + bool(unnamed) + bool(waits)
    yield About(session=session, grants=len(grants), last=not rest)
    for grant in grants:
        rest -= 1
        yield HeldGrant(grant=grant, last=not rest)
    lines: list[tuple[InFlight | None, int]] = [(flight, 1) for flight in flights]
    lines += [(None, -unnamed)] if unnamed else []
    lines += [(None, waits)] if waits else []
    for number, (flight, count) in enumerate(lines):
        rest -= 1
        yield UnderWay(session_id=session.id, number=number, flight=flight, count=count, last=not rest)

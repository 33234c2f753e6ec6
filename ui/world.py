"""What this window knows, folded from the news one by one. Pure: `fold` gives a new world, nothing else changes."""

from dataclasses import dataclass, field, replace
from typing import Any

from broker.client.control import Served
from ui.list_messages import CheckedNews, CheckpointsNews, HostKeysNews
from ui.messages import (
    ActivityNews,
    Answered,
    ApproverNews,
    BroughtUp,
    CardFault,
    CardNews,
    CheckpointNews,
    Connected,
    CredentialsNews,
    Done,
    DoubtsNews,
    LogFactsNews,
    Lost,
    News,
    NotDone,
    PastNews,
    PolicyNews,
    QueueNews,
    SessionsNews,
    StatusNews,
    TrailNews,
    VerdictNews,
    WantNews,
)
from ui.served import CredentialRow, DoubtRow, GrantRow, SessionLimits, SessionRow, Status, Waiting
from ui.served_lists import HostKeyRow
from ui.served_log import ActivityRow, Checkpoint, LogFacts, PastSession, SaidVerdict
from ui.served_policy import PolicyFacts
from ui.waiting_line import WaitingLine
from ui.wants import Want

ROWS_KEPT = 10_000
CHECKPOINTS_KEPT = 20
SEALED_TOO: dict[str, Any] = {"host_keys": (), "log_checkpoints": None, "checks": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`lost` is None while connected; `fresh_ms` is when anything was last heard."""

    started: bool = False
    lost: Lost | None = None
    fresh_ms: int = 0
    status: Status = field(default_factory=Status)
    waiting: WaitingLine = field(default_factory=WaitingLine)
    card: Served | None = None
    card_fault: CardFault | None = None
    want: Want | None = None
    approver: bool = False
    notice: str = ""
    sessions: tuple[SessionRow, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    muted: tuple[SessionRow, ...] = ()  # of the sessions
    credentials: tuple[CredentialRow, ...] | None = None
    policy: PolicyFacts | None = None
    doubts: tuple[DoubtRow, ...] | None = None
    activity: tuple[ActivityRow, ...] | None = None  # the one that began last first
    trail: TrailNews | None = None
    past: tuple[PastSession, ...] = ()
    verdict: SaidVerdict | None = None
    verifying: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()  # written at this window's wish, the newest first
    log_facts: LogFacts | None = None
    log_checkpoints: CheckpointsNews | None = None
    limits: SessionLimits = field(default_factory=SessionLimits)
    host_keys: tuple[HostKeyRow, ...] = ()
    checks: tuple[CheckedNews, ...] = ()  # what this window asked of credentials, the newest first

    @property
    def pending(self) -> tuple[Waiting, ...]:
        return self.waiting.pending

    def entry(self, approval_id: str | None) -> Waiting | None:
        return self.waiting.entry(approval_id)


def fold(world: World, news: News, now_ms: int) -> World:
    """The world after one piece of news."""
    if not isinstance(news, Lost):
        world = replace(world, fresh_ms=now_ms)
    match news:
        case Lost():
            return replace(world, started=True, lost=news, approver=False)
        case Connected(status=status, waiting=waiting):
            return replace(world, started=True, lost=None, status=status, waiting=world.waiting.refreshed(waiting))
        case StatusNews(status=status):
            return replace(world, status=status)
        case QueueNews(waiting=waiting):
            return replace(world, waiting=world.waiting.refreshed(waiting))
        case CardNews(served=served):
            return replace(world, card=served, card_fault=None)
        case WantNews(want=want):
            return replace(world, want=want, card_fault=None)
        case CardFault():
            return replace(world, card_fault=news, card=None)
        case Answered(approval_id=approval_id, state=state):
            return replace(world, waiting=world.waiting.settled(approval_id, state), notice="")
        case NotDone(problem=problem):
            return replace(world, notice=problem)
        case Done(words=words):
            return replace(world, notice=words)
        case ApproverNews(ready=True):
            return replace(world, approver=True)
        case ApproverNews():  # what is sealed goes with the key that opened it
            return replace(
                world, approver=False, activity=None, trail=None, past=(), credentials=None, doubts=None, **SEALED_TOO
            )
        case SessionsNews(sessions=sessions, grants=grants, limits=limits):
            muted = tuple(session for session in sessions if session.muted)
            return replace(world, sessions=sessions, grants=grants, limits=limits, muted=muted)
        case HostKeysNews(keys=keys):
            return replace(world, host_keys=keys)
        case CheckedNews():
            return replace(world, checks=(news, *(one for one in world.checks if one.name != news.name)))
        case BroughtUp():
            return world  # it is the window's to show it
        case CheckpointsNews():
            return replace(world, log_checkpoints=news)
        case CredentialsNews(credentials=credentials):
            return replace(world, credentials=credentials)
        case PolicyNews(facts=facts):
            return replace(world, policy=facts)
        case DoubtsNews(doubts=doubts):
            return replace(world, doubts=doubts)
        case ActivityNews(rows=rows, anew=anew):
            return replace(world, activity=_joined(() if anew else world.activity or (), rows))
        case TrailNews():
            return replace(world, trail=news)
        case PastNews(sessions=past):
            return replace(world, past=past)
        case VerdictNews(verdict=verdict):
            return replace(world, verdict=verdict or world.verdict, verifying=verdict is None)
        case CheckpointNews(checkpoint=checkpoint):
            return replace(world, checkpoints=(checkpoint, *world.checkpoints)[:CHECKPOINTS_KEPT])
        case LogFactsNews(facts=log_facts):
            return replace(world, log_facts=log_facts)


def _joined(known: tuple[ActivityRow, ...], fresh: tuple[ActivityRow, ...]) -> tuple[ActivityRow, ...]:
    """Newest first; a row that is told again takes the place of what was known of it."""
    if not known or not fresh or fresh[0].seq < known[-1].seq:
        return (*known, *fresh)[:ROWS_KEPT]
    new = {row.id: row for row in fresh}
    kept = [new.pop(row.id, row) for row in known]
    if not new:
        return tuple(kept)
    return tuple(sorted([*new.values(), *kept], key=lambda row: -row.seq)[:ROWS_KEPT])

"""What goes between the screens and the feed: tasks one way, news the other. Frozen values; neither side waits.

A task that decides carries the very card that was drawn; the feed computes digests and signs, and knows no screen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from typing_extensions import override

from broker.client.control import Served
from ui.answering import Answer
from ui.list_messages import CheckCredential, CheckedNews, CheckpointsNews, ForgetHostKey, HostKeysNews
from ui.served import CredentialRow, DoubtRow, EventRow, GrantRow, SessionLimits, SessionRow, Status, Waiting
from ui.served_log import ActivityRow, Checkpoint, LogFacts, PastSession, SaidVerdict
from ui.served_policy import PolicyFacts
from ui.wants import Want

# Tasks: what a screen asks the feed to do.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCard:
    approval_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """An answer. `served` is None only for a denial of a card that could not be opened."""

    approval_id: str
    answer: Answer
    served: Served | None


@dataclass(frozen=True, slots=True)
class Unlock:
    """Opens the vault where it is locked, and the approver key in this process. Its text is never shown."""

    passphrase: bytes

    @override
    def __repr__(self) -> str:
        return "Unlock(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeGrant:
    grant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """Its grants and cards end with it; `kill` ends its processes too."""

    session_id: str
    kill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    session_id: str
    muted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    digest: str
    counter: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    correlation_id: str
    outcome: str  # applied | not_applied
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadList:
    """Ask for the lists of a screen, by its name in `frame.SCREENS`."""

    screen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrail:
    """Ask for all events of one request."""

    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Have the whole log checked by a program of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCheckpoint:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class TryNow:
    """The human does not want to wait for the next try to connect."""


Task: TypeAlias = (
    OpenCard | Decide | Unlock | Lock | Freeze | RevokeGrant | EndSession | Mute | Trust | Settle | ReadBack
    | ReadList | ReadTrail | Verify | WriteCheckpoint | TryNow
    | ForgetHostKey | CheckCredential
)  # fmt: skip


# News: what the feed tells.


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The daemon answers. Whatever was known before may be old; fresh lists follow or are within."""

    status: Status
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """No connection. Times are milliseconds since the epoch."""

    since_ms: int
    tries: int
    next_try_at_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusNews:
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNews:
    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtUp:
    """The human asked for this card, by a click at the desktop."""

    approval_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardNews:
    served: Served


@dataclass(frozen=True, slots=True, kw_only=True)
class WantNews:
    """A credential that an agent waits for, whole."""

    want: Want


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFault:
    """The card could not be opened; it can be denied but not approved."""

    approval_id: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The daemon took the answer."""

    approval_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDone:
    """A task was refused or failed. `code` is the daemon's, empty for faults on this side."""

    task: Task
    code: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    task: Task
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproverNews:
    """Whether this process can sign, and why not."""

    ready: bool
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsNews:
    sessions: tuple[SessionRow, ...]
    grants: tuple[GrantRow, ...]
    limits: SessionLimits = field(default_factory=SessionLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsNews:
    credentials: tuple[CredentialRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyNews:
    facts: PolicyFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtsNews:
    doubts: tuple[DoubtRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityNews:
    """Rows that are new or have changed; `anew` says that what was known before is dropped."""

    rows: tuple[ActivityRow, ...]
    anew: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PastNews:
    sessions: tuple[PastSession, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailNews:
    correlation_id: str
    events: tuple[EventRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictNews:
    """None while the verifier runs."""

    verdict: SaidVerdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointNews:
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFactsNews:
    facts: LogFacts


News: TypeAlias = (
    Connected | Lost | StatusNews | QueueNews | CardNews | WantNews | CardFault | Answered | NotDone | Done
    | ApproverNews | SessionsNews | CredentialsNews | PolicyNews | DoubtsNews | ActivityNews
    | PastNews | TrailNews | VerdictNews | CheckpointNews | LogFactsNews
    | BroughtUp | HostKeysNews | CheckedNews | CheckpointsNews
)  # fmt: skip


class Feed(Protocol):
    """The daemon as the screens see it."""

    def start(self, tell: Callable[[News], object]) -> None:
        """Begin; `tell` may be called from another thread."""
        ...

    def do(self, task: Task) -> None:
        """Queue a task; never blocks. What became of it comes as news."""
        ...

    def stop(self) -> None: ...

"""A window with a feed that is no daemon and a clock that goes on when told: what the tests of the screens share."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from broker.client.card import parse_card
from broker.client.control import Served
from broker.contract.wire import digest
from tests.fakes.cards import NOW_MS
from tests.fakes.control_feed import ControlFeed
from ui.answering import Key
from ui.messages import ApproverNews, CardNews, Connected
from ui.paper import Paper, text_of
from ui.screens.sheet import Moment
from ui.served import Status, Waiting
from ui.window import Surroundings, Window

GOLDENS = Path(__file__).with_name("goldens")
READY = Status(
    version="0.1.0",
    log_id="5c1d",
    vault_state="ready",
    vault_term=12,
    policy_digest="sha256:3f9c21ab" + "0" * 56,
    audit_seq=4211,
    audit_anchored=True,
)


def golden(name: str) -> list[str]:
    """The rows of a kept drawing."""
    return (GOLDENS / f"{name}.txt").read_text(encoding="utf-8").splitlines()


@dataclass(slots=True)
class StillClock:
    """Both clocks, moved by hand."""

    wall_ms: int = NOW_MS
    mono_s: float = 1000.0

    def now(self) -> Moment:
        return Moment(wall_ms=self.wall_ms, mono_s=self.mono_s)

    def at(self, read_s: float) -> Moment:
        del read_s  # the terminal's own clock goes on by itself
        return self.now()

    def on(self, seconds: float) -> None:
        self.wall_ms += round(seconds * 1000)
        self.mono_s += seconds


def served(raw: dict[str, Any], *, joined: int = 1) -> Served:
    """A card as the client would have read it."""
    return Served(
        id=raw["approval_id"],
        state="pending",
        card=parse_card(raw),
        raw=raw,
        digest=digest("doorward/card/v1", raw),
        nonce="canary-nonce",
        arming_ms=raw["arming_ms"],
        served_at_ms=NOW_MS,
        expires_at_ms=raw["expires_at_ms"],
        joined=joined,
    )


def entry(raw: dict[str, Any], *, joined: int = 1, state: str = "pending", ended_by: str | None = None) -> Waiting:
    """The same card as the queue lists it."""
    what = raw["summary"]
    return Waiting(
        id=raw["approval_id"],
        state=state,
        created_at_ms=raw["created_at_ms"],
        expires_at_ms=raw["expires_at_ms"],
        effect=what["effect"],
        operation=f"{what['service']}.{what['operation']}",
        target=f"{raw['target']['method']} {raw['target']['url']}",
        agent=raw["who"]["agent"],
        joined=joined,
        ended_by=ended_by,
    )


def settled(one: Waiting, state: str, ended_by: str | None = None) -> Waiting:
    return replace(one, state=state, ended_by=ended_by)


@dataclass(slots=True)
class Scene:
    """One window on a still clock. Cards are `(raw, joined)` in the order of the queue."""

    width: int = 80
    height: int = 24
    ascii_only: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings)
    clock: StillClock = field(default_factory=StillClock)
    feed: ControlFeed = field(default_factory=ControlFeed)
    window: Window = field(init=False)

    def __post_init__(self) -> None:
        paper = Paper(width=self.width, height=self.height, ascii_only=self.ascii_only)
        self.window = Window(feed=self.feed, clock=self.clock, paper=paper, surroundings=self.surroundings)
        self.feed.start(self.window.learn)

    def connect(self, *cards: tuple[dict[str, Any], int], status: Status = READY, approver: bool = True) -> "Scene":
        for raw, joined in cards:
            self.feed.cards[raw["approval_id"]] = CardNews(served=served(raw, joined=joined))
        waiting = tuple(entry(raw, joined=joined) for raw, joined in cards)
        self.feed.tell(Connected(status=status, waiting=waiting))
        if approver:
            self.feed.tell(ApproverNews(ready=True))
        return self.drawn()

    def drawn(self) -> "Scene":
        """Draw, and let the terminal have it."""
        self.window.painted(self.window.picture().serial)
        return self

    def on(self, seconds: float) -> "Scene":
        """Time goes on in tenths, as the application's ticks do."""
        for _ in range(max(round(seconds * 10), 1)):
            self.clock.on(0.1)
            self.window.tick()
            self.drawn()
        return self

    def press(self, *names: str, every_s: float = 0.2) -> "Scene":
        """Keys by a hand: one after the other, `every_s` apart."""
        for name in names:
            self.window.key(Key(name=name, character=name if len(name) == 1 else None))
            self.drawn()
            self.clock.on(every_s)
            self.window.tick()
        return self.drawn()

    def rows(self) -> list[str]:
        return [text_of(line).rstrip() for line in self.window.picture().rows]

    def slot(self) -> str:
        """What stands at the right end of the answers' rule."""
        line = next(line for line in self.rows() if "A yes covers" in line or "A no tells" in line)
        return line.rstrip("─ ").rpartition("──")[2].strip("─ ")

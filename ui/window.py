"""One window: what is known, the seven screens, and where each key goes. Knows no terminal; `app` gives it one.

Every key is told to the answer on the card, wherever it goes, so that a deciding key is alone among all keys. Freeze,
lock and closing ask for `y` in the last row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from broker.client.card_words import clock_time, countdown
from ui import pointing
from ui.answering import Key
from ui.arming import CONFIRM_S, LoneKey
from ui.brought_up import bring_up
from ui.frame import SCREENS, Hint, Lamp, asking, footer, screens
from ui.freshness import alive, is_live, read_anew
from ui.headline import headline
from ui.help import box, footer_words, laid_over
from ui.messages import (
    Answered,
    ApproverNews,
    BroughtUp,
    CardFault,
    CardNews,
    Connected,
    Done,
    Feed,
    Freeze,
    Lock,
    Lost,
    News,
    NotDone,
    QueueNews,
    ReadList,
    StatusNews,
)
from ui.paper import Paper, Role, Row, Span, fit, row
from ui.screens.activity import Activity
from ui.screens.approvals import Approvals
from ui.screens.audit import AuditScreen
from ui.screens.doubts import Doubts
from ui.screens.policy import PolicyScreen
from ui.screens.sessions import Sessions
from ui.screens.sheet import AskFirst, Effect, Goto, Moment, Say, Screen, Sweep
from ui.screens.vault import VaultScreen
from ui.world import World, fold

BELL_EVERY_S = 10.0
IDLE_S = 30.0
REFRESH_S = 2.0
APPROVALS = 1


class Clock(Protocol):
    def now(self) -> Moment: ...

    def at(self, read_s: float) -> Moment:
        """The moment of a key that was read then (monotonic), however long it waited for its turn."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where others can type into this terminal: a multiplexer, or a kernel that lets them."""

    tmux: bool = False
    tiocsti: bool = False

    def lamps(self, paper: Paper) -> list[Lamp]:
        names = [name for name, there in (("tmux", self.tmux), ("tiocsti", self.tiocsti)) if there]
        word = " terminal can be typed into by others" if paper.width >= 120 else ""
        return [Lamp(name=name, word=word if name == names[-1] else "") for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The whole terminal, row by row, and where the cursor sits. `serial` names this drawing."""

    rows: tuple[Row, ...]
    cursor: tuple[int, int]
    serial: int


@dataclass(slots=True, kw_only=True)
class Window:
    feed: Feed
    clock: Clock
    paper: Paper
    surroundings: Surroundings = field(default_factory=Surroundings)
    world: World = field(default_factory=World)
    approvals: Approvals = field(default_factory=Approvals)
    policy: PolicyScreen = field(default_factory=PolicyScreen)
    current: int = APPROVALS
    closed: bool = False
    rings: int = 0  # bells that the terminal still owes
    _others: dict[int, Screen] = field(default_factory=dict)
    _asked: AskFirst | None = None
    _asked_s: float = 0.0
    _lone: LoneKey = field(default_factory=LoneKey)
    _help: bool = False
    _said: str = ""
    _rang_s: float = float("-inf")
    _key_s: float = float("-inf")
    _read_s: float = float("-inf")
    _serial: int = 0

    def __post_init__(self) -> None:
        self._others = {
            2: Activity(),
            3: Sessions(),
            4: Doubts(),
            5: VaultScreen(),
            6: self.policy,
            7: AuditScreen(),
        }

    @property
    def screen(self) -> Screen:
        return self.approvals if self.current == APPROVALS else self._others[self.current]

    @property
    def title(self) -> str:
        """For the terminal's title: nothing that anybody else chose."""
        waiting = len(self.world.pending)
        return f"doorward: {waiting} waiting" if waiting else "doorward"

    # News.

    def learn(self, news: News) -> None:
        now = self.clock.now()
        before = {entry.id for entry in self.world.pending}
        was_lost, was_shut = self.world.lost is not None, self.approvals.vault_shut(self.world)
        self.world = fold(self.world, news, now.wall_ms)
        if isinstance(news, Connected) and was_lost:
            doubts = self.world.status.in_doubt
            self._said = f"connected again; in doubt now: {doubts}{' (screen 4)' if doubts else ''}"
        if isinstance(news, (Lost, Connected)):
            self._do(self.approvals.reopen(self.world))
        if isinstance(news, Connected):
            self._read()  # what is on the screen may be old
        if self.approvals.vault_shut(self.world) and not was_shut:
            self.approvals.passphrase.focus()  # the page that comes up asks for it
        if isinstance(news, ApproverNews):
            if news.ready:
                self.world = replace(self.world, notice="")
                self._do(self.approvals.reopen(self.world))
                self._read()
            elif news.problem:
                self.approvals.passphrase.refused(news.problem)
        if isinstance(news, (QueueNews, Connected, CardNews, CardFault, Answered, NotDone)):
            self._do(self.approvals.learn(news, self.world, now))
        if isinstance(news, (Done, NotDone)):
            self._said = ""  # what was asked for has its answer, which is to be seen
        if isinstance(news, (Done, StatusNews)) and read_anew(self.current, news):
            self._read()
        if isinstance(news, BroughtUp):
            busy, idle_s = self._help or self._asked is not None, now.mono_s - self._key_s
            self._do(bring_up(news.approval_id, self.approvals, self.world, idle_s=idle_s, busy=busy))
        self._ring(set() if isinstance(news, BroughtUp) else before, now)

    def _ring(self, before: set[str], now: Moment) -> None:
        """One bell for a new card, if the queue was empty or nobody was at the keys, and never often."""
        new = {entry.id for entry in self.world.pending} - before
        quiet = not before or now.mono_s - self._key_s >= IDLE_S
        if new and quiet and now.mono_s - self._rang_s >= BELL_EVERY_S:
            self._rang_s = now.mono_s
            self.rings += 1

    def _read(self) -> None:
        self._read_s = self.clock.now().mono_s
        if self.world.lost is None:
            self.feed.do(ReadList(screen=SCREENS[self.current - 1]))

    # Drawing.

    def picture(self) -> Picture:
        now = self.clock.now()
        sheet = self.screen.draw(self.world, self.paper, now)
        marked = [1] if self.world.pending else []
        marked += [4] if self.world.status.in_doubt else []
        marked += [6] if self.world.status.policy_pending else []
        lost = self.world.lost is not None
        body = sheet.body
        if lost and self.current != APPROVALS:
            body = tuple(tuple(Span(span.text, Role.FAINT) for span in line) for line in body)
        rows = [
            headline(self.world, self.surroundings.lamps(self.paper), self.paper, now.wall_ms),
            screens(self.paper, current=self.current, marked=[] if lost else marked),
            sheet.title if not lost or self.current == APPROVALS else self._old(sheet.title),
            *body,
            sheet.last_rule,
            self._last_row(sheet.hints, now),
        ]
        rows = [fit(line, self.paper.width) for line in rows]
        if self._help:
            rows = laid_over(rows, box(self.current, self.paper), self.paper)
        if self.paper.ascii_only:
            rows = [tuple(Span(self.paper.own(span.text), span.role) for span in line) for line in rows]
        self._serial += 1
        return Picture(rows=tuple(rows[: self.paper.height]), cursor=sheet.cursor, serial=self._serial)

    def _old(self, line: Row) -> Row:
        words = f"old: as at {clock_time(self.world.fresh_ms)}" if self.world.fresh_ms else "nothing is known yet"
        return (*fit(line, self.paper.width - len(words) - 3), Span(f" {words} ", Role.LOOK), Span("─"))

    def _last_row(self, hints: Sequence[Hint], now: Moment) -> Row:
        if self._help:
            entry = self.world.entry(self.approvals.focus)
            left = countdown(entry.expires_at_ms - now.wall_ms) if entry is not None and entry.pending else None
            return fit(row(f" {footer_words(left)}"), self.paper.width)
        if self._asked is not None:
            return asking(self.paper, self._asked.question, [(one.key, one.word) for one in self._asked.also])
        notice = self._said or self.world.notice
        if notice:
            return fit(
                row(" ", Span(f"! {self.paper.foreign(notice, limit=max(self.paper.width - 4, 24))}", Role.LOOK)),
                self.paper.width,
            )
        return footer(self.paper, hints)

    def painted(self, serial: int) -> None:
        """That picture is on the terminal. An older one says nothing of what is known now."""
        if serial != self._serial or self._help or self._asked is not None:
            return
        now = self.clock.now()
        if self.current == APPROVALS:
            self.approvals.painted(now)
        elif self.screen is self.policy:
            self.policy.painted(now)

    def resize(self, paper: Paper) -> None:
        self.paper = paper

    # Input.

    def key(self, key: Key, now: Moment | None = None) -> None:
        now = now or self.clock.now()
        self._key_s = now.mono_s
        quiet = self._lone.pressed(now.mono_s)
        self._said, self.world = "", replace(self.world, notice="")
        if self._help:
            self._help = False
            self._noticed(now)
        elif self._asked is not None:
            self._confirm(key, now, quiet=quiet)
        elif key.name == "ctrl+c":
            self._noticed(now)
            self._global(key, now)
        else:
            self._lone.drop()
            self._route(key, now)

    def _noticed(self, now: Moment) -> None:
        """A key that the card's answer did not see itself; the card behind has to arm again."""
        self.approvals.answering.noticed(now.mono_s)
        self.approvals.answering.arming.again(now.mono_s)

    def _route(self, key: Key, now: Moment) -> None:
        in_field = self.screen.in_field(self.world)
        if self.current != APPROVALS:
            self.approvals.answering.noticed(now.mono_s)
        effects = alive(self.screen.key(key, self.world, now), key, self.world)
        if effects is not None:
            self._do(effects)
        elif not in_field:
            self._global(key, now)

    def _global(self, key: Key, now: Moment) -> None:
        match key.name:
            case "1" | "2" | "3" | "4" | "5" | "6" | "7":
                self._goto(int(key.name), now)
            case "question_mark":
                self._help = True
            case "q" | "ctrl+c":
                self._ask(AskFirst(question="Close this window? The daemon goes on.", task=None), now)
            case "F":
                self._ask(AskFirst(question="Freeze everything?", task=Freeze()), now)
            case "L":
                self._ask(AskFirst(question="Lock the vault? Cards, grants and sessions end.", task=Lock()), now)
            case "n" | "p":
                self._goto(APPROVALS, now)
                self._do(self.approvals.next_waiting(self.world, 1 if key.name == "n" else -1))
            case "u" if not self.world.approver and self.world.lost is None:
                self._goto(APPROVALS, now)
                self._do(self.approvals.to_field())
            case _:
                pass

    def _goto(self, screen: int, now: Moment) -> None:
        if screen == self.current:
            return
        self.current = screen
        self.approvals.answering.leave()
        self.approvals.answering.arming.undrawn()
        self._read_s = now.mono_s
        self._read()

    def _ask(self, question: AskFirst, now: Moment) -> None:
        self._asked, self._asked_s = question, now.mono_s

    def _confirm(self, key: Key, now: Moment, *, quiet: bool) -> None:
        """`y` counts only alone and after a moment; any other key leaves."""
        asked, ripe = self._asked, now.mono_s - self._asked_s >= CONFIRM_S
        if asked is not None and key.name in asked.keys and quiet and ripe and not self._lone.holding:
            self._asked = replace(asked, task=asked.answered(key.name), also=())
            self._lone.hold(now.mono_s)
            return
        self._lone.drop()
        self._asked = None
        self._noticed(now)

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Sweep(keep=keep):
                    self.world = replace(self.world, waiting=self.world.waiting.swept(keep))
                case Goto(screen=screen):
                    self._goto(screen, self.clock.now())
                case AskFirst():
                    self._ask(effect, self.clock.now())
                case Say(words=words):
                    self._said = words
                case _:
                    self.feed.do(effect)

    def paste(self, text: str) -> None:
        if not self._help and self._asked is None:
            self.screen.paste(text, self.world)

    def focused(self) -> None:
        """The terminal has the focus again: the human's eyes may have been elsewhere."""
        self.approvals.answering.arming.again(self.clock.now().mono_s)
        self.policy.answering.arming.again(self.clock.now().mono_s)

    def clicked(self, column: int, line: int) -> None:
        """A click moves a focus and answers nothing."""
        if self._help or self._asked is not None:
            return
        if self.current == APPROVALS:
            self._do(self.approvals.clicked(column, line, self.world))
        else:
            now = self.clock.now()
            self._noticed(now)
            pointing.clicked(self.screen, self.screen.draw(self.world, self.paper, now).body, line)

    def scrolled(self, by: int) -> None:
        if self.current == APPROVALS:
            self.approvals.scrolled(by)
        elif not self._help and self._asked is None:
            pointing.wheeled(self.screen, by, self.world, self.clock.now())

    def tick(self, now: Moment | None = None) -> None:
        """Ten times a second: deciding keys that proved to be alone, questions answered, lists that live."""
        now = now or self.clock.now()
        if self._asked is not None and self._lone.alone(now.mono_s):
            asked, self._asked = self._asked, None
            if asked.task is None:
                self.closed = True
            else:
                self.feed.do(asked.task)
        self._do(self.screen.tick(self.world, now))
        if is_live(self.current, self.world) and now.mono_s - self._read_s >= REFRESH_S:
            self._read()

    @property
    def hurried(self) -> bool:
        """Whether something changes within a second."""
        answering = self.approvals.answering
        return answering.holding or self._lone.holding or not answering.arming.ready(self.clock.now().mono_s)

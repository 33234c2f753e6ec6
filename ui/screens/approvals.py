"""The Approvals screen: the queue at the left, one card at the right, and the human's answer to it.

Nothing moves under the fingers: the focus changes by the human's own key, or by their own answer. A yes is taken only
for a card that was drawn whole by this window, in a window large enough, after its arming; see `answering`.
"""

from dataclasses import dataclass, field

from broker.client.control import Served
from broker.client.credential_line import is_want
from broker.contract.neutralise import cells
from ui.answering import Answering, Approve, Barred, Key, Terms
from ui.cardpane import UNSEEN, Drawn, Sight, Slot, card_rows
from ui.folds import FOLDS, why_sealed
from ui.frame import last_rule, title
from ui.gap_answers import terms
from ui.hints import card_hints
from ui.messages import Answered, Decide, Mute, News, NotDone, OpenCard, QueueNews, TryNow, Unlock
from ui.paper import BAR, TEE, Paper, Role, Row, Span, marked
from ui.passphrase import Passphrase
from ui.queuepane import Filter, entry_at, queue_rows, queue_width
from ui.screens.apart import locked_sheet, lost_sheet
from ui.screens.calm import calm_of, empty_sheet
from ui.screens.sheet import AskFirst, Effect, Moment, Sheet, Sweep, body_height
from ui.served import Waiting
from ui.stamps import stamp, time_words
from ui.wording import differences
from ui.world import World

LEAST_WIDTH, LEAST_HEIGHT = 80, 22
MOST_ROWS = 1 << 20  # drawing brings it back to the last row


@dataclass(slots=True, kw_only=True)
class Approvals:
    """State of the screen between drawings."""

    focus: str | None = None
    passphrase: Passphrase = field(default_factory=Passphrase)
    answering: Answering = field(default_factory=Answering)
    unlocking: bool = False  # the passphrase page was asked for though the vault is open
    filter: Filter = field(default_factory=Filter)
    on_card: bool = False  # the pane that the moving keys go to; else the queue
    _scroll: int = 0
    _fold: str | None = None
    _sending: str | None = None
    _served: Served | None = None
    _changed: frozenset[str] = frozenset()
    _seen: set[int] = field(default_factory=set)
    _drawn: Drawn | None = None
    _paper: Paper = field(default_factory=lambda: Paper(width=0, height=0))

    # What is known has changed.

    def learn(self, news: News, world: World, now: Moment) -> tuple[Effect, ...]:
        """Follow the news that concern this screen; `world` has them folded in already."""
        if isinstance(news, NotDone) and isinstance(news.task, Unlock):
            self.passphrase.refused(news.problem)
        if isinstance(news, NotDone) and isinstance(news.task, Decide) and news.task.approval_id == self._sending:
            self._sending = None
            self.answering.arming.again(now.mono_s)
        if isinstance(news, Answered) and news.approval_id == self._sending:
            self._sending = None
            return self._on_to_next(world)
        return (*self.settle_focus(world), *self._joined_since(news, world))

    def _joined_since(self, news: News, world: World) -> tuple[Effect, ...]:
        """The queue says that more requests wait behind the card in focus: fetch it again."""
        entry, served = world.entry(self.focus), self._served
        if not isinstance(news, QueueNews) or entry is None or served is None or entry.joined == served.joined:
            return ()
        return (OpenCard(approval_id=served.id),)

    def settle_focus(self, world: World) -> tuple[Effect, ...]:
        """Keep the focus where it is; find one where there is none; begin a card that was just served."""
        if self.focus is None or world.entry(self.focus) is None:
            first = world.waiting.first()
            return () if first is None else self._move_to(first.id)
        served = world.card
        if served is not None and served.id == self.focus:
            self._take(served)
        elif self._served is not None and self._served.id != self.focus:
            self._served = None
        return ()

    def _take(self, served: Served) -> None:
        """A served card for the focus: the arming starts again if anything on it is new."""
        old = self._served
        if old is not None and old.id == served.id and (old.digest, old.joined) == (served.digest, served.joined):
            self._served = served
            return
        self._changed = differences(old, served) if old is not None and old.id == served.id else frozenset()
        self._served = served
        self._seen.clear()
        self.answering.begin(terms(served.card), served.arming_ms / 1000)

    def reopen(self, world: World) -> tuple[Effect, ...]:
        """After unlocking or reconnecting: the card in focus is asked for anew."""
        self._served = None
        self._seen.clear()
        self._sending = None
        if world.approver:
            self.unlocking = False
            self.passphrase.opened()
        return () if self.focus is None or not world.approver else (OpenCard(approval_id=self.focus),)

    def _on_to_next(self, world: World) -> tuple[Effect, ...]:
        following = self.filter.next_pending(world.waiting, self.focus, 1)
        if following is not None:
            return self._move_to(following)
        self.focus = None
        self._served = None
        return (Sweep(keep=None),)

    def _move_to(self, approval_id: str) -> tuple[Effect, ...]:
        self.focus = approval_id
        self._served, self._changed, self._fold, self._scroll = None, frozenset(), None, 0
        self._seen.clear()
        bare = Terms(typed_word=None, session_offered=False, may_end=not is_want(approval_id))
        self.answering.begin(bare, self.answering.arming.arming_s)
        return Sweep(keep=approval_id), OpenCard(approval_id=approval_id)

    # Drawing.

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        if (paper.width, paper.height) != (self._paper.width, self._paper.height):
            self._paper = paper
            self._seen.clear()
            self.answering.arming.undrawn()
        self._drawn = None
        if world.lost is not None:
            return lost_sheet(world, world.lost, paper, now)
        if self.unlocking or self.vault_shut(world):
            return locked_sheet(world, self.passphrase, paper)
        entry = world.entry(self.focus)
        if entry is None:
            return empty_sheet(calm_of(world, now, paper), paper, self.filter)
        return self._card_sheet(world, entry, paper, now)

    def _card_sheet(self, world: World, entry: Waiting, paper: Paper, now: Moment) -> Sheet:
        queue = queue_width(paper)
        height = body_height(paper)
        drawn = card_rows(self._sight(world, entry, now), paper, paper.width - queue - 1, height)
        self._drawn = drawn
        self._scroll = drawn.scroll
        muted, now_ms = bool(world.muted), now.wall_ms
        left = queue_rows(
            world.waiting, self.filter, self.focus, muted=muted, now_ms=now_ms, paper=paper, height=height
        )
        joint = next((at for at, line in enumerate(drawn.rows) if line and line[0].text.startswith("─")), -1)
        body: list[Row] = [
            (*left[at], Span(TEE if at == joint else BAR), *drawn.rows[at])
            for at in range(min(height, len(drawn.rows)))
        ]
        line = self.filter.shown(world.waiting)
        at = line.place(entry.id)
        alike = world.waiting.alike(entry.id)
        kind = "" if alike is None else f", {alike[0]} of {alike[1]} alike"
        place = f"{'?' if at is None else at + 1} of {len(line)}{kind}"
        named = f"[{place}]" if self.on_card else place
        name = self.filter.title(paper, queue)
        over = title(paper, named, time_words(entry, now_ms), queue=queue, left_of_queue=name)
        return Sheet(
            title=marked(over, named) if self.on_card else over,
            body=(*body, *[()] * (height - len(body))),
            last_rule=last_rule(paper, queue=queue),
            hints=card_hints(paper, on_card=self.on_card),
            cursor=(cells(name) + 1, 2) if self.filter.typing else (queue + 1 + drawn.cursor[0], 3 + drawn.cursor[1]),
        )

    def _sight(self, world: World, entry: Waiting, now: Moment) -> Sight:
        return Sight(
            served=self._served,
            entry=entry,
            problem=why_sealed(world, self.focus, self._paper),
            want=world.want if world.want is not None and world.want.id == entry.id else None,
            now_ms=now.wall_ms,
            slot=self._slot(world, now),
            seen=frozenset(self._seen) if self._barred(world, now).approving is None else None,
            scroll=self._scroll,
            fold=self._fold,
            settled=stamp(entry, now.wall_ms, self._paper) is not None,
            changed=self._changed,
            answering=self.answering,
        )

    def _barred(self, world: World, now: Moment) -> Barred:
        """What stands in the way of a yes and of a no, in the order in which it is said."""
        entry = world.entry(self.focus)
        if entry is None or world.lost is not None or self.unlocking or self.vault_shut(world):
            return Barred(approving="no card", denying="no card")
        why = stamp(entry, now.wall_ms, self._paper) or ("sending" if self._sending else None)
        if why is not None:
            return Barred(approving=why, denying=why)
        return Barred(approving=self._not_yet(world), denying=None)

    def _not_yet(self, world: World) -> str | None:
        if self._paper.width < LEAST_WIDTH or self._paper.height < LEAST_HEIGHT:
            return f"too small: {LEAST_WIDTH}x{LEAST_HEIGHT}"
        if not world.approver:
            return "approver locked: u"
        if is_want(self.focus):
            return "no key adds it"
        if self._served is None:
            return "no whole card"
        if self._fold is not None:
            return "Esc: the card"
        if self._drawn is not None and not self._drawn.must <= self._seen:
            return UNSEEN.text
        return None

    def _slot(self, world: World, now: Moment) -> Slot:
        barred = self._barred(world, now)
        if barred.approving is not None:
            return Slot(text=barred.approving, role=Role.LOOK)
        left_s = self.answering.arming.left_s(now.mono_s)
        if not self.answering.arming.ready(now.mono_s):
            return Slot(text=f"wait {max(left_s, 0.1):.1f} s")
        return Slot(text="ready", role=Role.KEY)

    @staticmethod
    def vault_shut(world: World) -> bool:
        return world.started and world.status.vault_state not in {"ready", ""}

    def painted(self, now: Moment) -> None:
        """The last drawing is on the terminal: what it showed counts as seen, and the arming may begin."""
        drawn = self._drawn
        if drawn is None or self._served is None:
            return
        self._seen |= drawn.visible
        if drawn.visible and drawn.must <= self._seen:
            self.answering.arming.drawn(now.mono_s)

    # Keys.

    def in_field(self, world: World) -> bool:
        if world.lost is not None:
            return False
        if self.unlocking or self.vault_shut(world):
            return self.passphrase.focused
        return self.answering.in_field or self.filter.typing

    def paste(self, text: str, world: World) -> None:
        if self.unlocking or self.vault_shut(world):
            self.passphrase.paste(text)
        elif world.lost is None and self.filter.typing:
            self.filter.paste(text)
        elif world.lost is None:
            self.answering.paste(text)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        if world.lost is not None:
            return (TryNow(),) if key.name == "r" else None
        if self.unlocking or self.vault_shut(world):
            return self._field_key(key, world)
        if self.filter.typing:
            return self._filter_key(key, world, now)
        if world.entry(self.focus) is None:
            return self._calm_key(key, world)
        if self.answering.key(key, self._barred(world, now), now.mono_s):
            return ()
        return self._card_key(key, world)

    def _field_key(self, key: Key, world: World) -> tuple[Effect, ...] | None:
        if not self.passphrase.focused:
            return self.to_field() if key.name == "u" else None
        sent = self.passphrase.key(key)
        if key.name == "escape" and not self.vault_shut(world):
            self.unlocking = False
        return (Unlock(sent),) if sent is not None else ()

    def to_field(self) -> tuple[Effect, ...]:
        self.unlocking = True
        self.passphrase.focus()
        return ()

    def _filter_key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...]:
        """The card behind the filter stays until the words are complete; its arming starts again."""
        self.answering.noticed(now.mono_s)
        self.answering.arming.again(now.mono_s)
        self.filter.key(key.name, key.printable)
        line = self.filter.shown(world.waiting)
        if self.filter.typing or line.place(self.focus) is not None:
            return ()
        first = line.first()
        return () if first is None else self._move_to(first.id)

    def _calm_key(self, key: Key, world: World) -> tuple[Effect, ...] | None:
        """Keys on the page of the empty queue."""
        match key.name:
            case "u" if not world.approver:
                return self.to_field()
            case "slash":
                self.filter.typing = True
            case "escape":
                self.filter.clear()
            case _:
                return None
        return ()

    def _card_key(self, key: Key, world: World) -> tuple[Effect, ...] | None:
        match key.name:
            case "j" | "down" | "k" | "up" | "g" | "home" | "G" | "end":
                return self._moved(key.name, world)
            case "pagedown" | "space":
                self._scroll += self._page_rows
            case "pageup" | "b":
                self._scroll -= self._page_rows
            case "tab":
                self.on_card = not self.on_card
            case "slash":
                self.filter.typing = True
            case "i" | "o" | "e":
                wanted = FOLDS[key.name]
                self._turn(None if self._fold == wanted else wanted)
            case "escape":
                self._back()
            case "u" | "M":
                return self._heard_key(key.name, world)
            case _:
                return None
        return ()

    def _moved(self, name: str, world: World) -> tuple[Effect, ...]:
        """By one, or to an end: in the pane that has the moving keys."""
        by = {"j": 1, "down": 1, "k": -1, "up": -1}.get(name)
        if self.on_card:
            self._scroll = self._scroll + by if by is not None else 0 if name in {"g", "home"} else MOST_ROWS
            return ()
        line = self.filter.shown(world.waiting)
        wanted = line.step(self.focus, by or (len(line) if name in {"G", "end"} else -len(line)))
        return () if wanted is None or wanted == self.focus else self._move_to(wanted)

    def _back(self) -> None:
        """One level at a time: the fold-out, the card's pane, the filter."""
        if self._fold is not None:
            self._turn(None)
        elif self.on_card:
            self.on_card = False
        else:
            self.filter.clear()

    def _heard_key(self, name: str, world: World) -> tuple[Effect, ...] | None:
        if name == "u" and not world.approver:
            return self.to_field()
        if self._served is None:
            return None
        session = self._served.card.who.session_id
        if name == "M":
            return (AskFirst(question="Mute this session?", task=Mute(session_id=session, muted=True)),)
        is_muted = any(one.id == session for one in world.muted)
        return (Mute(session_id=session, muted=False),) if is_muted else None

    @property
    def _page_rows(self) -> int:
        return max(self._drawn.page - 1, 1) if self._drawn is not None else 1

    def _turn(self, fold: str | None) -> None:
        """Another page of the same card: it has to be drawn again before a yes."""
        if fold != self._fold:
            self._fold, self._scroll = fold, 0
            self.answering.arming.undrawn()

    def next_waiting(self, world: World, by: int) -> tuple[Effect, ...]:
        """`n` and `p`: the next card that still waits, round the end."""
        wanted = self.filter.next_pending(world.waiting, self.focus, by)
        return () if wanted is None else self._move_to(wanted)

    def go_to(self, approval_id: str) -> tuple[Effect, ...]:
        """Leave the card in focus for another one."""
        return () if approval_id == self.focus else self._move_to(approval_id)

    def clicked(self, column: int, line: int, world: World) -> tuple[Effect, ...]:
        """The mouse moves the focus and never answers."""
        if self._drawn is None or column >= queue_width(self._paper):
            return ()
        shown = self.filter.shown(world.waiting)
        room = body_height(self._paper) - (len(shown) < len(world.waiting))
        entry = entry_at(shown, self.focus, line - 3, room)
        return () if entry is None or entry.id == self.focus else self._move_to(entry.id)

    def scrolled(self, by: int) -> None:
        self._scroll += by

    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]:
        """Send the answer whose key proved to be alone."""
        answer = self.answering.due(self._barred(world, now), now.mono_s)
        if answer is None or self.focus is None:
            return ()
        if isinstance(answer, Approve) and self._served is None:
            return ()
        self._sending = self.focus
        return (Decide(approval_id=self.focus, answer=answer, served=self._served),)

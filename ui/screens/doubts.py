"""The In doubt screen: changes whose end nobody knows, a read that may tell, and a human's signed word.

Settling takes a choice, a reason and a `y` of its own; no byte is sent for it. Foreign are targets, arguments, URLs.
"""

from dataclasses import dataclass, field

from typing_extensions import override

from broker.client import card_words as words
from broker.client.reasons_ready import REASON_LIMIT
from ui.activity_words import day, fields_line, trail_line, url_of
from ui.answering import Key
from ui.doubt_words import identified, known, read_back_before, sent_bytes, steps
from ui.frame import Hint, last_rule, title
from ui.kept import Kept
from ui.listing import Listing
from ui.messages import ReadBack, Settle
from ui.paper import CARET, LINE, Paper, Role, Row, Span, cut_end, cut_middle, fit, row, rule, tail, width_of, wrap
from ui.resting import Resting
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Effect, Moment, Say, Sheet, body_height, filled
from ui.scrolled import Scrolled
from ui.served import DoubtRow, EventRow
from ui.wording import dressed, effect_role
from ui.world import World

DETAIL_ROWS, ANSWER_ROWS = 8, 4
WHO, EFFECT, WHAT = 12, 7, 26
_OUTCOMES = {"1": ("applied", "done"), "2": ("not_applied", "not done")}


def _listing() -> Listing[DoubtRow]:
    return Listing(
        same=lambda item: item.correlation_id, searched=lambda item: f"{item.agent} {item.operation} {item.summary}"
    )


@dataclass(slots=True, kw_only=True)
class Doubts(ListScreen[DoubtRow]):
    """`_outcome` and `_reason` hold a settlement that is being written; None while there is none."""

    listed: Listing[DoubtRow] = field(default_factory=_listing)
    _settling: str | None = None
    _outcome: str | None = None
    _reason: str = ""
    _oldest: "Kept[int]" = field(default_factory=Kept)
    _resting: Resting = field(default_factory=Resting)
    _opened: Scrolled = field(default_factory=Scrolled)

    @override
    def in_field(self, world: World) -> bool:
        return world.lost is None and (self.listed.filtering or self._settling is not None)

    @override
    def paste(self, text: str, world: World) -> None:
        if not self.in_field(world):
            return
        if self._outcome is not None:
            self._reason = (self._reason + "".join(one if one.isprintable() else " " for one in text))[:REASON_LIMIT]
        else:
            self.listed.paste(text)

    @override
    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]:
        item = self.listed.focused(world.doubts or ())
        if item is None or not world.approver:
            return ()
        return self._resting.at((item.correlation_id, 0), now.mono_s, world.trail, lost=world.lost is not None)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = world.doubts or ()
        if self._settling is not None:
            return self._settle_key(key)
        if self._opened.on is not None:
            return self._opened.key(key)
        if self.listed.key(key, items):
            return ()
        item = self.listed.focused(items)
        if item is None or key.name not in {"r", "t", "enter"}:
            return None
        if key.name == "enter":
            self._opened.open(item.correlation_id)
            return ()
        if key.name == "r":
            if item.read_back is None:
                return (Say(words="there is nothing to read back for this one: settle it by hand (t)"),)
            self._resting.forget()
            said = "reading back; where a rule has the read asked for, its card waits: n"
            return (ReadBack(correlation_id=item.correlation_id), Say(words=said))
        if not world.approver:
            return (Say(words="settling is signed: unlock the approver key first (1, then u)"),)
        self._settling, self._outcome, self._reason = item.correlation_id, None, ""
        return ()

    def _settle_key(self, key: Key) -> tuple[Effect, ...]:
        """Done or not done, then a reason, then `y`."""
        if key.name == "escape" or self._settling is None:
            self._settling = None
        elif self._outcome is None:
            self._outcome = key.name if key.name in _OUTCOMES else None
        elif key.name == "enter" and self._reason.strip():
            wire, spoken = _OUTCOMES[self._outcome]
            task = Settle(correlation_id=self._settling, outcome=wire, reason=self._reason.strip())
            self._settling = None
            return (AskFirst(question=f"Sign that it was {spoken}?", task=task),)
        elif key.name in {"backspace", "ctrl+h"}:
            self._reason = self._reason[:-1]
        elif key.printable is not None:
            self._reason = (self._reason + key.printable)[:REASON_LIMIT]
        return ()

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        items = world.doubts or ()
        item = self.listed.focused(items)
        if item is not None and self._opened.on == item.correlation_id:
            lines = _whole(item, _trail(item, world), paper)
            return self._opened.sheet(f"In doubt: {paper.foreign(item.correlation_id, limit=60)}", lines, paper)
        self._opened.close()
        room = max(body_height(paper) - DETAIL_ROWS - ANSWER_ROWS - 1, 1)
        head = f" {'Sent':<10}{'Who':<{WHO}}{'Effect':<{EFFECT}}{'What':<{_what(paper)}}Known so far"
        body = [
            row(Span(head, Role.FAINT)),
            *self.rows(world.doubts, lambda one: _line(one, paper), paper, room, empty="Nothing is in doubt."),
        ]
        if item is None:
            body.append(row(LINE * paper.width))
        else:
            body += _detail(item, _trail(item, world), paper)
            body += self._answer_rows(item, world, paper)
        oldest = self._oldest.of(lambda: min((one.sent_at_ms for one in items), default=now.wall_ms), items)
        count = f"{len(items)} open, oldest {words.duration(now.wall_ms - oldest)}" if items else ""
        return Sheet(
            title=title(paper, f"In doubt {self.listed.filter_words(paper)}".rstrip(), count),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="row"),
                Hint(key="Enter", word="trail of events"),
                Hint(key="/", word="filter"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )

    def _answer_rows(self, item: DoubtRow, world: World, paper: Paper) -> list[Row]:
        slot = Span(" ready ", Role.KEY) if world.approver else Span(" approver locked: u ", Role.LOOK)
        end = (slot, Span(LINE))
        top = (*fit(row(rule(paper.width, LINE, left="A yes covers")), paper.width - width_of(end)), *end)
        if self._settling is None:
            read = "one read by the declared read-back; its answer settles the doubt or not"
            none = "no read-back is declared: nothing can settle this by itself"
            keys = row(Span("r", Role.KEY), " Read back  ") if item.read_back else ()
            leave, settle = Span("[Esc Leave it]", Role.FOCUS), f" Settle by hand{paper.dots}"
            return [
                top,
                row(" ", Span("r", Role.KEY), f"  {read}") if item.read_back else row(f" -  {none}"),
                row(" ", Span("t", Role.KEY), "  your signed word, done or not done, with a reason; no byte is sent"),
                row(" ", leave, "  ", *keys, Span("t", Role.KEY), settle),
            ]
        if self._outcome is None:
            return [
                top,
                row(" ", Span("1", Role.KEY), "  it was done: repeats are told so, and nothing is sent again"),
                row(" ", Span("2", Role.KEY), "  it was not done: the change may be asked for again"),
                row(" 1 or 2, Esc leaves"),
            ]
        room = paper.width - 30
        shown = tail(paper.foreign(self._reason), room - 1)
        field_text = f"[{shown}{CARET}{' ' * (room - 1 - len(shown))}]"
        spoken = _OUTCOMES[self._outcome][1]
        return [
            top,
            row(f" {spoken}, because: ", Span(field_text, Role.FOCUS)),
            row(" The reason is signed with it and stands in the log."),
            row(" Enter, then y signs. Esc leaves."),
        ]


def _trail(item: DoubtRow, world: World) -> tuple[EventRow, ...]:
    return world.trail.events if world.trail is not None and world.trail.correlation_id == item.correlation_id else ()


def _what(paper: Paper) -> int:
    return WHAT if paper.width < 110 else 40


def _line(item: DoubtRow, paper: Paper) -> Row:
    width = _what(paper)
    what = cut_end(paper.foreign(item.operation.replace(".", " ", 1)), width - 1, paper.dots)
    who = cut_end(paper.foreign(item.agent), WHO - 1, paper.dots)
    effect = cut_end(paper.foreign(item.effect), EFFECT - 1, paper.dots)
    return row(
        f"{words.clock_time(item.sent_at_ms):<10}{who:<{WHO}}",
        *fit((Span(effect, effect_role(effect)),), EFFECT),
        f"{what:<{width}}{known(item.phase, paper)}",
    )


def _detail(item: DoubtRow, trail: tuple[EventRow, ...], paper: Paper) -> list[Row]:
    room = paper.width - 5
    target = paper.foreign(identified(trail), limit=80)
    operation = paper.foreign(item.operation.replace(".", " ", 1), limit=60)
    name = f"{operation}, {target}" if target else paper.foreign(item.summary or item.operation)
    id_ = paper.foreign(item.correlation_id, limit=60)
    id_ = id_ if len(id_) <= 17 else f"{id_[:11]}{paper.dots}{id_[-4:]}"
    sent = sent_bytes(trail)
    size = "" if sent is None else f"   {words.counted(sent, 'byte')}"
    url = (url_of(trail, paper) or paper.foreign(item.summary)).replace(
        "https://", "" if paper.width < 120 else "https://"
    )
    effect = paper.foreign(item.effect, limit=24)
    url = cut_middle(url, max(paper.width - len(effect) - len(size) - len(id_) - 8, 20), paper.dots)
    first = row(" ", Span("? ", Role.UNKNOWN), Span(f"{effect} ", effect_role(effect)), f"{url}{size}   {id_}")
    key = item.change_key
    blocks = "the same change" if key is None or key.startswith("sha256:") else paper.foreign(key, limit=200)
    read = f"{paper.foreign(item.read_back, limit=room - 14)}; {read_back_before(trail)}" if item.read_back else "none"
    lines = [
        *_packed(
            steps(trail, paper) or [f"sent {words.clock_time(item.sent_at_ms)}, {known(item.phase, paper)}"], room
        ),
        f"   Blocks: {blocks}, by anyone, until this is settled.",
        f"   Read-back: {read}",
    ]
    rows = [row(rule(paper.width, LINE, left=cut_middle(name, paper.width - 8, paper.dots))), first]
    for line in lines:
        rows += [dressed(folded if at == 0 else f"   {folded}") for at, folded in enumerate(wrap(line, room + 1))]
    rows.append(row('   A read-back that finds nothing proves "not done" only if it is complete.'))
    return [*rows[:DETAIL_ROWS], *[()] * (DETAIL_ROWS - len(rows))]


def _packed(steps_: list[str], room: int) -> list[str]:
    """As many steps in a line as fit, none of them folded."""
    lines = [""]
    for step in steps_:
        longer = f"{lines[-1]}  {step}" if lines[-1] else step
        if lines[-1] and len(longer) > room:
            lines.append(step)
        else:
            lines[-1] = longer
    return [f"   {line}" for line in lines]


def _whole(item: DoubtRow, trail: tuple[EventRow, ...], paper: Paper) -> list[Row]:
    """All that is on record of it."""
    rows: list[Row] = [row(" ", Span("? ", Role.UNKNOWN), paper.foreign(item.summary, limit=400))]
    rows += [row(Span(f" {day(item.sent_at_ms)}", Role.FAINT)), ()]
    if not trail:
        return [*rows, row(Span(" reading its events", Role.FAINT))]
    rows += [
        fit(row(f" {words.clock_time(event.at_ms)}  ", *dressed(trail_line(event, paper))), paper.width)
        for event in trail
    ]
    for event in trail:
        named = f"record {event.seq}   {paper.foreign(event.name, limit=40)}   {fields_line(event, paper)}"
        rows += [(), *(row(Span(f" {line}", Role.FAINT)) for line in wrap(named, paper.width - 2))]
    return rows

"""The Activity screen: one row for each request and each act, newest first, and the trail of the one in focus.

While it follows, the newest row is in focus; once the human moves, nothing moves under the fingers: what comes is
counted, and `f` shows it. The trail is read when the focus has rested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from typing_extensions import override

from broker.client import card_words as words
from ui.activity_words import REMOTE, Told, clock_ms, condensed, day, fields_line, told, trail_line, url_of
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.kept import Kept
from ui.listing import Listing
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, cut_middle, fit, row, rule, wrap
from ui.resting import Resting
from ui.screens.listed import ListScreen
from ui.screens.sheet import Effect, Moment, Sheet, body_height, filled
from ui.scrolled import Scrolled
from ui.served import EventRow
from ui.served_log import ActivityRow
from ui.wording import dressed, effect_role
from ui.world import ROWS_KEPT, World

DETAIL_ROWS, DETAIL_ROWS_TALL = 4, 10
TALL = 30
WIDE = 110  # from here on there are columns for target, more and ms
WHO, WHO_WIDE, EFFECT, WHAT, END, MORE, MS = 12, 13, 7, 26, 18, 18, 5
Known: TypeAlias = Mapping[str, ActivityRow]


def _listing() -> Listing[ActivityRow]:
    return Listing(same=lambda item: item.id, searched=_searched)


def _searched(item: ActivityRow) -> str:
    known = (item.agent, item.effect, item.operation, item.target, item.category, item.code, item.reason, item.event)
    more = " ".join(str(value) for value in (item.fields or {}).values())
    return " ".join([*(text for text in known if text), *item.rules, item.id, more])


@dataclass(slots=True, kw_only=True)
class Activity(ListScreen[ActivityRow]):
    """`_seen_seq` is the newest row when the human began to look around; `_opened` a trail on the whole page."""

    listed: Listing[ActivityRow] = field(default_factory=_listing)
    following: bool = True
    _seen_seq: int = 0
    _opened: Scrolled = field(default_factory=Scrolled)
    _resting: Resting = field(default_factory=Resting)
    _held: "Kept[Sequence[ActivityRow]]" = field(default_factory=Kept)
    _known: "Kept[dict[str, ActivityRow]]" = field(default_factory=Kept)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = self._items(world)
        if self._opened.on is not None:
            return self._opened.key(key)
        if not self.listed.filtering and key.name in {"f", "enter"}:
            item = self.listed.focused(items)
            if key.name == "f":
                self._follow(world, on=not self.following)
            elif item is not None:
                self._opened.open(item.id)
            return ()
        if not self.listed.key(key, items):
            return None
        if not self.listed.filtering and key.name not in {"slash", "escape", "enter"}:
            self._follow(world, on=key.name in {"g", "home"})
        return ()

    def _follow(self, world: World, *, on: bool) -> None:
        if self.following and not on:
            self._seen_seq = max((item.seq for item in world.activity or ()), default=0)
        self.following = on

    @override
    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]:
        item = self.listed.focused(self._items(world))
        if item is None or item.alone:
            return ()
        return self._resting.at((item.id, item.last_seq), now.mono_s, world.trail, lost=world.lost is not None)

    def _items(self, world: World) -> Sequence[ActivityRow]:
        rows = world.activity or ()
        if self.following or not rows or rows[0].seq <= self._seen_seq:
            return rows
        return self._held.of(lambda: [item for item in rows if item.seq <= self._seen_seq], rows, self._seen_seq)

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        del now
        items = self._items(world)
        if self.following and items:
            self.listed.focus, self.listed.top = items[0].id, 0
        known = self._known.of(lambda: _by_id(world), world.activity)
        item = self.listed.focused(items)
        if item is not None and self._opened.on == item.id:
            return self._opened.sheet(
                f"Activity: {paper.foreign(item.id, limit=60)}", _whole(item, world, known, paper), paper
            )
        self._opened.close()
        detail = DETAIL_ROWS_TALL if paper.height >= TALL else DETAIL_ROWS
        room = max(body_height(paper) - detail - 1, 1)

        def line(item: ActivityRow) -> Row:
            return _line(item, told(item, known.get(item.of or ""), paper), paper)

        rows = self.rows(None if world.activity is None else items, line, paper, room, empty="Nothing was asked yet.")
        body = [_head(paper), *rows, *_detail(item, world, known, paper, detail)]
        return Sheet(
            title=title(paper, f"Activity {self.listed.filter_words(paper)}".rstrip(), self._state(world, items)),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="row"),
                Hint(key="Enter", word="all events"),
                Hint(key="/", word="filter"),
                Hint(key="f", word="follow"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )

    def _state(self, world: World, items: Sequence[ActivityRow]) -> str:
        whole = len(world.activity or ())
        if not whole:
            return ""
        new = whole - len(items)
        if new:
            return f"{new} new, f follows"
        newest = "the newest " if whole >= ROWS_KEPT else ""  # what is older: doorward audit show
        count = f"{len(self.listed.matching(items))} of {newest}{whole}"
        return f"following, {count}" if self.following else f"f follows, {count}"


def _by_id(world: World) -> dict[str, ActivityRow]:
    return {item.id: item for item in world.activity or () if not item.alone}


def _head(paper: Paper) -> Row:
    if paper.width < WIDE:
        return row(Span(f" {'Time':<11}{'Who':<{_who(paper)}}{'Effect':<{EFFECT}}{'What':<{WHAT}}End", Role.FAINT))
    target = _target(paper)
    text = f" {'Time':<11}{'Who':<{WHO_WIDE}}{'Effect':<{EFFECT}}{'What':<{WHAT}}{'Target':<{target}}"
    return row(Span(f"{text}{'End':<{END}}{'More':<{MORE}}{'ms':>{MS}}", Role.FAINT))


def _who(paper: Paper) -> int:
    return WHO if paper.width >= 80 else 8


def _target(paper: Paper) -> int:
    return max(paper.width - 12 - WHO_WIDE - EFFECT - WHAT - END - MORE - MS, 8)


def _line(item: ActivityRow, said: Told, paper: Paper) -> Row:
    at = row(f"{words.clock_time(item.at_ms)} ", Span(said.sign, said.role), " ")
    wide = paper.width >= WIDE
    who = _cell(said.who, WHO_WIDE if wide else _who(paper), paper)
    if item.alone and not wide:
        text = f"{said.what}, {said.target}" if said.target else said.what
        return row(*at, who, " " * EFFECT, text)
    word = cut_end(said.effect, EFFECT - 1, paper.dots)
    effect = fit((Span(word, effect_role(said.effect)),), EFFECT)
    what = _cell(said.what, WHAT, paper)
    if not wide:
        room = max(paper.width - 12 - _who(paper) - EFFECT - WHAT, 8)
        return row(*at, who, *effect, what, *dressed(_end(said, room, paper)))
    if item.alone:
        return row(*at, who, *effect, what, said.target)
    target, end = _cell(said.target, _target(paper), paper), _cell(said.end, END, paper)
    more = dressed(_cell(said.more, MORE, paper))
    return row(*at, who, *effect, what, Span(target, Role.FOREIGN), end, *fit(more, MORE), f"{said.ms:>{MS}}")


def _cell(text: str, width: int, paper: Paper) -> str:
    """Cut so that a blank stays before the next column."""
    shown = cut_end(text, width - 1, paper.dots)
    return (
        shown + " " * (width - len(shown))
        if shown.isascii()
        else "".join(span.text for span in fit((Span(shown),), width))
    )


def _end(said: Told, room: int, paper: Paper) -> str:
    """The end, and what is said beside it where there is room for the whole of it."""
    both = f"{said.end:<9} {said.short}"
    return both if said.short and len(both) <= room else cut_end(said.end, room, paper.dots)


def _detail(item: ActivityRow | None, world: World, known: Known, paper: Paper, height: int) -> list[Row]:
    if item is None:
        return [row(LINE * paper.width)]
    trail = _trail(item, world)
    name = cut_middle(paper.foreign(item.id, limit=60), 21 if paper.width < WIDE else 60, paper.dots)
    rows = [row(rule(paper.width, LINE, left=name))]
    if height == DETAIL_ROWS:
        return [*rows, *_short_detail(item, trail, known, paper)][:height]
    lines = [_summary(item, trail, known, paper), (), *_trail_rows(item, trail, paper)]
    if len(lines) > height - 1:
        left = len(lines) - height + 2
        lines = [*lines[: height - 2], row(Span(f" {words.counted(left, 'more event')}: Enter", Role.LOOK))]
    return [*rows, *lines]


def _trail(item: ActivityRow, world: World) -> tuple[EventRow, ...]:
    return world.trail.events if world.trail is not None and world.trail.correlation_id == item.id else ()


def _summary(item: ActivityRow, trail: tuple[EventRow, ...], known: Known, paper: Paper) -> Row:
    said = told(item, known.get(item.of or ""), paper)
    named = f"{said.what}, {said.target}" if said.target else said.what
    url = url_of(trail, paper)
    first = row(" ", Span(said.sign, said.role), " ")
    effect = (Span(f"{said.effect} ", effect_role(said.effect)),) if said.effect else (Span(f"{said.who} "),)
    return fit((*first, *effect, Span(named), Span(f"   {url}" if url else "")), paper.width)


def _trail_rows(item: ActivityRow, trail: tuple[EventRow, ...], paper: Paper) -> list[Row]:
    if item.alone:
        event = EventRow(
            seq=item.seq,
            name=item.event,
            at_ms=item.at_ms,
            correlation_id=None,
            session_id=item.session_id,
            fields=item.fields or {},
        )
        return [row(f" {line}") for line in wrap(fields_line(event, paper), paper.width - 2)]
    if not trail:
        return [row(Span(" reading its events", Role.FAINT))]
    rows = [_timed(at_ms, said, paper) for at_ms, said in condensed(trail, paper)]
    if item.category == "outcome_unknown":
        rows.append(row(f" {'open':<14}4 In doubt: ", Span("r", Role.KEY), " reads back"))
    return rows


def _timed(at_ms: int, said: str, paper: Paper) -> Row:
    return fit(row(f" {clock_ms(at_ms)}  ", *dressed(said)), paper.width)


def _short_detail(item: ActivityRow, trail: tuple[EventRow, ...], known: Known, paper: Paper) -> list[Row]:
    """Two or three rows: what happened last, and what it was allowed by."""
    said = told(item, known.get(item.of or ""), paper)
    if item.alone:
        lines = wrap(f"{said.who} {said.what} {said.target}".strip(), paper.width - 4)
        return [row(" ", Span(said.sign, said.role), f" {lines[0]}"), *(row(f"   {line}") for line in lines[1:2])]
    target = f", {said.target}" if said.target else ""
    first = row(" ", Span(said.sign, said.role), f" {said.what}{target}")
    told_last = [event for event in trail if event.name in REMOTE]
    happened = trail_line(told_last[-1], paper) if told_last else said.more
    if item.category == "outcome_unknown":
        happened = f"{happened.partition(' (')[0]}. It may have happened." if told_last else "It may have happened."
    second = f"   {happened}" if happened else "   nothing was sent"
    parts = [f"retry {paper.foreign(item.retry, limit=24)}"] if item.retry not in {None, "never"} else []
    parts += ["you approved"] if item.decision == "approve" else []
    parts += [f"rule {', '.join(paper.foreign(rule_id, limit=30) for rule_id in item.rules)}"] if item.rules else []
    parts += ["4 reads it back"] if item.category == "outcome_unknown" else []
    return [fit(first, paper.width), fit(dressed(second), paper.width), row(f"   {'   '.join(parts)}")]


def _whole(item: ActivityRow, world: World, known: Known, paper: Paper) -> list[Row]:
    trail = _trail(item, world)
    rows = [_summary(item, trail, known, paper), row(Span(f" {day(item.at_ms)}", Role.FAINT))]
    if item.alone or not trail:
        return [*rows, (), *_trail_rows(item, trail, paper)]
    rows += [(), *(_timed(event.at_ms, trail_line(event, paper), paper) for event in trail)]
    for event in trail:
        named = f"record {event.seq}   {paper.foreign(event.name, limit=40)}   {fields_line(event, paper)}"
        rows += [(), *(row(Span(f" {line}", Role.FAINT)) for line in wrap(named, paper.width - 2))]
    return rows

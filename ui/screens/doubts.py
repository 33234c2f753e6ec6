"""The In doubt screen: changes whose end nobody knows, a read that may tell, and a human's signed word."""

from dataclasses import dataclass, field

from typing_extensions import override

from broker.client import card_words as words
from ui.answering import REASON_LIMIT, Key
from ui.frame import Hint, last_rule, title
from ui.listing import Listing
from ui.messages import ReadBack, Settle
from ui.paper import CARET, LINE, Paper, Role, Row, Span, cut_end, cut_middle, row, rule, tail, wrap
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Effect, Moment, Say, Sheet, body_height, filled
from ui.served import DoubtRow
from ui.world import World

DETAIL_ROWS = 11
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

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = world.doubts or ()
        if self._settling is not None:
            return self._settle_key(key)
        if self.listed.key(key, items):
            return ()
        item = self.listed.focused(items)
        if item is None or key.name not in {"r", "t"}:
            return None
        if key.name == "r":
            if item.read_back is None:
                return (Say(words="there is nothing to read back for this one: settle it by hand (t)"),)
            return (ReadBack(correlation_id=item.correlation_id), Say(words="reading back"))
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
        room = max(body_height(paper) - DETAIL_ROWS - 1, 1)
        head = row(Span(f" {'Sent':<10}{'Who':<12}{'What':<34}Known so far", Role.FAINT))
        body = [
            head,
            *self.rows(world.doubts, lambda item: _line(item, paper), paper, room, empty="Nothing is in doubt."),
        ]
        item = self.listed.focused(items)
        body += _detail(item, paper) if item is not None else [row(LINE * paper.width)]
        body += self._answer_rows(item, paper)
        oldest = min((one.sent_at_ms for one in items), default=now.wall_ms)
        count = f"{len(items)} open, oldest {words.duration(now.wall_ms - oldest)}" if items else ""
        return Sheet(
            title=title(paper, f"In doubt {self.listed.filter_words(paper)}".rstrip(), count),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="row"),
                Hint(key="/", word="filter"),
                Hint(key="r", word="read back"),
                Hint(key="t", word=f"settle{paper.dots}"),
                Hint(key="q", word="quit"),
            ),
        )

    def _answer_rows(self, item: DoubtRow | None, paper: Paper) -> list[Row]:
        if item is None:
            return []
        top = row(rule(paper.width, LINE, left="A yes covers"))
        if self._settling is None:
            read = "one read of what is named above; its answer settles the doubt or not"
            none = "there is no read-back: nothing can settle this by itself"
            return [
                top,
                row(" ", Span("r", Role.KEY), f"  {read if item.read_back else none}"),
                row(" ", Span("t", Role.KEY), "  your signed word, done or not done, with a reason; no byte is sent"),
            ]
        if self._outcome is None:
            return [
                top,
                row(
                    " ",
                    Span("1", Role.KEY),
                    "  it was done     ",
                    Span("2", Role.KEY),
                    "  it was not done     Esc leaves",
                ),
            ]
        room = paper.width - 30
        shown = tail(paper.foreign(self._reason), room - 1)
        field_text = f"[{shown}{CARET}{' ' * (room - 1 - len(shown))}]"
        spoken = _OUTCOMES[self._outcome][1]
        return [
            top,
            row(f" {spoken}, because: ", Span(field_text, Role.FOCUS)),
            row(" Enter, then y signs. Esc leaves."),
        ]


def _line(item: DoubtRow, paper: Paper) -> Row:
    what = cut_end(paper.foreign(item.operation.replace(".", " ", 1)), 33, paper.dots)
    who = cut_end(paper.foreign(item.agent), 11, paper.dots)
    return row(f"{words.clock_time(item.sent_at_ms):<10}{who:<12}{what:<34}{paper.foreign(item.phase, limit=40)}")


def _detail(item: DoubtRow, paper: Paper) -> list[Row]:
    room = paper.width - 4
    name = cut_middle(paper.foreign(item.summary or item.operation), paper.width - 8, paper.dots)
    blocks = paper.foreign(item.change_key or "the same change", limit=room - 30)
    read = paper.foreign(item.read_back, limit=room - 14) if item.read_back else "none"
    known = paper.foreign(item.phase, limit=40) or "nothing"
    lines = [
        f" ? {paper.foreign(item.operation, limit=40)}   {paper.foreign(item.correlation_id, limit=48)}",
        f"   sent {words.clock_time(item.sent_at_ms)}; known so far: {known}",
        f"   Blocks: {blocks}, by anyone, until this is settled.",
        f"   Read-back: {read}",
        "   A read-back that finds nothing proves 'not done' only if it is complete.",
    ]
    rows = [row(rule(paper.width, LINE, left=name))]
    for line in lines:
        first, *more = wrap(line, paper.width - 4)
        rows += [row(first), *(row(f"   {folded}") for folded in more)]
    return [*rows[: DETAIL_ROWS - 4], *[()] * (DETAIL_ROWS - 4 - len(rows))]

"""The Activity screen: the audit log's events as they come, newest last, and all fields of the one in focus."""

from dataclasses import dataclass, field

from broker.client import card_words as words
from broker.contract.wire import JsonValue, dump
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.listing import Listing
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, row, rule, wrap
from ui.screens.listed import ListScreen
from ui.screens.sheet import Effect, Moment, Sheet, body_height, filled
from ui.served import EventRow
from ui.world import World

DETAIL_ROWS, DETAIL_ROWS_WIDE = 5, 10
_SIGNS = {
    "action.result": "+",
    "approval.decided": "=",
    "approval.refused": "-",
    "control.refused": "-",
    "vault.unlock_failed": "x",
    "transport.failed": "x",
    "operation.in_doubt": "?",
    "deadline.expired": "?",
}
_TELLING = ("category", "code", "decision", "operation", "rule", "agent", "service", "state", "reason")


def _listing() -> Listing[EventRow]:
    return Listing(
        same=lambda item: str(item.seq),
        searched=lambda item: (
            f"{item.name} {item.correlation_id or ''} {' '.join(str(one) for one in item.fields.values())}"
        ),
    )


@dataclass(slots=True, kw_only=True)
class Activity(ListScreen[EventRow]):
    listed: Listing[EventRow] = field(default_factory=_listing)
    following: bool = True

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = world.events or ()
        if key.name == "f" and not self.listed.filtering:
            self.following = not self.following
            return ()
        if not self.listed.key(key, items):
            return None
        if key.name not in {"slash", "G", "end"} and not self.listed.filtering:
            self.following = False
        return ()

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        del now
        items = world.events or ()
        if self.following and items:
            self.listed.focus = str(items[-1].seq)
        detail = DETAIL_ROWS_WIDE if paper.height >= 30 else DETAIL_ROWS
        room = max(body_height(paper) - detail - 1, 1)
        head = row(Span(f" {'Time':<9}  {'Seq':>7}  {'Event':<22}What", Role.FAINT))
        body = [head, *self.rows(world.events, lambda item: _line(item, paper), paper, room)]
        item = self.listed.focused(items)
        body += _detail(item, paper, detail) if item is not None else [row(LINE * paper.width)]
        shown = len(self.listed.matching(items))
        state = f"{'following' if self.following else 'f follows'}, {shown} of {len(items)}"
        return Sheet(
            title=title(paper, f"Activity {self.listed.filter_words(paper)}".rstrip(), state if items else ""),
            body=filled(body, paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="row"),
                Hint(key="/", word="filter"),
                Hint(key="f", word="follow"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )


def _line(item: EventRow, paper: Paper) -> Row:
    sign = _SIGNS.get(item.name, ".")
    if item.name == "action.result" and item.fields.get("category") not in {"success", "partial"}:
        sign = "?" if item.fields.get("category") == "outcome_unknown" else "-"
    role = {"+": Role.GOOD, "?": Role.UNKNOWN}.get(sign, Role.NO)
    told = "  ".join(paper.foreign(_spelled(item.fields[name]), limit=60) for name in _TELLING if item.fields.get(name))
    name = cut_end(paper.foreign(item.name), 21, paper.dots)
    return row(f"{words.clock_time(item.at_ms)} ", Span(sign, role), f"{item.seq:>8}  {name:<22}{told}")


def _detail(item: EventRow, paper: Paper, height: int) -> list[Row]:
    rows = [row(rule(paper.width, LINE, left=paper.foreign(item.correlation_id or item.name, limit=60)))]
    text = "   ".join(f"{name} {_spelled(value)}" for name, value in item.fields.items() if value not in (None, ""))
    rows += [row(f" {line}") for line in wrap(paper.foreign(text), paper.width - 2)]
    if len(rows) > height:
        rows = [*rows[: height - 1], row(Span(f" {paper.dots} more: doorward audit show", Role.LOOK))]
    return rows


def _spelled(value: JsonValue) -> str:
    return value if isinstance(value, str) else dump(value).decode("utf-8", "replace")

"""The left side of the Approvals screen: what waits, in order of arrival, two rows each. Pure.

Never re-sorted; scrolls by itself to keep the focus in sight, and says how many are out of it.
"""

from collections.abc import Sequence

from broker.client.card_words import countdown
from broker.contract.neutralise import cells
from ui.paper import FOCUS_MARK, Paper, Role, Row, Span, cut_end, fit, row, spread
from ui.served import Waiting
from ui.wording import WIDE, effect_role, escapes_shown

NARROW_WIDTH, WIDE_WIDTH = 20, 30
URGENT_MS = 15_000


def queue_width(paper: Paper) -> int:
    """Columns left of the rule; none where the terminal has no room for them."""
    if paper.width >= WIDE:
        return WIDE_WIDTH
    return NARROW_WIDTH if paper.width >= 60 else 0


def first_shown(count: int, focus: int, room: int) -> int:
    """Index of the first entry to draw so that the focused one is drawn."""
    if count * 2 <= room or focus < (room - 1) // 2:
        return 0
    both = max((room - 2) // 2, 1)
    last = count - (room - 1) // 2
    return min(max(focus - both + 1, 0), max(last, 0))


def queue_rows(
    entries: Sequence[Waiting], focus: str | None, *, muted: bool, now_ms: int, paper: Paper, width: int, height: int
) -> list[Row]:
    """Exactly `height` rows of `width` cells."""
    if not entries:
        return [fit(row(line), width) for line in ["", " nothing waits", *[""] * height][:height]]
    at = next((index for index, entry in enumerate(entries) if entry.id == focus), 0)
    first = first_shown(len(entries), at, height)
    out: list[Row] = [row(Span(f" ^ {first} more", Role.LABEL))] if first else []
    room = height - len(out)
    shown = room // 2 if (len(entries) - first) * 2 <= room else (room - 1) // 2
    for entry in entries[first : first + shown]:
        out += _entry(entry, focused=entry.id == focus, now_ms=now_ms, paper=paper, width=width)
    left = len(entries) - first - shown
    if left > 0:
        out.append(row(Span(f" v {left} more{', M muted' if muted else ''}", Role.LABEL)))
    return [fit(line, width) for line in [*out, *[()] * height][:height]]


def entry_at(entries: Sequence[Waiting], focus: str | None, line: int, height: int) -> Waiting | None:
    """The entry that is drawn in a row of the pane, for the mouse."""
    at = next((index for index, entry in enumerate(entries) if entry.id == focus), 0)
    first = first_shown(len(entries), at, height)
    index = first + (line - (1 if first else 0)) // 2
    return entries[index] if 0 <= index < len(entries) else None


def _entry(entry: Waiting, *, focused: bool, now_ms: int, paper: Paper, width: int) -> list[Row]:
    role = Role.PLAIN if entry.pending else Role.FAINT
    effect = paper.foreign(entry.effect)[:6]
    mark = Span(FOCUS_MARK, Role.KEY) if focused else Span(" ")
    left: list[Span] = [mark, Span(effect, effect_role(effect) if entry.pending else role)]
    name, indent = entry.operation.partition(".")[2] or entry.operation, " "
    if width >= WIDE_WIDTH:
        left.append(Span(f"{'':<{7 - len(effect)}}{cut_end(paper.foreign(entry.agent), 15, paper.dots)}", role))
        name, indent = entry.operation.replace(".", " ", 1), "  "
    times = f" x{entry.joined}" if entry.joined > 1 else ""
    operation = cut_end(paper.foreign(name), width - 1 - len(indent) - cells(times), paper.dots) + times
    return [
        spread(left, (_time_left(entry, now_ms), Span(" ")), width),
        (Span(indent), *escapes_shown([Span(operation, role)])),
    ]


def _time_left(entry: Waiting, now_ms: int) -> Span:
    if not entry.pending:
        return Span(entry.state[:10], Role.FAINT)
    left_ms = entry.expires_at_ms - now_ms
    if left_ms < URGENT_MS:
        return Span(f"!{countdown(left_ms)}", Role.LOOK)
    return Span(countdown(left_ms))

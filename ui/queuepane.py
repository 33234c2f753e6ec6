"""The left side of the Approvals screen: what waits, in order of arrival, two rows each. Pure.

Scrolls by itself to keep the focus in sight, and says how many are out of it; makes no rows that are not drawn.
"""

from dataclasses import dataclass

from broker.contract.neutralise import cells
from ui.paper import CARET, FOCUS_MARK, Paper, Role, Row, Span, cut_end, fit, row, spread, tail
from ui.served import Waiting
from ui.stamps import time_left
from ui.waiting_line import WaitingLine
from ui.wording import WIDE, effect_role, escapes_shown

NARROW_WIDTH, WIDE_WIDTH = 20, 30
FILTER_LIMIT = 60


@dataclass(slots=True, kw_only=True)
class Filter:
    """The words that entries have to hold to be shown. `typing` keys are text."""

    words: str = ""
    typing: bool = False

    def key(self, name: str, printable: str | None) -> None:
        match name:
            case "escape":
                self.clear()
            case "enter":
                self.typing = False
            case "backspace" | "ctrl+h":
                self.words = self.words[:-1]
            case "ctrl+u":
                self.words = ""
            case _ if printable is not None:
                self.words = (self.words + printable)[:FILTER_LIMIT]
            case _:
                pass

    def paste(self, text: str) -> None:
        self.words = (self.words + "".join(one for one in text if one.isprintable()))[:FILTER_LIMIT]

    def clear(self) -> None:
        self.words, self.typing = "", False

    def shown(self, line: WaitingLine) -> WaitingLine:
        return line.matching(self.words)

    def next_pending(self, line: WaitingLine, focus: str | None, by: int) -> str | None:
        """Among those that are shown; where none of them waits any more, the filter has done its work."""
        wanted = self.shown(line).next_pending(focus, by)
        if wanted is None and self.words:
            self.clear()
            wanted = line.next_pending(focus, by)
        return wanted

    def title(self, paper: Paper, width: int) -> str:
        """What stands over the queue: the end of long words stays in sight."""
        if not self.words and not self.typing:
            return "Waiting"
        room = max(width - 6, 1)
        return "/ " + tail(paper.foreign(self.words) + (CARET if self.typing else ""), room)


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
    whole: WaitingLine, words: Filter, focus: str | None, *, muted: bool, now_ms: int, paper: Paper, height: int
) -> list[Row]:
    """Exactly `height` rows as wide as the pane."""
    line, width = words.shown(whole), queue_width(paper)
    hidden = len(whole) - len(line)
    last = [row(Span(f" {hidden} hidden: Esc", Role.LABEL))] if hidden else []
    room = height - len(last)
    if not len(line):
        out: list[Row] = [(), row(" none match" if hidden else " nothing waits")][:room]
    else:
        out = _entries(line, focus, muted=muted, now_ms=now_ms, paper=paper, width=width, height=room)
    return [fit(one, width) for one in [*out, *[()] * (room - len(out)), *last][:height]]


def _entries(
    line: WaitingLine, focus: str | None, *, muted: bool, now_ms: int, paper: Paper, width: int, height: int
) -> list[Row]:
    first = first_shown(len(line), line.place(focus) or 0, height)
    out: list[Row] = [row(Span(f" ^ {first} more", Role.LABEL))] if first else []
    room = height - len(out)
    shown = room // 2 if (len(line) - first) * 2 <= room else (room - 1) // 2
    for entry in line.entries[first : first + shown]:
        alike = line.alike(entry.id)
        out += _entry(entry, alike, focused=entry.id == focus, now_ms=now_ms, paper=paper, width=width)
    left = len(line) - first - shown
    if left > 0:
        out.append(row(Span(f" v {left} more{', M muted' if muted else ''}", Role.LABEL)))
    return out


def entry_at(line: WaitingLine, focus: str | None, at_row: int, height: int) -> Waiting | None:
    """The entry that is drawn in a row of the pane, for the mouse."""
    first = first_shown(len(line), line.place(focus) or 0, height)
    index = first + (at_row - (1 if first else 0)) // 2
    return line.entries[index] if 0 <= index < len(line) else None


def _entry(
    entry: Waiting, alike: tuple[int, int] | None, *, focused: bool, now_ms: int, paper: Paper, width: int
) -> list[Row]:
    role = Role.PLAIN if entry.pending else Role.FAINT
    effect = paper.foreign(entry.effect)[:6]
    mark = Span(FOCUS_MARK, Role.KEY) if focused else Span(" ")
    left: list[Span] = [mark, Span(effect, effect_role(effect) if entry.pending else role)]
    name, indent = entry.operation.partition(".")[2] or entry.operation, " "
    if width >= WIDE_WIDTH:
        left.append(Span(f"{'':<{7 - len(effect)}}{cut_end(paper.foreign(entry.agent), 15, paper.dots)}", role))
        name, indent = entry.operation.replace(".", " ", 1), "  "
    times = f" x{entry.joined}" if entry.joined > 1 else ""
    times += f" {alike[0]}/{alike[1]}" if alike is not None else ""
    operation = cut_end(paper.foreign(name), width - 1 - len(indent) - cells(times), paper.dots) + times
    return [
        spread(left, (time_left(entry, now_ms), Span(" ")), width),
        (Span(indent), *escapes_shown([Span(operation, role)])),
    ]

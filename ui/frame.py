"""The frame that all screens share: state, screens, title rule, last rule, keys. Row by row, fixed at every size.

Trouble is never cut: where room is short the clock goes first, then what is well from the left; a `!` stays.
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ui.paper import JOINT_DOWN, JOINT_UP, LINE, Paper, Role, Row, Span, cut_end, fit, row, rule, spread, width_of

SCREENS = ("Approvals", "Activity", "Sessions", "In doubt", "Vault", "Policy", "Audit")
GAP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Lamp:
    """One state in the header. `word` says what is wrong; None is well. `off` stands for a thing that is not there."""

    name: str
    word: str | None = None
    off: bool = False

    def span(self) -> Span:
        if self.off:
            return Span(f"-{self.name}", Role.NO)
        if self.word is None:
            return Span(f"+{self.name}", Role.GOOD)
        return Span(f"!{self.name} {self.word}".rstrip(), Role.LOOK)

    @property
    def well(self) -> bool:
        return self.word is None and not self.off


def header(paper: Paper, *, counts: Sequence[Span], lamps: Sequence[Lamp], clock: str, clock_long: str) -> Row:
    """Row 1: counts at the left, states and the clock at the right."""
    left: list[Span] = []
    for count in counts:
        left += [Span("  " if left else " "), count]
    clock_now = clock_long if paper.width >= 120 else clock
    shown, clock_shown = list(lamps), bool(clock_now)
    while True:
        right = _states(shown, clock_now if clock_shown else "")
        if width_of((*left, *right)) + GAP <= paper.width:
            break
        if clock_shown:
            clock_shown = False
            continue
        well = next((lamp for lamp in shown if lamp.well), None)
        if well is None:
            break
        shown.remove(well)
    return spread(left, right, paper.width)


def _states(lamps: Sequence[Lamp], clock: str) -> list[Span]:
    out: list[Span] = []
    for at, lamp in enumerate(lamps):
        if at:
            trouble = lamp.word is not None or lamps[at - 1].word is not None
            out.append(Span("  " if trouble else " "))
        out.append(lamp.span())
    return [*out, Span(f"   {clock} ", Role.FAINT)] if clock else out


def screens(paper: Paper, *, current: int, marked: Sequence[int]) -> Row:
    """Row 2. `marked` are the screens where something wants the human, by number."""
    out: list[Span] = []
    for number, name in enumerate(SCREENS, start=1):
        sign = "!" if number in marked and number != current else ""
        if number == current:
            out.append(Span(f"[{number} {name}]", Role.FOCUS))
            after = ""
        else:
            out.append(Span(f" {number} {name}"))
            after = sign or " "
        if after:
            out.append(Span(after, Role.LOOK if sign else Role.PLAIN))
    return fit(tuple(out), paper.width)


def title(paper: Paper, left: str, right: str = "", *, queue: int = 0, left_of_queue: str = "") -> Row:
    """Row 3. With `queue` columns at the left the rule has a joint and both parts a title."""
    if not queue:
        return row(rule(paper.width, LINE, left=cut_end(left, paper.width - 8, paper.dots), right=right))
    first = rule(queue, LINE, left=left_of_queue)
    return row(first + JOINT_DOWN + rule(paper.width - queue - 1, LINE, left=left, right=right))


def last_rule(paper: Paper, *, queue: int = 0) -> Row:
    if not queue:
        return row(LINE * paper.width)
    return row(LINE * queue + JOINT_UP + LINE * (paper.width - queue - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A key of the footer and what it does."""

    key: str
    word: str

    def spans(self) -> tuple[Span, Span]:
        return Span(self.key, Role.KEY), Span(f" {self.word}")


HELP = Hint(key="?", word="help")


def footer(paper: Paper, hints: Sequence[Hint]) -> Row:
    """The last row: whole words or nothing, cut from the right; help always stays."""
    help_width = width_of(HELP.spans()) + 1
    left: list[Span] = []
    for hint in hints:
        spans = [Span("  " if left else " "), *hint.spans()]
        if width_of((*left, *spans)) + 1 + help_width > paper.width:
            break
        left += spans
    return spread(left, (*HELP.spans(), Span(" ")), paper.width)


def asking(paper: Paper, question: str, also: Sequence[tuple[str, str]] = ()) -> Row:
    """The last row while a question waits for its `y`, or for another key that answers it."""
    others = [part for key, word in also for part in (Span(key, Role.KEY), f" {word}, ")]
    asked = row(" ", Span(question, Role.LOOK), "  ", Span("y", Role.KEY), " yes, ", *others, "any other key leaves")
    return fit(asked, paper.width)

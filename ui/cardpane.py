"""The right side of the Approvals screen: a card between its summary and its answers, on an exact grid.

`card_rows` is pure. Summary, target and answers have fixed places; only the middle scrolls. What a yes covers is
always drawn whole: the middle gives up rows for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.client import card_words as words
from broker.client.before_words import denial
from broker.client.card import Card
from broker.client.control import Served
from broker.client.credential_line import is_want
from broker.contract.neutralise import cells
from ui import gap_answers, wants
from ui.answering import REASONS, Answering, Mode
from ui.folds import body_lines, exact_parts, sealed_parts, who_lines
from ui.paper import (
    BAR,
    CARET,
    LINE,
    THUMB,
    Paper,
    Role,
    Row,
    Span,
    cut_end,
    fit,
    head,
    row,
    rule,
    tail,
    text_of,
    width_of,
    wrap_row,
)
from ui.served import Waiting
from ui.wants import Want
from ui.wording import (
    WIDE,
    Line,
    Part,
    dressed,
    escapes_shown,
    laid_out,
    parts,
    summary_row,
    target_row,
)

YES_ROWS = 3
NOT_OFFERED = "not offered"
FIXED_ABOVE = 2  # summary, target
LEAST_BELOW = 3  # a row of the middle, the answers' rule, their keys: they stay in the smallest window


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What stands at the right end of the answers' rule."""

    text: str
    role: Role = Role.LABEL


ENTER_SENDS = Slot(text="Enter sends")
UNSEEN = Slot(text="see the rest: PgDn", role=Role.LOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All that a drawing of a card depends on, but for the size."""

    served: Served | None
    entry: Waiting
    problem: str  # why there is no served card
    want: Want | None = None  # a credential that is waited for: a card without a yes
    now_ms: int
    slot: Slot
    seen: frozenset[int] | None = None  # rows that were on the screen before; None where seeing them is no question
    scroll: int = 0
    fold: str | None = None
    settled: bool = False
    changed: frozenset[str] = frozenset()
    answering: Answering


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The pane's rows, and what was and was not on them. `cursor` is column and row within the pane."""

    rows: tuple[Row, ...]
    scroll: int
    page: int
    must: frozenset[int]
    visible: frozenset[int]
    cursor: tuple[int, int]


def card_rows(sight: Sight, paper: Paper, width: int, height: int) -> Drawn:
    """`height` rows, each `width` cells: summary and target, the scrolled middle, the answers."""
    text_width = width - 2  # a blank before, the scroll bar behind
    covers = _covers(sight, paper, text_width)[: max(height - FIXED_ABOVE - LEAST_BELOW, 0)]
    middle = max(height - FIXED_ABOVE - 1 - len(covers) - 1, 1)
    lines = _middle_lines(sight, paper, text_width, middle)
    most = max(len(lines) - middle, 0)
    scroll = min(max(sight.scroll, 0), most)
    shown = lines[scroll : scroll + middle]
    bar = _bar(len(lines), middle, scroll)
    body = [
        (Span(" "), *(shown[at].row if at < len(shown) else fit((), text_width)), Span(bar[at])) for at in range(middle)
    ]
    visible = frozenset(range(scroll, scroll + len(shown))) if sight.fold is None else frozenset()
    must = frozenset(at for at, line in enumerate(lines) if line.must and sight.fold is None)
    slot = UNSEEN if sight.seen is not None and must - sight.seen - visible else sight.slot
    slot = ENTER_SENDS if sight.answering.mode is Mode.DENYING and not sight.settled else slot
    keys, cursor = _answer_row(sight, paper, text_width)
    rows = [
        *(_padded(line, width) for line in _top(sight, paper, text_width)),
        *body,
        _rule(sight, slot, paper, width, below=most - scroll),
        *(_padded(line, width) for line in covers),
        _padded(keys, width),
    ]
    cut = rows[:height]
    return Drawn(
        rows=tuple(cut),
        scroll=scroll,
        page=middle,
        must=must,
        visible=visible,
        cursor=(cursor + 1, len(rows) - 1),
    )


def _padded(line: Row, width: int) -> Row:
    return fit((Span(" "), *line), width)


def _top(sight: Sight, paper: Paper, width: int) -> tuple[Row, Row]:
    if sight.served is None:
        entry = sight.entry
        named = paper.foreign(entry.operation.replace(".", " ", 1))
        what = cut_end(f"{paper.foreign(entry.effect):<6} {named}", width, paper.dots)
        return dressed(what), escapes_shown([Span(cut_end("  " + paper.foreign(entry.target), width, paper.dots))])
    card = sight.served.card
    return summary_row(card, paper, width), target_row(card, paper, width)


def _middle_lines(sight: Sight, paper: Paper, width: int, room: int) -> Sequence[Line]:
    """The parts under one blank row; the blank goes first where room is short."""
    if sight.served is not None and sight.fold == "body":
        return body_lines(sight.served, paper, width)
    blocks = _blocks(sight, paper, width)
    gaps = paper.height >= 30
    lines = laid_out(blocks, paper, width, changed=sight.changed, gaps=gaps)
    if gaps and len(lines) + 1 > room:
        lines = laid_out(blocks, paper, width, changed=sight.changed, gaps=False)
    blank = [Line(row=fit((), width), must=False)]
    return [*blank, *lines] if len(lines) < room else lines


def _blocks(sight: Sight, paper: Paper, width: int) -> Sequence[Part]:
    served = sight.served
    if sight.want is not None:
        return wants.parts(sight.want)
    if served is None:
        return sealed_parts(sight.entry, sight.problem, paper)
    match sight.fold:
        case "who":
            return who_lines(served, sight.now_ms)
        case "exact":
            return exact_parts(served)
        case _:
            return parts(served, paper, width, sight.now_ms)


def _bar(total: int, room: int, scroll: int) -> str:
    if total <= room:
        return " " * room
    thumb = max(room * room // total, 1)
    top = scroll * (room - thumb) // (total - room)
    return BAR * top + THUMB * thumb + BAR * (room - thumb - top)


def _rule(sight: Sight, slot: Slot, paper: Paper, width: int, *, below: int) -> Row:
    name = "A no tells the agent" if sight.answering.mode is Mode.DENYING else "A yes covers"
    slot_text = cut_end(slot.text, max(width - cells(name) - 8, 4), paper.dots)
    end = (Span(f" {slot_text} ", slot.role), Span(LINE))
    room = width - width_of(end)
    more = f" {LINE * 2} v {words.counted(below, 'more line')}" if below else ""
    left = name + more if cells(name + more) + 4 <= room else name
    return (*fit(row(rule(room, LINE, left=left)), room), *end)


def _covers(sight: Sight, paper: Paper, width: int) -> list[Row]:
    """What a yes covers, or the ready reasons while a no is written; at least three rows."""
    if sight.answering.mode is not Mode.DENYING and is_want(sight.entry.id):
        lines: list[Row] = [row("nothing here: it is answered by adding the credential")]
    elif sight.served is None and sight.answering.mode is not Mode.DENYING:
        lines = [row("nothing: this card can only be denied here")]
    elif sight.answering.mode is Mode.DENYING:
        lines = _keyed([(str(at), reason) for at, reason in enumerate(REASONS, start=1)], paper, width)
    else:
        lines = [] if sight.served is None else _ways(sight.served, paper, width)
    if sight.settled:
        lines = [row(Span(text_of(line), Role.FAINT)) for line in lines]
    return [*lines, *([()] * (YES_ROWS - len(lines)))]


def _ways(served: Served, paper: Paper, width: int) -> list[Row]:
    card = served.card
    once = words.yes_once(card, joined_calls=served.joined)
    ways = [("a", once), ("s", words.yes_session(card))]
    if gap_answers.has_ways(card):
        ways = gap_answers.ways(card, once, paper, width - 3)
    elif card.denial_memory_s is not None and cells(once) <= width - 3 and not card.yes.session.offered:
        ways.append(("d", denial(card)))  # there is a row left for it
    return _keyed(ways, paper, width)


def _keyed(ways: Sequence[tuple[str, str]], paper: Paper, width: int) -> list[Row]:
    """A key and its sentence each, folded. A key that does nothing just now does not look like one."""
    out: list[Row] = []
    for key, sentence in ways:
        role = Role.FAINT if sentence.startswith(NOT_OFFERED) else Role.KEY
        folded = wrap_row(dressed(paper.drawable(sentence)), width - 3)
        out += [
            (Span(f"{key}  " if at == 0 else "   ", role if at == 0 else Role.PLAIN), *line)
            for at, line in enumerate(folded)
        ]
    return out


def _answer_row(sight: Sight, paper: Paper, width: int) -> tuple[Row, int]:
    """The last row of the pane, and the column where the cursor sits."""
    answering = sight.answering
    if sight.settled:
        return row(Span("settled; it stays until you move: j k n", Role.FAINT)), 0
    match answering.mode:
        case Mode.LOOKING:
            return _keys(sight, paper, width), 0
        case Mode.DENYING:
            hint = answering.note or "1-3 or words, Enter, Esc"
            return _field("Reason ", answering.text, f" {hint}", paper, width, most=60)
        case Mode.TYPING:
            word = paper.foreign(answering.terms.typed_word or "")
            prompt, hint = f"Type {word} to {_verb(sight)}: ", answering.note or "Esc back to Deny"
            return _field(prompt, answering.text, f"  {hint}", paper, width, most=max(11, cells(word) + 2))
        case Mode.GRANTING:
            return _question("Grant it to this session?"), 0
        case Mode.ENDING:
            return _question("Deny and end this session?"), 0


def _question(text: str) -> Row:
    return row(Span(text, Role.LOOK), "  ", Span("y", Role.KEY), " yes, any other key leaves")


def _field(prompt: str, text: str, after: str, paper: Paper, width: int, *, most: int) -> tuple[Row, int]:
    """`Reason [words▏     ] hint`: the end of a long text is what stays in sight, and the hint gives way first."""
    shown = paper.foreign(text)
    inner = min(most, width - cells(prompt) - 2 - cells(after))
    if inner < min(most, 12):
        after = ""
        inner = max(min(most, width - cells(prompt) - 2), 4)
    kept = tail(shown, inner - 1)
    filled = f"[{kept}{CARET}{' ' * (inner - 1 - cells(kept))}]"
    return row(head(prompt, width), Span(filled, Role.FOCUS), after), cells(prompt) + 1 + cells(kept)


def _verb(sight: Sight) -> str:
    if sight.served is not None and sight.served.card.doubts:
        return "send again"
    if sight.served is not None and sight.served.card.evidence.has_gap:
        return "go on anyway"
    if sight.served is not None and sight.served.card.ssh is not None and sight.served.card.ssh.is_first_contact:
        return "trust it"
    return {"DELETE": "delete", "RUN": "run"}.get(sight.entry.effect, "approve")


def _keys(sight: Sight, paper: Paper, width: int) -> Row:
    if sight.served is not None and gap_answers.has_ways(sight.served.card):
        return gap_answers.keys(sight.served.card, width)
    if is_want(sight.entry.id):
        return (Span("[d Decline]", Role.FOCUS),)
    ends = " Deny + end session" if paper.width >= WIDE else " Deny + end"
    after: list[Span] = [Span("  "), Span("x", Role.KEY), Span(ends)]
    out: list[Span] = [Span("[d Deny]", Role.FOCUS)]
    if sight.served is not None:
        card = sight.served.card
        if card.yes.session.offered:
            after = [Span("  "), Span("s", Role.KEY), Span(" For session"), *after]
        room = width - width_of((*out, *after)) - 4
        out += [Span("  "), Span("a", Role.KEY), Span(f" {_approve_words(card, paper, room)}")]
    return (*out, *after)


def _approve_words(card: Card, paper: Paper, room: int) -> str:
    if card.typed_word is None:
        return "Approve once"
    if card.ssh is not None and card.ssh.is_first_contact:
        shown = f"Trust key + run (type {paper.foreign(card.typed_word)})"
        return shown if cells(shown) <= room else "Trust key + run (type it)"
    verb = {"DELETE": "Delete", "RUN": "Run"}.get(card.summary.effect, "Approve")
    words_shown = f"{verb} (type {paper.foreign(card.typed_word)})"
    return words_shown if cells(words_shown) <= room else f"{verb} (type it)"

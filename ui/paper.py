"""Rows of styled text on a grid of terminal cells: the only thing that the screens hand to the terminal.

A `Span` holds text that is safe to draw: our own words, or words of others that `Paper.foreign` made harmless.
Rows are measured in cells, cut and padded here. Pure; knows no widgets and no colours, only roles.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from broker.contract.neutralise import cells, visible

BAR, TEE, JOINT_DOWN, JOINT_UP, LINE = "│", "├", "┬", "┴", "─"
FOCUS_MARK, THUMB, CARET, DOTS, DOT = "▌", "┃", "▏", "…", "•"
_PLAIN_GLYPHS = str.maketrans(
    f"{BAR}{LINE}{FOCUS_MARK}{THUMB}{CARET}{DOT}{TEE}{JOINT_DOWN}{JOINT_UP}┌┐└┘┤", "|->#_*++++++++"
)


class Role(StrEnum):
    """What a piece of text means; app.tcss gives each its colour."""

    PLAIN = "plain"
    FAINT = "faint"
    KEY = "key"
    LABEL = "label"
    FOCUS = "focus"
    GOOD = "good"
    LOOK = "look"
    UNKNOWN = "unknown"
    DANGER = "danger"
    NO = "no"
    FOREIGN = "foreign"
    ESCAPE = "escape"  # our spelling of a character of others that can't be shown


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text in one role."""

    text: str
    role: Role = Role.PLAIN


Row: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """The size of the terminal and what it can draw. `ascii_only` is for terminals without UTF-8."""

    width: int
    height: int
    ascii_only: bool = False

    @property
    def dots(self) -> str:
        return "..." if self.ascii_only else DOTS

    def foreign(self, text: str, *, limit: int | None = None) -> str:
        """Words of others as they may be drawn, without quotes."""
        return self.drawable(visible(text, limit=limit))

    def quote(self, text: str, *, limit: int | None = None) -> str:
        """Words of others in quotes that they cannot close."""
        return '"' + self.foreign(text, limit=limit).replace('"', '\\"') + '"'

    def drawable(self, safe: str) -> str:
        """Text that went through the neutraliser, spelled with what the terminal has."""
        if not self.ascii_only or safe.isascii():
            return safe
        return "".join(one if one.isascii() else f"\\u{{{ord(one):x}}}" for one in safe)

    def own(self, text: str) -> str:
        """Our own signs spelled as the terminal can, one for one; dots are `dots` from the start."""
        return text.translate(_PLAIN_GLYPHS) if self.ascii_only else text


def row(*parts: Span | str) -> Row:
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def marked(line: Row, words: str) -> Row:
    """The row with these words in the role of what has the focus."""
    out: list[Span] = []
    for span in line:
        before, found, after = span.text.partition(words)
        out += [Span(before, span.role), Span(found, Role.FOCUS), Span(after, span.role)] if found else [span]
    return tuple(span for span in out if span.text)


def text_of(line: Row) -> str:
    return "".join(span.text for span in line)


def width_of(line: Row) -> int:
    return sum(cells(span.text) for span in line)


def fit(line: Row, width: int) -> Row:
    """Exactly `width` cells: cut at the end or filled with blanks."""
    room = width
    out: list[Span] = []
    for span in line:
        taken = head(span.text, room)
        if taken:
            out.append(span if taken == span.text else Span(taken, span.role))
        room -= cells(taken)
        if taken != span.text:
            break
    return (*out, Span(" " * room)) if room > 0 else tuple(out)


def head(text: str, room: int) -> str:
    """As much of the beginning as fits into `room` cells."""
    if cells(text) <= room:
        return text
    used = 0
    for at, character in enumerate(text):
        used += cells(character)
        if used > room:
            return text[:at]
    return text


def tail(text: str, room: int) -> str:
    """As much of the end as fits into `room` cells."""
    used = 0
    for at in range(len(text) - 1, -1, -1):
        used += cells(text[at])
        if used > room:
            return text[at + 1 :]
    return text


def cut_end(text: str, room: int, dots: str) -> str:
    """The text, or its beginning and dots."""
    return text if cells(text) <= room else head(text, max(room - len(dots), 0)) + dots[:room]


def cut_middle(text: str, room: int, dots: str) -> str:
    """The text, or its beginning, dots and its end."""
    if cells(text) <= room:
        return text
    left = max(room - len(dots), 0)
    return head(text, left - left // 2) + dots[:room] + tail(text, left // 2)


def rule(width: int, line: str, *, left: str = "", right: str = "") -> str:
    """A line of rule signs with a title at its left and one at its right: `─ Audit ─── writing ─`."""
    head_text = f"{line} {left} " if left else ""
    tail_text = f" {right} {line}" if right else ""
    return head_text + line * max(width - cells(head_text) - cells(tail_text), 0) + tail_text


def spread(left: Iterable[Span], right: Iterable[Span], width: int) -> Row:
    """Left words at the left, right words at the right, blanks between."""
    left_row, right_row = tuple(left), tuple(right)
    gap = width - width_of(left_row) - width_of(right_row)
    return fit((*left_row, Span(" " * max(gap, 0)), *right_row), width)


def wrap(text: str, width: int) -> list[str]:
    """Break at blanks where possible, in cells; never drops anything but the blank at a break."""
    return [text[start:end] for start, end in _breaks(text, width)]


def wrap_row(line: Row, width: int) -> list[Row]:
    """Like `wrap`, for styled text."""
    return [_between(line, start, end) for start, end in _breaks(text_of(line), width)]


def _breaks(text: str, width: int) -> list[tuple[int, int]]:
    """Where to fold, in one pass. A letter carries at most two marks, so a line has at most three characters a cell."""
    width = max(width, 1)
    out: list[tuple[int, int]] = []
    start = 0
    while start < len(text) or not out:
        fits = len(head(text[start : start + 3 * width + 3], width))
        end = start + (fits or 1)
        if end >= len(text):
            out.append((start, len(text)))
            break
        if text[end] != " ":
            blank = text.rfind(" ", start, end)
            if text[start : max(blank, start)].strip():
                end = blank
        out.append((start, end))
        start = end + 1 if text[end] == " " else end
    return out


def _between(line: Row, start: int, end: int) -> Row:
    out: list[Span] = []
    at = 0
    for span in line:
        piece = span.text[max(start - at, 0) : max(end - at, 0)]
        if piece:
            out.append(Span(piece, span.role))
        at += len(span.text)
    return tuple(out)

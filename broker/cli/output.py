"""What human verbs print: text for eyes, every foreign part neutralised, or the machine form with --json."""

import os
import textwrap
from collections.abc import Sequence
from typing import TextIO

from broker.contract.neutralise import cells, visible, visible_json
from broker.contract.wire import JsonObject, JsonValue, dump_names

_DEEPER = 4  # columns


def show(value: JsonValue, lines: Sequence[str], *, as_json: bool) -> None:
    """Print the lines, or with --json the value. The lines are neutralised by whoever made them."""
    print(visible_json(dump_names(value).decode()) if as_json else "\n".join(lines))


def on(stream: TextIO, lines: Sequence[str]) -> str:
    """The lines as they go to the stream: on a terminal folded to its width, else as they are."""
    columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    return "\n".join(folded(lines, columns) if columns else lines)


def folded(lines: Sequence[str], columns: int) -> list[str]:
    """Broken between words where they are too long. What goes on stands deeper: it passes for no line of its own."""
    out: list[str] = []
    for line in lines:
        deeper = " " * (len(line) - len(line.lstrip(" ")) + _DEEPER)
        fold = textwrap.TextWrapper(
            width=columns,
            subsequent_indent=deeper,
            expand_tabs=False,
            replace_whitespace=False,
            break_long_words=False,
            break_on_hyphens=False,
        )
        out += fold.wrap(line) if cells(line) > columns else [line]
    return out


def table(headings: Sequence[str], rows: Sequence[Sequence[JsonValue]]) -> list[str]:
    """Columns under headings, two blanks apart. Every cell is neutralised; null is a dash."""
    drawn = [list(headings), *([_cell(value) for value in row] for row in rows)]
    widths = [max(cells(row[column]) for row in drawn) for column in range(len(headings))]
    return ["  ".join(_padded(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in drawn]


def text(value: JsonObject, name: str) -> str:
    """A field of an answer as it may be drawn; a dash where it is missing."""
    return _cell(value.get(name))


def number(value: JsonObject, name: str) -> int:
    found = value.get(name)
    return found if isinstance(found, int) else 0


def _cell(value: JsonValue) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or "-"
    return visible(str(value))


def _padded(drawn: str, width: int) -> str:
    return drawn + " " * (width - cells(drawn))

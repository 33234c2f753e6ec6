"""Pictures of the interface for the documentation, drawn cell by cell from what the window shows.

`python -m tests.ui.screenshots` writes them anew into docs/screenshots. The same window gives the same bytes.
"""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

from broker.contract.neutralise import cells
from tests.ui.cards import brief, calm_read, delete_accounts, queue_of_twelve
from tests.ui.scenes import READY, Scene
from ui.paper import Role, Row

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
CELL_W, CELL_H, FONT_PX, MARGIN = 9, 19, 15, 14
PAPER, INK = "#1c1f24", "#d4d7dc"
_INKS = {
    Role.FAINT: "#8a9099",
    Role.KEY: "#6fc7d6",
    Role.GOOD: "#6fc7d6",
    Role.LOOK: "#e5c16c",
    Role.UNKNOWN: "#e5c16c",
}
_BOLD = frozenset({Role.KEY, Role.LABEL, Role.LOOK, Role.UNKNOWN, Role.DANGER})
_REVERSED = {Role.FOCUS: INK, Role.ESCAPE: INK, Role.DANGER: "#c99ae0"}
_LINES = {  # strokes in halves of a cell: from (x, y) to (x, y)
    "─": [((0, 1), (2, 1))],
    "│": [((1, 0), (1, 2))],
    "┃": [((1, 0), (1, 2))],
    "├": [((1, 0), (1, 2)), ((1, 1), (2, 1))],
    "┬": [((0, 1), (2, 1)), ((1, 1), (1, 2))],
    "┴": [((0, 1), (2, 1)), ((1, 0), (1, 1))],
}


def svg(rows: Iterable[Row], columns: int) -> str:
    """A terminal of so many columns."""
    drawn = list(rows)
    width, height = columns * CELL_W + 2 * MARGIN, len(drawn) * CELL_H + 2 * MARGIN
    shapes = [part for at, line in enumerate(drawn) for part in _row(line, MARGIN + at * CELL_H)]
    font = f"font-family=\"'DejaVu Sans Mono','Cascadia Mono','Menlo','Consolas',monospace\" font-size=\"{FONT_PX}\""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
            f'<g {font} fill="{INK}" stroke-width="1.2">',
            *shapes,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _row(line: Row, top: int) -> list[str]:
    out: list[str] = []
    column = 0
    for span in line:
        ground = _REVERSED.get(span.role)
        left, width = MARGIN + column * CELL_W, cells(span.text) * CELL_W
        if ground is not None and span.text:
            out.append(f'<rect x="{left}" y="{top}" width="{width}" height="{CELL_H}" fill="{ground}"/>')
        out += _text(span.text, span.role, left, top)
        column += cells(span.text)
    return out


def _text(text: str, role: Role, left: int, top: int) -> list[str]:
    """Words at their places; the signs of rules as strokes, so that they join in every font."""
    out: list[str] = []
    word, start = "", 0
    for at, one in enumerate(f"{text} "):
        if one not in _LINES and one not in " ▌":
            word, start = word + one, start if word else at
            continue
        if word:
            out.append(_word(word, role, left + start * CELL_W, top))
            word = ""
        x = left + at * CELL_W
        if one == "▌":
            out.append(f'<rect x="{x}" y="{top}" width="{CELL_W // 2}" height="{CELL_H}" fill="{_INKS[Role.KEY]}"/>')
        for (x1, y1), (x2, y2) in _LINES.get(one, []):
            ends = f'x1="{x + x1 * CELL_W / 2}" y1="{top + y1 * CELL_H / 2}" x2="{x + x2 * CELL_W / 2}"'
            heavy = ' stroke-width="4"' if one == "┃" else ""
            out.append(f'<line {ends} y2="{top + y2 * CELL_H / 2}" stroke="{_INKS[Role.FAINT]}"{heavy}/>')
    return out


def _word(word: str, role: Role, left: int, top: int) -> str:
    ink = PAPER if role in _REVERSED else _INKS.get(role, INK)
    style = ' font-weight="bold"' if role in _BOLD else ' font-style="italic"' if role is Role.FOREIGN else ""
    fill = "" if ink == INK else f' fill="{ink}"'
    length = f'textLength="{cells(word) * CELL_W}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{left}" y="{top + CELL_H - 5}" {length}{style}{fill}>{escape(word)}</text>'


def approvals() -> str:
    """A deletion whose evidence has a gap, with others waiting behind it."""
    scene = Scene()
    others = [(calm_read(101), 3), (brief("RUN", "web-3.restart-web", 115, 5), 1), queue_of_twelve()[5]]
    scene.connect((delete_accounts(), 1), *others, status=replace(READY, in_doubt=1))
    wall_ms = scene.clock.wall_ms
    scene.on(1.6)
    scene.clock.wall_ms = wall_ms
    return svg(scene.window.picture().rows, 80)


PICTURES: dict[str, Callable[[], str]] = {"approvals": approvals}


def main() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""A grid of styled rows, drawn line by line as they are: no markup, no folding, no scrolling of its own.

The last line of defence for foreign text: a character that a terminal could obey is never passed on.
"""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget
from typing_extensions import override

from broker.contract.neutralise import visible
from ui.paper import Role, Row


class Grid(Widget, inherit_bindings=False, can_focus=True):
    """Shows rows; `show` repaints only those that changed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"grid--{role}" for role in Role}
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[Row, ...] = ()

    def show(self, rows: Sequence[Row]) -> None:
        old, self._rows = self._rows, tuple(rows)
        if len(old) != len(self._rows):
            self.refresh()
            return
        width = self.size.width
        changed = [Region(0, at, width, 1) for at, line in enumerate(self._rows) if line != old[at]]
        if changed:
            self.refresh(*changed)

    @override
    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._rows):
            return Strip.blank(width)
        segments = [
            Segment(harmless(span.text), self.get_component_rich_style(f"grid--{span.role}", partial=False))
            for span in self._rows[y]
        ]
        return Strip(segments).adjust_cell_length(width)

    @override
    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width


def harmless(text: str) -> str:
    """The text as it came, if it prints; escaped anew where it does not."""
    return text if text.isprintable() else visible(text)

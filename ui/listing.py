"""A list that may be long: a focus, a filter, and only as many rows made as are drawn. Pure but for its own state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ui.answering import Key
from ui.paper import CARET, FOCUS_MARK, Paper, Role, Row, Span, fit, row

Item = TypeVar("Item")
FILTER_LIMIT = 60


@dataclass(slots=True, kw_only=True)
class Listing(Generic[Item]):
    """`same` names an item, so that the focus stays on it when the list grows."""

    same: Callable[[Item], str]
    searched: Callable[[Item], str]
    focus: str | None = None
    filter: str = ""
    filtering: bool = False
    top: int = 0
    _page: int = 1

    def matching(self, items: Sequence[Item]) -> Sequence[Item]:
        if not self.filter:
            return items
        wanted = self.filter.casefold()
        return [item for item in items if wanted in self.searched(item).casefold()]

    def focused(self, items: Sequence[Item]) -> Item | None:
        shown = self.matching(items)
        return shown[self._at(shown)] if shown else None

    def key(self, key: Key, items: Sequence[Item]) -> bool:
        """Move or filter; False for any other key."""
        if self.filtering:
            self._edit(key)
            return True
        shown = self.matching(items)
        at = self._at(shown)
        match key.name:
            case "j" | "down":
                at += 1
            case "k" | "up":
                at -= 1
            case "g" | "home":
                at = 0
            case "G" | "end":
                at = len(shown) - 1
            case "pagedown" | "space":
                at += self._page
            case "pageup" | "b":
                at -= self._page
            case "slash":
                self.filtering = True
                return True
            case "escape" if self.filter:
                self.filter = ""
                return True
            case _:
                return False
        if shown:
            self.focus = self.same(shown[min(max(at, 0), len(shown) - 1)])
        return True

    def paste(self, text: str) -> None:
        if self.filtering:
            self.filter = (self.filter + "".join(one for one in text if one.isprintable()))[:FILTER_LIMIT]

    def rows(self, items: Sequence[Item], draw: Callable[[Item], Row], paper: Paper, height: int) -> list[Row]:
        """Exactly `height` rows; the first column is the focus mark's."""
        shown = self.matching(items)
        self._page = max(height - 1, 1)
        at = self._at(shown)
        self.top = min(max(self.top, at - height + 1, 0), at, max(len(shown) - height, 0))
        out: list[Row] = []
        for index in range(self.top, min(self.top + height, len(shown))):
            mark = Span(FOCUS_MARK, Role.KEY) if index == at else Span(" ")
            out.append(fit((mark, *draw(shown[index])), paper.width))
        return [*out, *[()] * (height - len(out))]

    def filter_words(self, paper: Paper) -> str:
        """What the title says of the filter."""
        if self.filtering:
            return f"/ {paper.foreign(self.filter)}{CARET}"
        return f"/ {paper.foreign(self.filter)}" if self.filter else ""

    def _at(self, shown: Sequence[Item]) -> int:
        return next((index for index, item in enumerate(shown) if self.same(item) == self.focus), 0)

    def _edit(self, key: Key) -> None:
        if key.name == "escape":
            self.filter, self.filtering = "", False
        elif key.name == "enter":
            self.filtering = False
        elif key.name in {"backspace", "ctrl+h"}:
            self.filter = self.filter[:-1]
        elif key.printable is not None:
            self.filter = (self.filter + key.printable)[:FILTER_LIMIT]


def said(*lines: str) -> list[Row]:
    """Plain sentences as rows, for what a screen can't show."""
    return [row(f" {line}") if line else () for line in lines]

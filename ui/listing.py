"""A list that may be long: a focus, a filter, and only as many rows made as are drawn. Pure but for its own state.

A list that did not change is not gone through again, and of one that did only what is new to it is searched: the work
for a frame is that of the rows which are drawn, and what is remembered is one entry for each row of the list.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ui.answering import Key
from ui.kept import Kept
from ui.paper import CARET, FOCUS_MARK, Paper, Role, Row, Span, fit, row

Item = TypeVar("Item")
FILTER_LIMIT = 60


def _never(_: object) -> bool:
    return False


@dataclass(slots=True, kw_only=True)
class Listing(Generic[Item]):
    """`same` names an item, so that the focus stays on it when the list grows. What is `still` takes no focus."""

    same: Callable[[Item], str]
    searched: Callable[[Item], str]
    still: Callable[[Item], bool] = _never
    focus: str | None = None
    filter: str = ""
    filtering: bool = False
    top: int = 0
    _page: int = 1
    _shown: "Kept[Sequence[Item]]" = field(default_factory=Kept)
    _places: "Kept[dict[str, int]]" = field(default_factory=Kept)
    _verdicts: dict[str, tuple[Item, bool]] = field(default_factory=dict)
    _verdicts_on: str = ""
    _drawn: tuple[tuple[str, Row], ...] = ()  # names and rows, as they were drawn last

    def matching(self, items: Sequence[Item]) -> Sequence[Item]:
        return self._shown.of(lambda: self._filtered(items), items, self.filter) if self.filter else items

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
        before = at
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
            at = min(max(at, 0), len(shown) - 1)
            self.focus = self.same(shown[self._lively(shown, at, before)])
        return True

    def point(self, body: Sequence[Row], line: int) -> None:
        """Move the focus to the row that was drawn in a line of the body, if it is one of ours that takes it."""
        rows = [drawn for _, drawn in self._drawn]
        ours = next((at for at in range(len(body)) if rows and list(body[at : at + len(rows)]) == rows), None)
        if ours is not None and 0 <= line - ours < len(rows):
            self.focus = self._drawn[line - ours][0] or self.focus

    def paste(self, text: str) -> None:
        if self.filtering:
            self.filter = (self.filter + "".join(one for one in text if one.isprintable()))[:FILTER_LIMIT]

    def rows(self, items: Sequence[Item], draw: Callable[[Item], Row], paper: Paper, height: int) -> list[Row]:
        """Exactly `height` rows; the first column is the focus mark's."""
        shown = self.matching(items)
        self._page = max(height - 1, 1)
        at = self._at(shown)
        self.top = min(max(self.top, at - height + 1, 0), at, max(len(shown) - height, 0))
        if at <= self._first(shown):
            self.top = 0
        out: list[Row] = []
        names: list[str] = []
        for index in range(self.top, min(self.top + height, len(shown))):
            mark = Span(FOCUS_MARK, Role.KEY) if index == at and not self.still(shown[index]) else Span(" ")
            out.append(fit((mark, *draw(shown[index])), paper.width))
            names.append("" if self.still(shown[index]) else self.same(shown[index]))
        self._drawn = tuple(zip(names, out, strict=True))
        return [*out, *[()] * (height - len(out))]

    def filter_words(self, paper: Paper) -> str:
        """What the title says of the filter."""
        if self.filtering:
            return f"/ {paper.foreign(self.filter)}{CARET}"
        return f"/ {paper.foreign(self.filter)}" if self.filter else ""

    def _at(self, shown: Sequence[Item]) -> int:
        if not shown:
            return 0
        places = self._places.of(lambda: {self.same(item): index for index, item in enumerate(shown)}, shown)
        return places.get(self.focus, -1) if self.focus in places else self._first(shown)

    def _first(self, shown: Sequence[Item]) -> int:
        return next((index for index in range(len(shown)) if not self.still(shown[index])), 0)

    def _lively(self, shown: Sequence[Item], at: int, before: int) -> int:
        """The nearest row that takes a focus, on in the direction of the move, else back."""
        step = 1 if at >= before else -1
        ways = (range(at, len(shown)), range(at, -1, -1))
        for way in ways if step > 0 else reversed(ways):
            found = next((index for index in way if not self.still(shown[index])), None)
            if found is not None:
                return found
        return before

    def _filtered(self, items: Sequence[Item]) -> Sequence[Item]:
        wanted = self.filter.casefold()
        known = self._verdicts if self._verdicts_on == wanted else {}
        verdicts: dict[str, tuple[Item, bool]] = {}
        for item in items:
            name = self.same(item)
            before = known.get(name)
            fits = before[1] if before is not None and before[0] is item else wanted in self.searched(item).casefold()
            verdicts[name] = (item, fits)
        self._verdicts, self._verdicts_on = verdicts, wanted
        return [item for item in items if verdicts[self.same(item)][1]]

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

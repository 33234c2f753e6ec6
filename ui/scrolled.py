"""A page of lines in place of a list: all of what a row stands for, scrolled until Esc. Pure but for its state."""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.client import card_words as words
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.paper import Paper, Row
from ui.screens.sheet import Sheet, body_height, filled

LEAP = 10


@dataclass(slots=True)
class Scrolled:
    """`on` names the row whose page is open."""

    on: str | None = None
    _from: int = 0

    def open(self, name: str) -> None:
        self.on, self._from = name, 0

    def close(self) -> None:
        self.on = None

    def key(self, key: Key) -> tuple[()] | None:
        """None for a key that means nothing to a page."""
        match key.name:
            case "escape" | "enter":
                self.on = None
            case "j" | "down" | "pagedown" | "space":
                self._from += 1 if key.name in {"j", "down"} else LEAP
            case "k" | "up" | "pageup" | "b":
                self._from = max(self._from - (1 if key.name in {"k", "up"} else LEAP), 0)
            case "g" | "home":
                self._from = 0
            case "G" | "end":
                self._from = 1 << 30
            case _:
                return None
        return ()

    def sheet(self, name: str, lines: Sequence[Row], paper: Paper) -> Sheet:
        room = body_height(paper)
        self._from = min(self._from, max(len(lines) - room, 0))
        shown = list(lines[self._from : self._from + room])
        left = len(lines) - self._from - len(shown)
        return Sheet(
            title=title(paper, name, f"v {words.counted(left, 'more line')}" if left else ""),
            body=filled(shown, paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="line"),
                Hint(key="PgDn", word="more"),
                Hint(key="Esc", word="back"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )

"""The passphrase field: takes keys and pastes, shows dots for the first ten characters only, forgets on leaving."""

from dataclasses import dataclass, field

from ui.answering import Key
from ui.paper import CARET, DOT, Role, Row, Span, row

DOTS_SHOWN = 10
MOST_CHARACTERS = 1024
FIELD_WIDTH = 40


@dataclass(slots=True, kw_only=True)
class Passphrase:
    """`focused` keys are text. `busy` while the derivation runs."""

    focused: bool = True
    busy: bool = False
    problem: str = ""
    _text: str = field(default="", repr=False)

    def key(self, key: Key) -> bytes | None:
        """Take a key; the passphrase when it was sent."""
        if self.busy:
            return None
        if key.name == "enter":
            return self._sent()
        if key.name == "escape":
            self.leave()
        elif key.name in {"backspace", "ctrl+h"}:
            self._text = self._text[:-1]
        elif key.name == "ctrl+u":
            self._text = ""
        elif key.character is not None and key.character.isprintable():
            self._text = (self._text + key.character)[:MOST_CHARACTERS]
        return None

    def paste(self, text: str) -> None:
        if self.focused and not self.busy:
            self._text = (self._text + text.rstrip("\r\n"))[:MOST_CHARACTERS]

    def focus(self) -> None:
        self.focused = True

    def leave(self) -> None:
        self._text, self.focused, self.problem = "", False, ""

    def opened(self) -> None:
        """It was right."""
        self.busy = False
        self.leave()

    def refused(self, problem: str) -> None:
        self.busy, self.problem, self._text = False, problem, ""

    def _sent(self) -> bytes | None:
        if not self._text:
            return None
        text, self._text = self._text, ""
        self.busy, self.problem = True, ""
        return text.encode("utf-8")

    def line(self) -> Row:
        dots = DOT * min(len(self._text), DOTS_SHOWN)
        caret = CARET if self.focused and not self.busy else " "
        filled = f"[{dots}{caret}{' ' * (FIELD_WIDTH - len(dots) - 1)}]"
        after = "  working..." if self.busy else "  Enter" if self.focused else "  u: type it"
        return row("Passphrase  ", Span(filled, Role.FOCUS if self.focused else Role.PLAIN), after)

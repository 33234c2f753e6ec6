"""What the human's keys on a card mean: from a key press to an answer, or to nothing.

No is easier than yes: deny needs no arming, a yes needs the drawn card, the arming, and its key alone; what can break
more needs `y` or a typed word on top. Enter approves nothing; it sends a word that was typed in full. Pure: the screen
tells what stands in the way (`blocked`), and takes answers from `due`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from broker.client.reasons_ready import READY_REASONS, REASON_LIMIT
from ui.arming import CONFIRM_S, Arming, LoneKey, by_hand

REASONS = READY_REASONS
WORD_LIMIT = 24
READ_BACK = "read_back"
WAYS = {"c": "collect", "l": "limit", "r": READ_BACK}
TOO_QUICK = "too quick: again"
NO_REASON = "say why first: 1-3 or words"
NOT_BY_HAND = "typed, not pasted"


class Mode(Enum):
    LOOKING = "looking"
    DENYING = "denying"
    TYPING = "typing"
    GRANTING = "granting"
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key press as the terminal told it; `character` is None where it prints nothing."""

    name: str
    character: str | None = None

    @property
    def printable(self) -> str | None:
        return self.character if self.character is not None and self.character.isprintable() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """A yes, or another way that the card offers. `confirm` is the word that was typed, where one is asked for."""

    scope: str  # once | session
    confirm: str | None
    choice: str | None = None  # collect | limit | read_back; None is the yes itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    reason: str | None
    end_session: bool


Answer: TypeAlias = Approve | Deny


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the card on the screen allows."""

    typed_word: str | None
    session_offered: bool
    choices: tuple[str, ...] = ()  # other ways than a yes or a no
    may_end: bool = True  # whether a no can end the session as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """What stands in the way right now: None is nothing. Texts are what the slot says."""

    approving: str | None
    denying: str | None


@dataclass(slots=True, kw_only=True)
class Answering:
    """The state of the answer to one card. Restarted for every card and every change of it."""

    terms: Terms = field(default_factory=lambda: Terms(typed_word=None, session_offered=False))
    mode: Mode = Mode.LOOKING
    text: str = ""
    note: str = ""  # why the last key did nothing, where that may surprise
    arming: Arming = field(default_factory=Arming)
    _lone: LoneKey = field(default_factory=LoneKey)
    _times_s: list[float] = field(default_factory=list)  # when each character of the text came
    _scope: str = "once"
    _choice: str | None = None  # of the key that is held back
    _asked_s: float = 0.0

    def begin(self, terms: Terms, arming_s: float) -> None:
        """A card, or a changed card, is about to be drawn; whatever was under way is over."""
        self.terms = terms
        self.arming.begin(arming_s)
        self.leave()

    def leave(self) -> None:
        self.mode, self.text, self.note, self._choice = Mode.LOOKING, "", "", None
        self._times_s.clear()
        self._lone.drop()

    def noticed(self, now_s: float) -> None:
        """A key that went elsewhere (navigation, another screen): a held-back key beside it is dropped."""
        self._lone.pressed(now_s)
        if self._lone.drop():
            self._again(now_s)

    @property
    def holding(self) -> bool:
        return self._lone.holding

    @property
    def last_key_s(self) -> float:
        """When the last key was read, wherever it went."""
        return self._lone.last_s

    @property
    def in_field(self) -> bool:
        return self.mode in {Mode.DENYING, Mode.TYPING}

    def key(self, key: Key, barred: Barred, now_s: float) -> bool:
        """Take a key; False if it means nothing to an answer and may be used otherwise."""
        quiet = self._lone.pressed(now_s)
        self.note = ""
        if self._lone.drop():
            quiet, self.note = False, TOO_QUICK
            self._again(now_s)
            if self.mode in {Mode.GRANTING, Mode.ENDING}:
                self.leave()
                return True
        match self.mode:
            case Mode.LOOKING:
                return self._looking(key, barred, now_s, quiet=quiet)
            case Mode.DENYING:
                return self._denying(key, now_s, quiet=quiet)
            case Mode.TYPING:
                return self._typing(key, now_s, quiet=quiet)
            case Mode.GRANTING | Mode.ENDING:
                return self._confirming(key, now_s, quiet=quiet)

    def paste(self, text: str) -> None:
        """Pasted text goes into a reason and nowhere else."""
        if self.mode is Mode.DENYING:
            kept = "".join(one if one.isprintable() else " " for one in text)
            self.text = (self.text + kept)[:REASON_LIMIT]

    def due(self, barred: Barred, now_s: float) -> Answer | None:
        """The answer of a deciding key that has been alone long enough; None while there is none."""
        if not self._lone.alone(now_s):
            return None
        mode, text, scope, choice = self.mode, self.text, self._scope, self._choice
        self.leave()
        if mode is Mode.DENYING:
            return None if barred.denying is not None else Deny(reason=_reason(text), end_session=False)
        if mode is Mode.ENDING:
            return None if barred.denying is not None else Deny(reason=None, end_session=True)
        if barred.approving is not None or not self.arming.ready(now_s):
            self._again(now_s)
            return None
        match mode:
            case Mode.TYPING:
                return Approve(scope=scope, confirm=text)
            case Mode.GRANTING:
                return Approve(scope="session", confirm=None)
            case Mode.LOOKING:
                return Approve(scope="once", confirm=None, choice=choice)

    def _looking(self, key: Key, barred: Barred, now_s: float, *, quiet: bool) -> bool:
        match key.name:
            case "d" | "enter":
                self._open(Mode.DENYING, barred.denying, now_s)
            case "x" if self.terms.may_end:
                self._open(Mode.ENDING, barred.denying, now_s)
            case "c" | "l" | "r" if (way := WAYS[key.name]) in self.terms.choices:
                if self._may(barred, now_s) and quiet:
                    self._choice = way
                    self._lone.hold(now_s)
                else:
                    self._again(now_s)
            case "a" if self._may(barred, now_s):
                if self.terms.typed_word is not None:
                    self._scope = "once"
                    self._open(Mode.TYPING, None, now_s)
                elif quiet:
                    self._choice = None
                    self._lone.hold(now_s)
                else:
                    self._again(now_s)
            case "s" if self.terms.session_offered and self._may(barred, now_s):
                self._scope = "session"
                self._open(Mode.GRANTING if self.terms.typed_word is None else Mode.TYPING, None, now_s)
            case "a" | "s":
                self._again(now_s)
            case _:
                return False
        return True

    def _may(self, barred: Barred, now_s: float) -> bool:
        return barred.approving is None and self.arming.ready(now_s)

    def _open(self, mode: Mode, barred: str | None, now_s: float) -> None:
        if barred is None:
            self.mode, self.text, self._asked_s = mode, "", now_s
            self._times_s.clear()

    def _denying(self, key: Key, now_s: float, *, quiet: bool) -> bool:
        if key.name == "enter":
            if not self.text.strip():
                self.note = NO_REASON
            elif quiet:
                self._lone.hold(now_s)
            else:
                self.note = TOO_QUICK
        else:
            self._edit(key, REASON_LIMIT, now_s)
        return True

    def _typing(self, key: Key, now_s: float, *, quiet: bool) -> bool:
        if key.name == "enter":
            if self.text != self.terms.typed_word:
                self.note = "that is not the word" if self.text else "type the word: no paste"
                return True
            if not by_hand(self._times_s):
                self.text, self.note = "", NOT_BY_HAND
                self._times_s.clear()
                self._again(now_s)
            elif quiet and self.arming.ready(now_s):
                self._lone.hold(now_s)
            else:
                self.note = TOO_QUICK
                self._again(now_s)
        else:
            self._edit(key, WORD_LIMIT, now_s)
        return True

    def _confirming(self, key: Key, now_s: float, *, quiet: bool) -> bool:
        if key.name == "y" and quiet and now_s - self._asked_s >= CONFIRM_S:
            self._lone.hold(now_s)
            return True
        if key.name == "y":
            self._again(now_s)
        self.leave()
        return True

    def _edit(self, key: Key, limit: int, now_s: float) -> None:
        if key.name == "escape":
            self.leave()
        elif key.name in {"backspace", "ctrl+h"}:
            self.text = self.text[:-1]
        elif key.name == "ctrl+u":
            self.text = ""
        elif key.printable is not None and len(self.text) < limit:
            self.text += key.printable
            self._times_s.append(now_s)
        del self._times_s[len(self.text) :]

    def _again(self, now_s: float) -> None:
        self.arming.again(now_s)


def _reason(text: str) -> str:
    """The ready reason of a lone digit, else the words themselves."""
    words = text.strip()
    return REASONS[int(words) - 1] if words in {"1", "2", "3"} else words

"""What a screen hands to the window: the rows between the second and the last, the keys of the footer, and effects."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ui.answering import Key
from ui.frame import Hint
from ui.messages import Task
from ui.paper import Paper, Row
from ui.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Now, on both clocks: milliseconds since the epoch, and monotonic seconds."""

    wall_ms: int
    mono_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Rows 3 to the last but one. `cursor` is column and row on the whole terminal."""

    title: Row
    body: tuple[Row, ...]
    last_rule: Row
    hints: tuple[Hint, ...]
    cursor: tuple[int, int] = (0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The human moved: settled entries go, but for the one they moved to."""

    keep: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goto:
    screen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Another key that answers a question, and what it does."""

    key: str
    word: str
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFirst:
    """A task that needs a `y`; None closes the window. `also` are other answers that do something."""

    question: str
    task: Task | None
    also: tuple[Choice, ...] = ()

    def answered(self, key: str) -> Task | None:
        """What a key that answers has done."""
        return next((choice.task for choice in self.also if choice.key == key), self.task)

    @property
    def keys(self) -> set[str]:
        return {"y", *(choice.key for choice in self.also)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A line for the last row, until the next key."""

    words: str


Effect: TypeAlias = Task | Sweep | Goto | AskFirst | Say


class Screen(Protocol):
    """One of the seven. `key` gives None for a key that means nothing to it."""

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet: ...
    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None: ...
    def paste(self, text: str, world: World) -> None: ...
    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]: ...
    def in_field(self, world: World) -> bool:
        """Whether plain keys are text just now."""
        ...


def body_height(paper: Paper) -> int:
    """Rows between the title and the last rule."""
    return max(paper.height - 5, 1)


def filled(rows: list[Row], paper: Paper) -> tuple[Row, ...]:
    """As many rows as the body has, cut or filled."""
    wanted = body_height(paper)
    return tuple([*rows, *[()] * wanted][:wanted])

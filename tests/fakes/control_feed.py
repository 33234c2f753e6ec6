"""A feed without a daemon: remembers what it was asked to do, and tells what the test has it tell."""

from collections.abc import Callable
from typing import TypeVar

from ui.messages import News, OpenCard, Task

Wanted = TypeVar("Wanted", bound=Task)


class ControlFeed:
    """`cards` answers OpenCard at once, by approval id; everything else is up to the test."""

    def __init__(self, cards: dict[str, News] | None = None) -> None:
        self.cards = cards or {}
        self.tasks: list[Task] = []
        self.started = False
        self.stopped = False
        self._tell: Callable[[News], object] = _nobody

    def start(self, tell: Callable[[News], object]) -> None:
        self.started = True
        self._tell = tell

    def do(self, task: Task) -> None:
        self.tasks.append(task)
        if isinstance(task, OpenCard) and task.approval_id in self.cards:
            self._tell(self.cards[task.approval_id])

    def stop(self) -> None:
        self.stopped = True

    def tell(self, *news: News) -> None:
        for one in news:
            self._tell(one)

    def done(self, kind: type[Wanted]) -> list[Wanted]:
        """The tasks of one kind, in order."""
        return [task for task in self.tasks if isinstance(task, kind)]


def _nobody(_: News) -> None:
    """Until `start`."""

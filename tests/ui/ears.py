"""Listens to a feed for the tests, and waits for news with a deadline."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.client.places import Places
from broker.contract.kdf import REDUCED_FLOOR
from tests.fakes.control_server import PASSPHRASE
from ui.feed import ControlFeed
from ui.messages import ApproverNews, Connected, News, Task, Unlock

LIMIT_S = 60.0
Kind = TypeVar("Kind")


class Ear:
    """Hears the news, and waits for some."""

    def __init__(self, home: Path) -> None:
        self.heard: list[News] = []
        self.feed = ControlFeed(Places({"DOORWARD_HOME": str(home)}), floor=REDUCED_FLOOR)
        self.feed.start(self.heard.append)

    def wait(self, kind: type[Kind], wanted: Callable[[Kind], object] = bool, *, after: int = 0) -> Kind:
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends:
            for news in self.heard[after:]:
                if isinstance(news, kind) and wanted(news):
                    return news
            time.sleep(0.005)  # polls with a deadline
        raise AssertionError(f"no {kind.__name__} within {LIMIT_S} s; heard {self.heard[after:]}")

    def ask(self, task: Task, kind: type[Kind], wanted: Callable[[Kind], object] = bool) -> Kind:
        """Do a task and wait for news of it."""
        after = len(self.heard)
        self.feed.do(task)
        return self.wait(kind, wanted, after=after)

    def unlocked(self) -> "Ear":
        self.wait(Connected)
        self.ask(Unlock(PASSPHRASE), ApproverNews, lambda news: news.ready)
        return self

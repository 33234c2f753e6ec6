"""What the screens that are one list have in common: text goes into the filter, time alone does nothing.

A list that is sealed or empty says so in its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ui.listing import Listing, said
from ui.paper import Paper, Row
from ui.screens.sheet import Effect, Moment
from ui.world import World

Item = TypeVar("Item")
NO_MATCH = "No row holds these words. Esc shows all again."
SEALED = "Sealed: unlock the approver key to look (1, then u)."


@dataclass(slots=True, kw_only=True)
class ListScreen(Generic[Item]):
    listed: Listing[Item]

    def in_field(self, world: World) -> bool:
        return self.listed.filtering and world.lost is None

    def paste(self, text: str, world: World) -> None:
        if self.in_field(world):
            self.listed.paste(text)

    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]:
        del world, now
        return ()

    def rows(
        self, items: Sequence[Item] | None, draw: Callable[[Item], Row], paper: Paper, height: int, *, empty: str = ""
    ) -> list[Row]:
        """Exactly `height` rows. `items` is None while this process may not see them."""
        if items and not self.listed.matching(items):
            return [*said(NO_MATCH), *[()] * (height - 1)]
        if items:
            return self.listed.rows(items, draw, paper, height)
        return [*said(SEALED if items is None else empty), *[()] * (height - 1)]

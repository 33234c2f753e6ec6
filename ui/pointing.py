"""The mouse on a list: a click moves the focus to its row, the wheel moves it on. It answers nothing. Pure."""

from collections.abc import Sequence

from ui.answering import Key
from ui.listing import Listing
from ui.paper import Row
from ui.screens.sheet import Moment, Screen
from ui.world import World

BODY_TOP = 3  # rows of the terminal above the body of a screen


def clicked(screen: Screen, body: Sequence[Row], line: int) -> None:
    """`body` is what the screen drew last."""
    listed = getattr(screen, "listed", None)
    if isinstance(listed, Listing):
        listed.point(body, line - BODY_TOP)


def wheeled(screen: Screen, by: int, world: World, now: Moment) -> None:
    """As many rows on, or back."""
    if not screen.in_field(world):
        for _ in range(abs(by)):
            screen.key(Key(name="down" if by > 0 else "up"), world, now)

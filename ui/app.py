"""The Textual application: a terminal for one window. It passes keys in and rows out, and has no keys of its own.

Textual's own bindings, command palette and text selection are off. Draws at most ten times a second, keys at once.
"""

import time
from typing import ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.geometry import Offset
from textual.message import Message
from textual.screen import Screen
from typing_extensions import override

from ui.answering import Key
from ui.messages import Feed, News, Unlock
from ui.paper import Paper
from ui.screens.sheet import Moment
from ui.widgets.grid import Grid
from ui.window import Clock, Surroundings, Window

TICK_S = 0.1
SCROLL_ROWS = 3


class SystemClock:
    def now(self) -> Moment:
        return self.at(time.monotonic())

    def at(self, read_s: float) -> Moment:
        return Moment(wall_ms=time.time_ns() // 1_000_000, mono_s=read_s)


class Told(Message):
    """News from the feed, carried into the application's own thread."""

    def __init__(self, news: News) -> None:
        super().__init__()
        self.news = news


class Ticked(Message):
    """Time went on. Comes behind the keys that were read before it."""


class Page(Screen[None], inherit_bindings=False):
    """The only page."""

    ALLOW_SELECT: ClassVar[bool] = False

    @override
    def compose(self) -> ComposeResult:
        yield Grid()


class DoorwardApp(App[None], inherit_bindings=False):
    """The interface of one human. `passphrase` unlocks at once, as if it had been typed."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []
    ALLOW_SELECT: ClassVar[bool] = False
    TITLE = "doorward"

    def __init__(
        self,
        feed: Feed,
        *,
        clock: Clock | None = None,
        surroundings: Surroundings | None = None,
        ascii_only: bool = False,
        passphrase: bytes | None = None,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._feed = feed
        self._passphrase = passphrase
        self._title_shown = ""
        self._second = -1
        self._ascii_only = ascii_only
        self.window = Window(
            feed=feed,
            clock=clock or SystemClock(),
            paper=Paper(width=80, height=24, ascii_only=ascii_only),
            surroundings=surroundings or Surroundings(),
        )

    @override
    def get_default_screen(self) -> Screen[None]:
        return Page()

    def on_mount(self) -> None:
        self.screen.set_class(self.no_color, "-plain")
        self.set_interval(TICK_S, lambda: self.post_message(Ticked()))
        self._feed.start(lambda news: self.post_message(Told(news)))
        if self._passphrase is not None:
            self.window.approvals.passphrase.busy = True
            self._feed.do(Unlock(self._passphrase))
            self._passphrase = None

    def on_unmount(self) -> None:
        self._feed.stop()

    # Keys come here before any widget or binding sees them.

    @override
    async def on_event(self, event: events.Event) -> None:
        match event:
            case events.Key():
                self.window.key(Key(name=event.key, character=event.character), self.window.clock.at(event.time))
                self.redraw()
            case events.Paste():
                self.window.paste(event.text)
                self.redraw()
            case events.MouseScrollDown() | events.MouseScrollUp():
                self.window.scrolled(SCROLL_ROWS if isinstance(event, events.MouseScrollDown) else -SCROLL_ROWS)
                self.redraw()
            case events.MouseDown():
                self.window.clicked(event.screen_x, event.screen_y)
                self.redraw()
            case events.MouseEvent():
                pass
            case _:
                await super().on_event(event)

    def on_app_focus(self) -> None:
        self.window.focused()
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        self.window.resize(Paper(width=event.size.width, height=event.size.height, ascii_only=self._ascii_only))
        self.call_after_refresh(self.redraw)

    def on_told(self, message: Told) -> None:
        self.window.learn(message.news)
        self._second = -1  # drawn with the next tick: at most ten times a second

    def on_ticked(self, message: Ticked) -> None:
        self.window.tick(self.window.clock.at(message.time))
        if self.window.closed:
            self.exit()
            return
        second = self.window.clock.now().wall_ms // 1000
        if second != self._second or self.window.hurried:
            self.redraw()
            self._second = second
        while self.window.rings:
            self.window.rings -= 1
            self.bell()

    def redraw(self) -> None:
        """Draw now; when it is on the terminal, the window hears of it."""
        grid = next(iter(self.query(Grid)), None)
        if grid is None:
            return
        picture = self.window.picture()
        self.cursor_position = Offset(*picture.cursor)
        grid.show(picture.rows)
        self.call_after_refresh(self.window.painted, picture.serial)
        if self.window.title != self._title_shown and self._driver is not None:
            self._title_shown = self.window.title
            self._driver.write(f"\x1b]0;{self._title_shown}\x07")

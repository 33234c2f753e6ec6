"""The application itself, on a terminal that is not there: real keys through Textual's own pilot."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tests.fakes.control_feed import ControlFeed
from tests.ui.cards import calm_read, delete_release
from tests.ui.scenes import READY, StillClock, entry, served
from ui.answering import REASONS, Approve, Deny
from ui.app import DoorwardApp, SystemClock, Ticked
from ui.messages import ApproverNews, CardNews, Connected, Decide, Lost, QueueNews, Unlock
from ui.paper import text_of
from ui.widgets.grid import Grid, harmless

LONE_S = 0.2


class Hand:
    """A human at the application: presses keys, lets time pass, looks."""

    def __init__(self, pilot: Pilot[None], app: DoorwardApp, feed: ControlFeed, clock: StillClock) -> None:
        self.pilot, self.app, self.feed, self.clock = pilot, app, feed, clock

    async def press(self, *keys: str, every_s: float = LONE_S) -> None:
        for key in keys:
            await self.pilot.press(key)
            self.clock.on(every_s)
            await self.tick()

    async def tick(self) -> None:
        self.app.on_ticked(Ticked())
        await self.pilot.pause()

    async def wait(self, seconds: float) -> None:
        self.clock.on(seconds)
        self.app.redraw()
        await self.tick()

    def rows(self) -> list[str]:
        """What the widget draws, line by line."""
        grid = self.app.screen.query_one(Grid)
        return [grid.render_line(y).text.rstrip() for y in range(grid.size.height)]

    @property
    def answers(self) -> list[Approve | Deny]:
        return [task.answer for task in self.feed.done(Decide)]


@asynccontextmanager
async def opened(
    *cards: dict[str, Any], size: tuple[int, int] = (80, 24), passphrase: bytes | None = None
) -> AsyncIterator[Hand]:
    feed = ControlFeed({raw["approval_id"]: CardNews(served=served(raw)) for raw in cards})
    clock = StillClock()
    app = DoorwardApp(feed, clock=clock, passphrase=passphrase)
    async with app.run_test(size=size) as pilot:
        hand = Hand(pilot, app, feed, clock)
        feed.tell(Connected(status=READY, waiting=tuple(entry(raw) for raw in cards)), ApproverNews(ready=True))
        await pilot.pause()
        await hand.wait(0.0)
        yield hand


async def test_what_is_drawn_is_the_picture_row_for_row() -> None:
    async with opened(calm_read(), delete_release()) as hand:
        assert [text_of(line).rstrip() for line in hand.app.window.picture().rows] == hand.rows()
        assert "READ   github issues.list, acme/site" in hand.rows()[3]


async def test_a_after_the_arming_approves() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(1.6)
        await hand.press("a")
        assert [Approve(scope="once", confirm=None)] == hand.answers


async def test_a_before_the_arming_is_dropped() -> None:
    async with opened(calm_read()) as hand:
        await hand.press("a")
        await hand.wait(1.0)
        assert [] == hand.answers


async def test_enter_does_nothing_to_a_card() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(2.0)
        for _ in range(60):
            hand.app.post_message(events.Key("enter", "\r"))
            hand.clock.on(0.04)
            await hand.tick()
        await hand.wait(1.0)
        assert [] == hand.answers


async def test_a_pasted_a_decides_nothing() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(2.0)
        hand.app.post_message(events.Paste("a"))
        await hand.wait(1.0)
        assert [] == hand.answers


async def test_two_keys_at_once_decide_nothing() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(2.0)
        await hand.pilot.press("a", "a")
        await hand.wait(1.0)
        assert [] == hand.answers


async def test_d_1_enter_denies() -> None:
    async with opened(calm_read()) as hand:
        await hand.press("d", "1", "enter")
        assert [Deny(reason=REASONS[0], end_session=False)] == hand.answers


async def test_s_y_grants_to_the_session() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(1.6)
        await hand.press("s")
        await hand.wait(0.5)
        await hand.press("y")
        assert [Approve(scope="session", confirm=None)] == hand.answers


async def test_a_delete_wants_its_word() -> None:
    async with opened(delete_release()) as hand:
        await hand.wait(1.6)
        await hand.press("a")
        await hand.wait(1.0)
        assert [] == hand.answers
        await hand.press("1", "2", "9", "0", "enter")
        assert [Approve(scope="once", confirm="1290")] == hand.answers


async def test_an_expired_card_stays_where_it_is() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(200)
        await hand.press("a")
        assert "EXPIRED ─" in hand.rows()[17]
        assert [] == hand.answers


async def test_another_size_arms_anew() -> None:
    async with opened(calm_read()) as hand:
        await hand.wait(2.0)
        await hand.pilot.resize_terminal(100, 30)
        await hand.wait(0.0)
        assert "wait 1.5 s" in " ".join(hand.rows())
        await hand.press("a")
        assert [] == hand.answers


async def test_a_small_terminal_says_what_it_needs() -> None:
    async with opened(calm_read(), size=(70, 20)) as hand:
        await hand.wait(2.0)
        await hand.press("a")
        assert "too small: 80x22" in " ".join(hand.rows())
        assert [] == hand.answers


async def test_textual_s_own_keys_are_off() -> None:
    async with opened(calm_read()) as hand:
        await hand.press("ctrl+q", "ctrl+p", "ctrl+backslash")
        assert hand.app.is_running
        assert 1 == len(hand.app.screen_stack)


async def test_q_y_ends_it_and_stops_the_feed() -> None:
    async with opened(calm_read()) as hand:
        await hand.press("q")
        await hand.wait(0.5)
        await hand.press("y")
        assert hand.app.window.closed
    assert hand.feed.stopped


async def test_a_lost_daemon_is_said_in_large() -> None:
    async with opened(calm_read()) as hand:
        hand.feed.tell(Lost(since_ms=hand.clock.wall_ms, tries=1, next_try_at_ms=hand.clock.wall_ms, why="gone"))
        await hand.pilot.pause()
        await hand.wait(1.0)
        assert "NO CONNECTION TO THE DAEMON" in hand.rows()[5]


async def test_news_from_another_thread_is_shown() -> None:
    async with opened() as hand:
        assert "Nothing waits for you." in " ".join(hand.rows())
        hand.feed.tell(QueueNews(waiting=(entry(calm_read()),)))
        await hand.pilot.pause()
        await hand.wait(0.1)
        assert "1 waiting" in hand.rows()[0]


async def test_a_passphrase_from_a_descriptor_unlocks_at_once() -> None:
    async with opened(passphrase=b"canary") as hand:
        assert [b"canary"] == [task.passphrase for task in hand.feed.done(Unlock)]


async def test_the_cursor_sits_on_the_focused_answer_or_in_the_field() -> None:
    async with opened(delete_release()) as hand:
        assert (22, 21) == tuple(hand.app.cursor_position)
        await hand.wait(1.6)
        await hand.press("a", "1", "2")
        assert (22 + len("Type 1290 to delete: [12"), 21) == tuple(hand.app.cursor_position)


async def test_without_colour_every_segment_is_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(delete_release()) as hand:
        grid = hand.app.screen.query_one(Grid)
        background = grid.background_colors[1]
        strips = [grid.render_line(y).apply_filter(hand.app._filters[-1], background) for y in range(24)]
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]

        assert {"default"} == {str(style.color.name) for style in styles if style.color is not None}
        assert any(style.reverse and style.bold for style in styles)


def test_the_last_line_of_defence_escapes_what_a_terminal_would_obey() -> None:
    assert "\\u{1b}[2J" == harmless("\x1b[2J")
    assert "plain" == harmless("plain")


async def test_keys_are_judged_by_when_they_were_read_and_not_by_when_their_turn_came() -> None:
    clock = SystemClock()
    feed = ControlFeed({"ap_000000000002": CardNews(served=served(delete_release()))})
    app = DoorwardApp(feed, clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.tell(Connected(status=READY, waiting=(entry(delete_release()),)), ApproverNews(ready=True))
        await pilot.pause()
        read_s = clock.now().mono_s
        for at, name in enumerate("n" * 3):
            key = events.Key(name, name)
            key.time = read_s + at
            app.post_message(key)
        await pilot.pause()

        assert read_s + 2 == app.window.approvals.answering.last_key_s

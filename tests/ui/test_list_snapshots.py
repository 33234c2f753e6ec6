"""Two of the lists with their colours, and one without, as the terminal library draws them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.fakes.control_feed import ControlFeed
from tests.ui.list_rows import CLAUDE, CODEX, COMMENTS, DONE, EDITED, LIMITS, READS, UNNAMED
from tests.ui.scenes import READY, StillClock
from ui.app import DoorwardApp
from ui.messages import ApproverNews, Connected, News, PastNews, PolicyNews, SessionsNews

pytestmark = pytest.mark.usefixtures("in_utc")

Compare = Callable[..., bool]


def shown(screen: str, *news: News) -> tuple[DoorwardApp, Callable[[Pilot[None]], Any]]:
    """The application, and what brings it to the screen with these rows on it."""
    feed, clock = ControlFeed(), StillClock()
    app = DoorwardApp(feed, clock=clock)
    app.window.policy.own_uid = 1000

    async def go(pilot: Pilot[None]) -> None:
        feed.tell(Connected(status=replace(READY, policy_pending=True), waiting=()), ApproverNews(ready=True))
        await pilot.pause()
        await pilot.press(screen)
        feed.tell(*news)
        await pilot.pause()
        app.redraw()
        await pilot.pause()
        clock.mono_s += 2.0
        app.redraw()
        await pilot.pause()

    return app, go


def sessions() -> tuple[News, ...]:
    told = SessionsNews(sessions=(CLAUDE, CODEX, UNNAMED), grants=(READS, COMMENTS), limits=LIMITS)
    return told, PastNews(sessions=(DONE,))


def test_sessions_in_colour(snap_compare: Compare) -> None:
    app, go = shown("3", *sessions())

    assert snap_compare(app, terminal_size=(80, 24), run_before=go)


def test_a_change_of_the_policy_in_colour(snap_compare: Compare) -> None:
    app, go = shown("6", PolicyNews(facts=EDITED))

    assert snap_compare(app, terminal_size=(80, 24), run_before=go)


def test_a_change_of_the_policy_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, go = shown("6", PolicyNews(facts=EDITED))

    assert snap_compare(app, terminal_size=(80, 24), run_before=go)

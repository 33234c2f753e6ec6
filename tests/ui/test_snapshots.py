"""A few whole screens with their colours, as the terminal library draws them. Look at a new one before it is kept."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.fakes.cards import delete_sample
from tests.fakes.control_feed import ControlFeed
from tests.ui.cards import (
    calm_read,
    changed_write,
    delete_accounts,
    delete_release,
    expiring,
    first_contact,
    repeat_in_doubt,
    wide_write,
)
from tests.ui.scenes import READY, StillClock, entry, served
from ui.app import DoorwardApp
from ui.messages import ApproverNews, CardNews, Connected

pytestmark = pytest.mark.usefixtures("in_utc")

Compare = Callable[..., bool]


def application(*cards: dict[str, Any]) -> tuple[DoorwardApp, Callable[..., Any]]:
    """The application with a queue, and what brings it to a steady picture: keys, one after the other."""
    feed = ControlFeed({raw["approval_id"]: CardNews(served=served(raw)) for raw in cards})
    clock = StillClock()
    app = DoorwardApp(feed, clock=clock)

    def prepared(*keys: str) -> Callable[[Pilot[None]], Any]:
        async def go(pilot: Pilot[None]) -> None:
            waiting = tuple(entry(raw) for raw in cards)
            feed.tell(Connected(status=replace(READY, in_doubt=1), waiting=waiting), ApproverNews(ready=True))
            await pilot.pause()
            app.redraw()
            await pilot.pause()
            for key in keys:
                clock.mono_s += 2.0
                await pilot.press(key)
            clock.mono_s += 2.0
            app.redraw()
            await pilot.pause()

        return go

    return app, prepared


def test_a_calm_read_in_colour(snap_compare: Compare) -> None:
    app, prepared = application(calm_read(), expiring(delete_sample(), 117, "ap_000000000002"))

    assert snap_compare(app, terminal_size=(80, 24), run_before=prepared())


def test_a_delete_with_its_field_in_colour(snap_compare: Compare) -> None:
    app, prepared = application(delete_release())

    assert snap_compare(app, terminal_size=(80, 24), run_before=prepared("a", "1", "2"))


def test_a_delete_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, prepared = application(delete_release())

    assert snap_compare(app, terminal_size=(80, 24), run_before=prepared())


def test_a_wide_card_in_colour(snap_compare: Compare) -> None:
    app, prepared = application(wide_write())

    assert snap_compare(app, terminal_size=(120, 40), run_before=prepared())


SHAPES = {"gap": delete_accounts, "first contact": first_contact, "repeat": repeat_in_doubt, "changed": changed_write}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_main_shapes_of_a_card_in_colour(snap_compare: Compare, shape: str) -> None:
    app, prepared = application(SHAPES[shape]())

    assert snap_compare(app, terminal_size=(80, 24), run_before=prepared())


def test_a_gap_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, prepared = application(delete_accounts())

    assert snap_compare(app, terminal_size=(80, 24), run_before=prepared())


def test_a_no_with_its_reasons_in_colour(snap_compare: Compare) -> None:
    app, prepared = application(delete_accounts())

    assert snap_compare(app, terminal_size=(80, 24), run_before=prepared("d", "n", "o"))

"""Notices of a real daemon on a real desktop: seen, clicked, forged, hung, started anew. One daemon for all claims."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.desktop.notices import DENIED
from tests.live.desktop import NoticeDesktop
from tests.live.house import Agent, House, until
from tests.live.plain_upstream import serving
from tests.live.terminal import Terminal
from ui.brought_up import HANDS_OFF_S

pytestmark = pytest.mark.live

BUY = {"service": "shop", "operation": "orders.create"}


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NoticeDesktop]:
    with NoticeDesktop(tmp_path_factory.mktemp("x") / "desktop") as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, desktop: NoticeDesktop) -> Iterator[House]:
    with serving() as upstream, House(tmp_path_factory.mktemp("h") / "h") as made:
        made.environ = {**made.environ, "DBUS_SESSION_BUS_ADDRESS": desktop.bus.address}
        made.init().open(origin=upstream.origin)
        yield made


@contextmanager
def asking(house: House, desktop: NoticeDesktop, name: str, *, seen: bool = True) -> Iterator[tuple[Agent, int]]:
    """An agent whose card waits, and is on the screen."""
    with house.agent() as agent:
        number = agent.begin_act(**BUY, args={"name": name})
        until(house.human.cards)
        if seen:
            until(lambda: desktop.shown == 1)
        yield agent, number
    until(lambda: house.process is None or not house.human.cards())


def told(house: House) -> dict[str, Any]:
    found = house.human.client.status()["desktop"]
    assert isinstance(found, dict)
    return found


def test_a_card_is_seen_and_denied_by_a_click(house: House, desktop: NoticeDesktop, tmp_path: Path) -> None:
    assert "ready" == told(house)["notices"]
    with asking(house, desktop, "one") as (agent, number):
        until(lambda: desktop.picture(tmp_path / "seen.png") > 2)
        desktop.click("Deny")
        answer = agent.end_act(number)
        until(lambda: not desktop.shown)
    assert "declined" == answer["code"]
    assert DENIED in answer["message"]
    assert {"Deny", "Open"} == {line[1:].split(" ")[0] for line in desktop.offered.read_text().splitlines()}
    assert desktop.picture(tmp_path / "gone.png") <= 2


def test_a_forged_click_from_another_program_does_nothing(house: House, desktop: NoticeDesktop) -> None:
    assert house.process is not None
    before = told(house)["forged_signals"]
    with asking(house, desktop, "two") as (agent, number):
        (card,) = house.human.cards()
        for notice_id in range(1, 20):
            for action in (f"deny:{card['id']}", f"approve:{card['id']}", f"open:{card['id']}"):
                desktop.forge(house.process.pid, "ActionInvoked", "us", notice_id, action)
        until(lambda: told(house)["forged_signals"] == before + 57)
        assert [card["id"]] == [row["id"] for row in house.human.cards()]
        assert not agent.answered(number)
        house.human.approve(card["id"])
        assert "success" == agent.end_act(number)["category"]


def test_a_hung_service_holds_nothing_up_and_is_caught_up_with(house: House, desktop: NoticeDesktop) -> None:
    desktop.hang_service()
    try:
        with asking(house, desktop, "three", seen=False) as (agent, number):
            until(lambda: told(house)["notices"] == "silent")
            house.human.deny(house.human.wait_for_card())
            assert "declined" == agent.end_act(number)["code"]
    finally:
        desktop.go_on()
    until(lambda: told(house)["notices"] == "ready")
    until(lambda: not desktop.shown)


def test_a_service_that_starts_anew_shows_the_card_again(house: House, desktop: NoticeDesktop) -> None:
    with asking(house, desktop, "four") as (agent, number):
        desktop.end_service()
        until(lambda: told(house)["notices"] == "no_service")
        desktop.start_service()
        until(lambda: desktop.shown == 1)
        desktop.click("Deny")
        assert "declined" == agent.end_act(number)["code"]
    until(lambda: not desktop.shown)


def test_open_brings_the_card_up_on_the_screen_that_is_open(house: House, desktop: NoticeDesktop) -> None:
    command = [sys.executable, "-I", "-m", "ui"]
    with (
        Terminal("desktop", command, environ=dict(house.environ), size=(80, 24)) as screen,
        asking(house, desktop, "five") as (agent, number),
    ):
        screen.until("1 waiting")
        screen.keys("6")
        screen.until("[6 Policy")
        time.sleep(HANDS_OFF_S + 0.5)  # nothing moves under hands at the keys
        desktop.click("Open")
        screen.until("[1 Approvals]", "orders.create")
        assert 1 == len(house.human.cards())
        house.human.deny(house.human.wait_for_card())
        agent.end_act(number)


def test_the_daemon_goes_on_without_a_bus_and_ends_well_in_every_state(house: House, desktop: NoticeDesktop) -> None:
    with asking(house, desktop, "six") as (agent, number):
        assert 0 == house.stop()
        assert "shutting_down" == agent.end_act(number)["code"]
    until(lambda: not desktop.shown)
    house.start().human.unlock()
    desktop.bus.end()
    until(lambda: told(house)["notices"] == "no_bus")
    with house.agent() as agent:
        number = agent.begin_act(**BUY, args={"name": "seven"})
        house.human.deny(house.human.wait_for_card())
        assert "declined" == agent.end_act(number)["code"]
    assert 0 == house.stop()
    desktop.bus.start()
    house.start()
    until(lambda: told(house)["notices"] == "no_service")
    desktop.bus.hang()
    assert 0 == house.stop()
    desktop.bus.go_on()

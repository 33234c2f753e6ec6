"""The notice that follows what waits, on a real bus with a service that keeps what it is given."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.desktop.notice_text import NoticeCard
from broker.desktop.notices import NO_SCREEN, Notices, NoticeState
from broker.desktop.standing import Standing
from tests.fakes.bus import PrivateBus, Someone, soon
from tests.fakes.notice_cards import CARD
from tests.fakes.notification_service import NAME, PATH, NotificationService

CALL_S = 0.3
NOW_MS = 1_764_000_000_000  # when each test begins: how long ago this file was read is no matter of a card's time
FIRST = replace(CARD, proven=True, expires_at_ms=NOW_MS + 120_000)
SECOND, THIRD = (replace(FIRST, id=f"ap_{number}", agent="aider") for number in (2, 3))


class Desk:
    """Cards that wait, and what notices had done to them."""

    def __init__(self) -> None:
        self.cards: list[NoticeCard] = []
        self.denied: list[str] = []
        self.opened: list[str] = []
        self.screens = 1
        began_s = time.monotonic()
        self.notices = Notices(
            waiting=lambda: self.cards,
            deny=self._deny,
            bring_up=self._bring_up,
            now_ms=lambda: NOW_MS + int((time.monotonic() - began_s) * 1000),
            call_s=CALL_S,
        )

    def put(self, *cards: NoticeCard) -> None:
        self.cards = [*cards]
        self.notices.changed()

    async def _deny(self, card_id: str) -> None:
        self.denied.append(card_id)
        self.put(*(card for card in self.cards if card.id != card_id))

    def _bring_up(self, card_id: str) -> bool:
        self.opened.append(card_id)
        return self.screens > 0


@pytest.fixture
async def desk(bus: PrivateBus) -> AsyncIterator[Desk]:
    made = Desk()
    standing = Standing(bus.path, [made.notices], monotonic_s=time.monotonic, pause_s=0.05)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(standing.run()), tasks.create_task(made.notices.work())]
        yield made
        for task in running:
            task.cancel()


async def shows(service: NotificationService, **expected: object) -> dict[str, Any]:
    def fits() -> bool:
        return len(service.shown) == 1 and all(service.one[name] == value for name, value in expected.items())

    await soon(fits)
    return service.one


async def gone(service: NotificationService) -> None:
    await soon(lambda: not service.shown)


async def test_a_card_raises_a_plain_notice_that_goes_with_it(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        made = await shows(service, summary="doorward: codex asks to DELETE")
        assert ["deny:ap_1", "Deny", "open:ap_1", "Open"] == made["actions"]
        assert {"urgency": ("y", 1), "suppress-sound": ("b", True)} == made["hints"]
        assert ("doorward", "") == (made["app"], made["icon"])
        assert 100_000 < made["lasts_ms"] <= 125_000
        desk.put()
        await gone(service)
        assert 1 == len(service.raised)


async def test_several_cards_are_one_notice_that_is_replaced(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        first = await shows(service)
        desk.put(FIRST, SECOND, THIRD)
        made = await shows(service, summary="doorward: 3 requests wait")
        assert (first["id"], "deny:ap_1") == (made["replaces"], made["actions"][0])
        desk.put(SECOND, THIRD)
        made = await shows(service, summary="doorward: 2 requests wait")
        assert "deny:ap_2" == made["actions"][0]


async def test_what_says_the_same_is_not_raised_again(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        await shows(service)
        for _ in range(3):
            desk.put(replace(FIRST))
            await asyncio.sleep(0.3)  # longer than two changes are apart
        assert 1 == len(service.raised)


async def test_a_click_denies_the_card_that_was_told_of_and_the_rest_is_told_anew(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST, SECOND)
        await shows(service)
        await service.click("deny:ap_1")
        await shows(service, summary="doorward: aider asks to DELETE")
        assert ["ap_1"] == desk.denied
        await service.click("deny:ap_2")
        await soon(lambda: desk.denied == ["ap_1", "ap_2"])
        assert 2 == len(service.raised)


async def test_a_click_on_what_the_notice_said_before_never_denies_another_card(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        made = await shows(service)
        desk.put(SECOND)
        await shows(service, summary="doorward: aider asks to DELETE")
        await service.say(PATH, NAME, "ActionInvoked", "us", made["id"], "deny:ap_1")
        await service.click("open:ap_2")
        await soon(lambda: desk.opened)
        assert [] == desk.denied


@pytest.mark.parametrize(
    "action", ["approve:ap_1", "default", "deny", "deny:", "deny:ap_9", "DENY:ap_1", "a:ap_1", "", "open:ap_1:ap_1"]
)
async def test_other_actions_do_nothing(bus: PrivateBus, desk: Desk, action: str) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        made = await shows(service)
        await service.say(PATH, NAME, "ActionInvoked", "us", made["id"], action)
        await service.say(PATH, NAME, "ActionInvoked", "us", made["id"] + 1, "deny:ap_1")
        await service.say(PATH, NAME, "ActionInvoked", "s", "deny:ap_1")
        await service.say("/elsewhere", NAME, "ActionInvoked", "us", made["id"], "deny:ap_1")
        await service.say(PATH, NAME, "ActionInvoked", "us", made["id"], "open:ap_1")
        await soon(lambda: desk.opened)
        assert ([], ["ap_1"]) == (desk.denied, desk.opened)


async def test_open_without_a_screen_says_how_to_get_one(bus: PrivateBus, desk: Desk) -> None:
    desk.screens = 0
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        await shows(service)
        await service.click("open:ap_1")
        await soon(lambda: service.shown and service.one["body"].endswith(NO_SCREEN))
        assert ["ap_1"] == desk.opened


async def test_what_was_waved_away_stays_away_until_something_new_waits(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST, SECOND)
        await shows(service)
        await service.dismiss()
        desk.put(SECOND)
        await asyncio.sleep(0.3)
        assert {} == service.shown
        desk.put(SECOND, THIRD)
        await shows(service, summary="doorward: 2 requests wait")
        desk.put(SECOND)
        await gone(service)


async def test_a_service_that_starts_anew_is_told_again(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        await shows(service)
    await soon(lambda: desk.notices.state is not NoticeState.SILENT)
    async with NotificationService(bus, first=70) as service:
        made = await shows(service)
        assert (70, 0) == (made["id"], made["replaces"])
        await service.click("deny:ap_1")
        await soon(lambda: desk.denied)


async def test_without_a_service_nothing_is_lost(bus: PrivateBus, desk: Desk) -> None:
    desk.put(FIRST)
    await soon(lambda: desk.notices.state is NoticeState.NO_SERVICE)
    async with NotificationService(bus) as service:
        await shows(service)
        assert NoticeState.READY == desk.notices.state


async def test_a_hung_service_is_asked_for_one_thing_and_caught_up_with(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        await soon(lambda: desk.notices.state is NoticeState.READY)
        service.hang()
        desk.put(FIRST)
        await soon(lambda: desk.notices.state is NoticeState.SILENT)
        for _ in range(3):
            desk.put(FIRST, SECOND)
            desk.put(FIRST)
        desk.put(SECOND)
        assert 1 == sum(member == "Notify" for member, _ in service.called)
        await service.go_on()
        made = await shows(service, summary="doorward: aider asks to DELETE")
        assert ("deny:ap_2", NoticeState.READY) == (made["actions"][0], desk.notices.state)


async def test_a_hung_service_whose_card_is_settled_meanwhile_closes_the_notice(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        await soon(lambda: desk.notices.state is NoticeState.READY)
        service.hang()
        desk.put(FIRST)
        await soon(lambda: desk.notices.state is NoticeState.SILENT)
        desk.put()
        await service.go_on()
        await soon(lambda: service.raised and not service.shown)


async def test_a_service_that_hangs_from_the_start_is_called_silent(bus: PrivateBus) -> None:
    async with NotificationService(bus) as service:
        service.hang()
        made = Desk()
        standing = Standing(bus.path, [made.notices], monotonic_s=time.monotonic, pause_s=0.05)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(standing.run())
            await soon(lambda: made.notices.state is NoticeState.SILENT)
            running.cancel()


async def test_a_service_without_actions_is_given_none(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus, abilities=("body", "body-markup")) as service:
        desk.put(FIRST)
        assert [] == (await shows(service))["actions"]


async def test_a_bus_that_starts_anew_is_found_again(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service:
        desk.put(FIRST)
        await shows(service)
        bus.end()
        await soon(lambda: desk.notices.state is NoticeState.NO_BUS)
    bus.start()
    async with NotificationService(bus) as service:
        await shows(service)


async def test_the_end_of_the_daemon_takes_the_notice_along(bus: PrivateBus) -> None:
    async with NotificationService(bus) as service:
        made = Desk()
        made.put(FIRST)
        standing = Standing(bus.path, [made.notices], monotonic_s=time.monotonic)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(standing.run())
            await shows(service)
            running.cancel()
        await gone(service)


async def test_a_service_that_can_be_started_is(tmp_path: Path) -> None:
    """By the bus, when there is something to tell and not before."""
    services, log = tmp_path / "services", tmp_path / "started"
    services.mkdir()
    script = tmp_path / "serve"
    script.write_text(f"#!/bin/sh\necho x >> {log}\nexit 1\n")
    script.chmod(0o755)
    (services / "n.service").write_text(f"[D-BUS Service]\nName={NAME}\nExec={script}\n")
    with PrivateBus(tmp_path / "bus", services=services) as bus:
        made = Desk()
        standing = Standing(bus.path, [made.notices], monotonic_s=time.monotonic)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(standing.run())
            await soon(lambda: made.notices.state is NoticeState.READY)
            assert not log.exists()
            made.put(FIRST)
            await soon(log.exists)
            await soon(lambda: made.notices.state is NoticeState.NO_SERVICE)
            for _ in range(5):
                made.put(FIRST, SECOND)
                await asyncio.sleep(0.1)
            running.cancel()
        assert 2 >= len(log.read_text().split())


async def test_a_program_that_takes_the_name_over_is_the_service_from_then_on(bus: PrivateBus, desk: Desk) -> None:
    """It may show and take away; what the former one says counts no more."""
    async with NotificationService(bus) as former:
        desk.put(FIRST)
        made = await shows(former)
        async with NotificationService(bus, first=50) as later:
            await shows(later)
            await former.say(PATH, NAME, "ActionInvoked", "us", made["id"], "deny:ap_1")
            await former.say(PATH, NAME, "ActionInvoked", "us", 50, "deny:ap_1")
            await later.click("open:ap_1")
            await soon(lambda: desk.opened)
            assert [] == desk.denied


async def test_anybody_may_be_on_the_bus(bus: PrivateBus, desk: Desk) -> None:
    async with NotificationService(bus) as service, Someone(bus) as other:
        desk.put(FIRST)
        made = await shows(service)
        await other.say(PATH, NAME, "NotificationClosed", "uu", made["id"], 2)
        await other.say(PATH, NAME, "ActionInvoked", "us", made["id"], "deny:ap_1")
        await service.click("open:ap_1")
        await soon(lambda: desk.opened)
        assert [] == desk.denied

"""What the desktop is told of cards, and what it may have done with them."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from broker.contract.reasons import LockReason
from broker.contract.wire import JsonObject
from broker.daemon.desktop import NOTHING_WISHED, Desktop, DesktopWishes
from broker.desktop.notices import DENIED
from broker.ports import Question
from broker.server.events import EventHub
from tests.fakes import hosts
from tests.fakes.bus import PrivateBus, soon
from tests.fakes.clock import START_MS, SetClock
from tests.fakes.logind import PATH, Logind
from tests.fakes.notification_service import NotificationService
from tests.fakes.questions import question

OWN = f"{PATH}/session/_31"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    id: str
    question: Question

    @property
    def card(self) -> JsonObject:
        return {"expires_at_ms": START_MS + 60_000}


class Office:
    """Notes what it was asked for."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, JsonObject]] = []
        self.locked: list[LockReason] = []

    async def lock(self, reason: LockReason) -> None:
        self.locked.append(reason)

    async def decide(self, card_id: str, document: JsonObject, viewer: str) -> None:
        assert viewer
        self.decided.append((card_id, document))


class Around:
    """A desktop, and everything that it is put between."""

    def __init__(self, wishes: DesktopWishes | None = None, **environ: str) -> None:
        self.hub, self.office = EventHub(), Office()
        self.cards: list[Card] = []
        absent = {"DBUS_SESSION_BUS_ADDRESS": "", "DBUS_SYSTEM_BUS_ADDRESS": ""}
        self.desktop = Desktop({**absent, **environ}, wishes or DesktopWishes(), hub=self.hub, clock=SetClock())
        self.desktop.office = self.office
        self.desktop.waiting = lambda: self.cards

    def put(self, *cards: Card) -> None:
        self.cards = [*cards]
        self.desktop.changed()


async def test_a_card_over_http_names_the_host_that_the_policy_names(tmp_path: Path) -> None:
    with PrivateBus(tmp_path / "bus") as bus:
        around = Around(DBUS_SESSION_BUS_ADDRESS=bus.address)
        async with NotificationService(bus) as service, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(around.desktop.run())
            asked = question()
            around.put(Card(id="ap_1", question=asked))
            await soon(lambda: service.shown)
            service_name, host = asked.frozen.service.name, asked.frozen.service.host
            operation = asked.frozen.operation.removeprefix(f"{service_name}.")
            assert f"{service_name} {operation} at {host}" == service.one["body"].split("\n")[0]
            assert "ready" == around.desktop.to_json()["notices"]
            await service.click("deny:ap_1")
            await soon(lambda: around.office.decided)
            running.cancel()
    assert [("ap_1", {"decision": "deny", "reason": DENIED})] == around.office.decided


async def test_a_card_over_ssh_names_the_host_and_no_command(tmp_path: Path) -> None:
    frozen = hosts.frozen(hosts.words("printf", "canary-word"))
    asked = replace(question(), frozen=frozen)
    with PrivateBus(tmp_path / "bus") as bus:
        around = Around(DBUS_SESSION_BUS_ADDRESS=bus.address)
        async with NotificationService(bus) as service, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(around.desktop.run())
            around.put(Card(id="ap_2", question=asked))
            await soon(lambda: service.shown)
            first = service.one["body"].split("\n")[0]
            running.cancel()
    assert first.endswith(f" at {frozen.host.name}")
    assert "canary" not in repr(service.raised)


async def test_a_screen_that_locks_locks_the_vault(tmp_path: Path) -> None:
    with PrivateBus(tmp_path / "bus") as bus:
        around = Around(DBUS_SYSTEM_BUS_ADDRESS=bus.address)
        async with Logind(bus, own=OWN) as logind, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(around.desktop.run())
            await soon(lambda: around.desktop.to_json()["login_session"] == "ready")
            await logind.lock(OWN)
            await soon(lambda: around.office.locked)
            running.cancel()
    assert [LockReason.SCREEN_LOCKED] == around.office.locked


async def test_without_any_bus_it_runs_and_ends() -> None:
    around = Around()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(around.desktop.run())
        around.put(Card(id="ap_1", question=question()))
        await asyncio.sleep(0)
        running.cancel()
    told = around.desktop.to_json()
    assert ("no_bus", "absent", False, 0) == tuple(told.values())


async def test_what_is_not_wished_for_is_off_and_asks_no_bus(tmp_path: Path) -> None:
    nowhere = f"unix:path={tmp_path / 'nothing'}"
    around = Around(NOTHING_WISHED, DBUS_SESSION_BUS_ADDRESS=nowhere, DBUS_SYSTEM_BUS_ADDRESS=nowhere)
    await around.desktop.run()
    told = around.desktop.to_json()
    assert ("off", "off") == (told["notices"], told["login_session"])

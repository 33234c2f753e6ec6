"""One bus kept at hand: found, left, and come back to."""

import asyncio
import time
from collections.abc import Callable

from broker.desktop.connection import BusConnection
from broker.desktop.faults import DesktopError, Trouble
from broker.desktop.standing import LASTED_S, Standing
from tests.fakes.bus import PrivateBus, soon


class Listening:
    """A part that notes what happens to it; `fault` is raised when it attends."""

    def __init__(self, fault: Callable[[], Exception] | None = None) -> None:
        self.visits = 0
        self.missed: list[Trouble] = []
        self._fault = fault

    async def attend(self, bus: BusConnection) -> None:
        self.visits += 1
        assert not bus.closed.is_set()
        if self._fault is not None:
            raise self._fault()

    def without(self, trouble: Trouble) -> None:
        self.missed.append(trouble)


async def while_standing(standing: Standing, what: Callable[[], object]) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(standing.run())
        await soon(what)
        running.cancel()


async def test_without_an_address_nothing_is_tried() -> None:
    part = Listening()
    await Standing(None, [part], monotonic_s=time.monotonic).run()
    assert (0, [Trouble.ABSENT]) == (part.visits, part.missed)


async def test_a_bus_that_comes_later_is_found(bus: PrivateBus) -> None:
    bus.end()
    part = Listening()
    standing = Standing(bus.path, [part], monotonic_s=time.monotonic, pause_s=0.02)

    async def come() -> None:
        await soon(lambda: part.missed == [Trouble.ABSENT] * 2)
        bus.start()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(come())
        await while_standing(standing, lambda: part.visits)


async def test_pauses_grow(bus: PrivateBus) -> None:
    part = Listening(lambda: DesktopError(Trouble.ODD, "canary"))
    standing = Standing(bus.path, [part], monotonic_s=lambda: 0.0, pause_s=0.3)
    began_s = time.monotonic()
    await while_standing(standing, lambda: part.visits == 3)
    assert time.monotonic() - began_s >= 0.9  # 0.3 and 0.6
    assert Trouble.ODD == part.missed[0]


async def test_pauses_are_short_again_after_a_connection_that_lasted(bus: PrivateBus) -> None:
    """With pauses that doubled each time the last would be of minutes."""
    now_s = 0.0

    def monotonic_s() -> float:
        nonlocal now_s
        now_s += 2 * LASTED_S
        return now_s

    part = Listening(lambda: DesktopError(Trouble.ODD, "canary"))
    standing = Standing(bus.path, [part], monotonic_s=monotonic_s, pause_s=0.02)
    await while_standing(standing, lambda: part.visits == 15)


async def test_a_fault_of_ours_stays_here(bus: PrivateBus) -> None:
    faulty, other = Listening(lambda: ValueError("canary")), Listening()
    standing = Standing(bus.path, [faulty, other], monotonic_s=time.monotonic, pause_s=0.01)
    await while_standing(standing, lambda: faulty.visits == 3)
    assert {Trouble.ODD} == set(faulty.missed) == set(other.missed)

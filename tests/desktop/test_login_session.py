"""Screen locks and sleeps as logind tells of them, on a real bus. With the real inhibitor: see the live tests."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from broker.contract.reasons import LockReason
from broker.desktop.login_session import LoginSession, LoginState
from broker.desktop.moments import Moments
from broker.desktop.screen_saver import SERVICES, ScreenSaver
from broker.desktop.standing import Standing
from tests.fakes.bus import PrivateBus, Someone, soon
from tests.fakes.logind import MANAGER, PATH, SESSION, Logind

OWN, OTHER = f"{PATH}/session/_31", f"{PATH}/session/_32"
CALL_S = 0.3
YES, NO = True, False


class Vault:
    """Why it was locked, in order."""

    def __init__(self) -> None:
        self.locked: list[LockReason] = []
        self.moments = Moments(self._lock)
        self.login = LoginSession(self.moments, call_s=CALL_S, retry_s=0.2)

    async def _lock(self, reason: LockReason) -> None:
        self.locked.append(reason)
        if len(self.locked) == 1:
            raise OSError("the first one fails, and the next counts all the same")


@pytest.fixture
async def vault(bus: PrivateBus) -> AsyncIterator[Vault]:
    made = Vault()
    standing = Standing(
        bus.path,
        [made.login, ScreenSaver(made.moments)],
        monotonic_s=time.monotonic,
        descriptors=True,
        pause_s=0.05,
    )
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(standing.run()), tasks.create_task(made.moments.work())]
        yield made
        for task in running:
            task.cancel()


async def ready(vault: Vault, state: LoginState = LoginState.READY) -> None:
    await soon(lambda: vault.login.state is state)


@pytest.mark.parametrize("way", ["own", "display"])
async def test_a_lock_of_our_session_locks_the_vault_and_of_another_does_not(
    bus: PrivateBus, vault: Vault, way: str
) -> None:
    async with Logind(bus, **{way: OWN}) as logind:
        await ready(vault)
        await logind.lock(OTHER)
        await logind.hint(OTHER, locked=True)
        await logind.hint(OWN, locked=False)
        await logind.say(OWN, SESSION, "Unlock", "")
        await logind.lock(OWN)
        await soon(lambda: vault.locked)
        await logind.hint(OWN, locked=True)
        await soon(lambda: len(vault.locked) == 2)
    assert [LockReason.SCREEN_LOCKED] * 2 == vault.locked


async def test_a_sleep_locks_and_waking_up_does_not(bus: PrivateBus, vault: Vault) -> None:
    async with Logind(bus) as logind:
        await ready(vault, LoginState.NO_SESSION)
        await logind.sleep(begins=False)
        await logind.sleep(begins=True)
        await soon(lambda: vault.locked == [LockReason.SUSPEND])
        await logind.sleep(begins=False)
        await logind.sleep(begins=True)
        await soon(lambda: vault.locked == [LockReason.SUSPEND] * 2)
    assert not vault.login.delays


async def test_a_session_that_comes_later_is_found(bus: PrivateBus, vault: Vault) -> None:
    async with Logind(bus) as logind:
        await ready(vault, LoginState.NO_SESSION)
        logind.display = OWN
        await logind.say(PATH, MANAGER, "SessionNew", "so", "1", OWN)
        await ready(vault)
        await logind.lock(OWN)
        await soon(lambda: vault.locked)


async def test_without_logind_nothing_is_wrong_and_it_is_found_when_it_comes(bus: PrivateBus, vault: Vault) -> None:
    await asyncio.sleep(0.3)
    assert LoginState.ABSENT == vault.login.state
    async with Logind(bus, own=OWN) as logind:
        await ready(vault)
        logind.hang()
        await ready(vault, LoginState.ABSENT)
        await logind.go_on()
        await ready(vault)
    await ready(vault, LoginState.ABSENT)


async def test_an_answer_that_makes_no_sense_is_no_session(bus: PrivateBus, vault: Vault) -> None:
    async with Logind(bus) as logind:
        logind.on("Get", lambda _: ("s", ("x",)))
        await ready(vault, LoginState.NO_SESSION)
        logind.on("GetUser", lambda _: None)
        logind.on("Inhibit", lambda _: ("s", ("no descriptor",)))
        await logind.say(PATH, MANAGER, "SessionNew", "s", "odd")
        await logind.say(PATH, MANAGER, "PrepareForSleep", "s", "odd")
        await logind.say("/elsewhere", MANAGER, "PrepareForSleep", "b", YES)
        await logind.lock(OWN)
        await logind.sleep(begins=True)
        await soon(lambda: vault.locked)
    assert [LockReason.SUSPEND] == vault.locked


@pytest.mark.parametrize("service", SERVICES)
async def test_the_desktop_s_own_word_counts_as_well(bus: PrivateBus, vault: Vault, service: str) -> None:
    async with Someone(bus, service) as saver, Logind(bus, own=OWN):
        await ready(vault)
        await saver.say("/ScreenSaver", service, "ActiveChanged", "b", NO)
        await saver.say("/ScreenSaver", service, "ActiveChanged", "b", YES)
        await soon(lambda: vault.locked)
    assert [LockReason.SCREEN_LOCKED] == vault.locked

"""The human's login session, as logind tells of it on the system bus: before a sleep and at a screen lock we lock.

A sleep is delayed until the vault is locked, by an inhibitor that is given back at once, and in any case in time.
Signals count from logind's own connection alone. Without logind, or without a session of this user, nothing is done
and nothing is wrong.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from broker.contract.reasons import LockReason
from broker.desktop.connection import CALL_S, BusConnection
from broker.desktop.faults import DesktopError, Trouble
from broker.desktop.marshal import Call, Incoming
from broker.desktop.moments import Moments

SERVICE, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
MANAGER, SESSION, USER = f"{SERVICE}.Manager", f"{SERVICE}.Session", f"{SERVICE}.User"
PROPERTIES = "org.freedesktop.DBus.Properties"
DELAY_S = 4.0  # logind waits 5 s by default for who delays a sleep
RETRY_S = 30.0
GAP_S = 0.25


class LoginState(StrEnum):
    OFF = "off"
    ABSENT = "absent"  # no system bus, no logind, or it does not answer
    NO_SESSION = "no_session"  # sleep is watched; this user has no session whose screen could lock
    READY = "ready"


class LoginSession:
    """Tells `moments` when it is time."""

    def __init__(
        self,
        moments: Moments,
        *,
        told: Callable[[], object] = lambda: None,
        call_s: float = CALL_S,
        retry_s: float = RETRY_S,
        delay_s: float = DELAY_S,
    ) -> None:
        self.state = LoginState.ABSENT
        self.delays = False  # whether a sleep waits for us
        self._moments = moments
        self._told = told
        self._call_s = call_s
        self._retry_s = retry_s
        self._delay_s = delay_s
        self._session = ""
        self._inhibitor: int | None = None
        self._asleep = False
        self._sleep_due = asyncio.Event()
        self._again = asyncio.Event()

    def without(self, trouble: Trouble) -> None:  # noqa: ARG002 - whatever it was, there is no bus
        self._give_back()
        self._say(LoginState.ABSENT)

    async def attend(self, bus: BusConnection) -> None:
        """Until cancelled. Raises DesktopError where the bus is of no use."""
        self._asleep = False
        self._sleep_due.clear()
        await bus.follow(SERVICE, self._moved)
        await bus.hear(SERVICE, MANAGER, self._manager_says)
        await bus.hear(SERVICE, SESSION, self._session_says, more=",member='Lock'")
        await bus.hear(SERVICE, PROPERTIES, self._session_changed, more=f",arg0='{SESSION}'")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._find_always(bus))
                tasks.create_task(self._delay_sleeps())
        finally:
            self._give_back()

    async def _find_always(self, bus: BusConnection) -> None:
        """Know our session, whenever sessions come and go or logind starts anew."""
        while True:
            self._again.clear()
            try:
                self._session = await self._find(bus)
                if self._inhibitor is None and not self._asleep:
                    await self._inhibit(bus)
            except DesktopError as error:
                if error.trouble is Trouble.GONE:
                    raise
                self._session = ""
                self._say(LoginState.ABSENT)
            else:
                self._say(LoginState.READY if self._session else LoginState.NO_SESSION)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._retry_s):
                    await self._again.wait()
                    await asyncio.sleep(GAP_S)  # many may log in at once

    async def _find(self, bus: BusConnection) -> str:
        """The path of our own session, else of the one that this user's display is in; empty without any."""
        if bus.owner(SERVICE) is None:
            self._give_back()
            raise DesktopError(Trouble.ABSENT, "there is no logind")
        own = await self._ask(bus, PATH, MANAGER, "GetSessionByPID", "u", os.getpid())
        if own is not None and own.signature == "o":
            return str(own.body[0])
        user = await self._ask(bus, PATH, MANAGER, "GetUser", "u", os.getuid())
        if user is None or user.signature != "o":
            return ""
        display = await self._ask(bus, str(user.body[0]), PROPERTIES, "Get", "ss", USER, "Display")
        if display is None or display.signature != "v" or display.body[0][0] != "(so)":
            return ""
        path = str(display.body[0][1][1])
        return "" if path == "/" else path

    async def _delay_sleeps(self) -> None:
        """Lock when a sleep is announced, and only then let it come."""
        while True:
            await self._sleep_due.wait()
            self._sleep_due.clear()
            try:
                await asyncio.wait({self._moments.come(LockReason.SUSPEND)}, timeout=self._delay_s)
            finally:
                self._give_back()

    async def _inhibit(self, bus: BusConnection) -> None:
        """Ask that a sleep waits for us. Where that is refused, we lock as fast as we can."""
        words = ("sleep", "doorward", "lock the vault first", "delay")
        answer = await self._ask(bus, PATH, MANAGER, "Inhibit", "ssss", *words)
        if answer is not None and answer.descriptors:
            self._inhibitor, *others = answer.descriptors
            self.delays = True
            for descriptor in others:
                os.close(descriptor)

    def _give_back(self) -> None:
        held, self._inhibitor, self.delays = self._inhibitor, None, False
        if held is not None:
            os.close(held)

    def _moved(self) -> None:
        """Logind ended or started anew: what it held for us is gone."""
        self._give_back()
        self._asleep = False
        self._again.set()

    def _manager_says(self, message: Incoming) -> None:
        if message.path != PATH:
            return
        if message.member == "PrepareForSleep" and message.signature == "b":
            self._asleep = bool(message.body[0])
            (self._sleep_due if self._asleep else self._again).set()
        elif message.member in {"SessionNew", "SessionRemoved"}:
            self._again.set()

    def _session_says(self, message: Incoming) -> None:
        if message.member == "Lock" and self._session and message.path == self._session:
            self._moments.come(LockReason.SCREEN_LOCKED)

    def _session_changed(self, message: Incoming) -> None:
        if message.path != self._session or message.signature != "sa{sv}as" or message.body[0] != SESSION:
            return
        if message.body[1].get("LockedHint") == ("b", True):
            self._moments.come(LockReason.SCREEN_LOCKED)

    async def _ask(
        self, bus: BusConnection, path: str, interface: str, member: str, signature: str, *body: object
    ) -> Incoming | None:
        """None where logind says no."""
        asked = Call(
            to=bus.owner(SERVICE) or SERVICE,
            path=path,
            interface=interface,
            member=member,
            signature=signature,
            body=body,
        )
        try:
            return await bus.call(asked, limit_s=self._call_s)
        except DesktopError as error:
            if error.trouble is Trouble.REFUSED:
                return None
            raise

    def _say(self, state: LoginState) -> None:
        if state is not self.state:
            self.state = state
            self._told()

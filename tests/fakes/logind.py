"""A logind on a bus: one user, sessions, sleeps."""

from typing import Any

from tests.fakes.bus import PrivateBus, Someone

NAME, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
MANAGER, SESSION = f"{NAME}.Manager", f"{NAME}.Session"
USER_PATH = f"{PATH}/user/_1000"


class Logind(Someone):
    """`own` is the session of the asking process, `display` the one that its user's display is in."""

    def __init__(self, bus: PrivateBus, *, own: str = "", display: str = "") -> None:
        super().__init__(bus, NAME)
        self.own_session, self.display = own, display
        self.on("GetSessionByPID", lambda _: ("o", (self.own_session,)) if self.own_session else None)
        self.on("GetUser", lambda _: ("o", (USER_PATH,)))
        self.on("Get", lambda _: ("v", (("(so)", ("x", self.display or "/")),)))
        self.on("Inhibit", lambda _: None)

    async def sleep(self, *, begins: bool) -> None:
        await self.say(PATH, MANAGER, "PrepareForSleep", "b", begins)

    async def lock(self, path: str) -> None:
        await self.say(path, SESSION, "Lock", "")

    async def hint(self, path: str, *, locked: bool) -> None:
        changed: tuple[Any, ...] = (SESSION, {"LockedHint": ("b", locked)}, [])
        await self.say(path, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", *changed)

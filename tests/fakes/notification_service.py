"""A notification service on a bus: shows nothing, keeps what it was given, clicks and closes as it is told."""

from itertools import count
from typing import Any

from tests.fakes.bus import PrivateBus, Someone

NAME, PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"


class NotificationService(Someone):
    """`shown` is what is on the screen now, by id; `raised` all that ever was, in order."""

    def __init__(self, bus: PrivateBus, *, abilities: tuple[str, ...] = ("actions", "body"), first: int = 1) -> None:
        super().__init__(bus, NAME)
        self.shown: dict[int, dict[str, Any]] = {}
        self.raised: list[dict[str, Any]] = []
        self._ids = count(start=first)
        self.on("GetCapabilities", lambda _: ("as", (list(abilities),)))
        self.on("Notify", self._notify)
        self.on("CloseNotification", self._close)

    def _notify(self, body: tuple[Any, ...]) -> tuple[str, tuple[int]]:
        app, replaces, icon, summary, text, actions, hints, lasts_ms = body
        made = {
            "id": replaces or next(self._ids),
            "replaces": replaces,
            "app": app,
            "icon": icon,
            "summary": summary,
            "body": text,
            "actions": actions,
            "hints": hints,
            "lasts_ms": lasts_ms,
        }
        self.raised.append(made)
        self.shown[made["id"]] = made
        return "u", (made["id"],)

    def _close(self, body: tuple[Any, ...]) -> tuple[str, tuple[()]]:
        self.shown.pop(body[0], None)
        return "", ()

    @property
    def one(self) -> dict[str, Any]:
        """What is shown; there is to be one."""
        (found,) = self.shown.values()
        return found

    async def click(self, action: str, *, notice_id: int | None = None) -> None:
        """As a real one does it: the click, then the notice goes."""
        chosen = self.one["id"] if notice_id is None else notice_id
        await self.say(PATH, NAME, "ActionInvoked", "us", chosen, action)
        await self.dismiss(notice_id=chosen)

    async def dismiss(self, *, notice_id: int | None = None, why: int = 2) -> None:
        chosen = self.one["id"] if notice_id is None else notice_id
        self.shown.pop(chosen, None)
        await self.say(PATH, NAME, "NotificationClosed", "uu", chosen, why)

"""The desktop's own word that the screen is locked, where it gives one on the session bus.

Heard beside logind's: some desktops tell only here. The owner of the name alone is believed, and all that it can do is
to have the vault locked.
"""

from broker.contract.reasons import LockReason
from broker.desktop.connection import BusConnection
from broker.desktop.faults import Trouble
from broker.desktop.marshal import Incoming
from broker.desktop.moments import Moments

SERVICES = ("org.freedesktop.ScreenSaver", "org.gnome.ScreenSaver")


class ScreenSaver:
    """Tells `moments` when the screen locks."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def without(self, trouble: Trouble) -> None:
        """Nothing hangs on it."""

    async def attend(self, bus: BusConnection) -> None:
        """Raises DesktopError where the bus is of no use."""
        for service in SERVICES:
            await bus.follow(service, _nothing)
            await bus.hear(service, service, self._heard, more=",member='ActiveChanged'")

    def _heard(self, message: Incoming) -> None:
        if message.member == "ActiveChanged" and message.signature == "b" and message.body[0]:
            self._moments.come(LockReason.SCREEN_LOCKED)


def _nothing() -> None:
    """Who owns the name is looked up as each signal comes."""

"""Notices of waiting cards by org.freedesktop.Notifications: one at a time, which follows what waits.

Raised when a card waits, replaced when what it says changes, closed when nothing waits, raised again by a service that
was started anew. Its two answers only take away or show: Deny names the card that was told of, whatever waits by then,
and Open asks the screens that are connected. Other answers, ids and senders count for nothing. A service that hangs is
asked for one thing at most, and given time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from broker.desktop.connection import CALL_S, BusConnection
from broker.desktop.faults import DesktopError, Trouble
from broker.desktop.marshal import Call, Incoming
from broker.desktop.notice_text import Notice, NoticeCard, notice

LOG = logging.getLogger("doorward.desktop")
SERVICE, PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
DENIED = "Denied at the desktop; ask the human before trying again."
NO_SCREEN = "No screen is open to show it. Run: doorward ui"
GAP_S = 0.25  # between two changes of the notice
RETRY_S = 2.0
RETRY_MOST_S = 60.0
LINGER_MS = 5_000  # a notice whose daemon died goes by itself so long after its card's end
ANSWERS_MOST = 16  # clicks that are not worked on yet
URGENCY_NORMAL = 1
DISMISSED = {1, 2, 4}  # reasons why a notice went without our asking: its time, the human, unknown


class NoticeState(StrEnum):
    OFF = "off"
    NO_BUS = "no_bus"
    NO_SERVICE = "no_service"
    SILENT = "silent"  # there is a service, and it does not answer
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What the service was given, and who it was."""

    id: int
    owner: str
    notice: Notice


class Notices:
    """`waiting` tells what waits, oldest first; `deny` and `bring_up` are called with the id of a card.

    `bring_up` says whether there was a screen to bring it up on.
    """

    def __init__(
        self,
        *,
        waiting: Callable[[], Sequence[NoticeCard]],
        deny: Callable[[str], Awaitable[object]],
        bring_up: Callable[[str], bool],
        now_ms: Callable[[], int],
        told: Callable[[], object] = lambda: None,
        call_s: float = CALL_S,
    ) -> None:
        self.state = NoticeState.NO_BUS
        self._waiting = waiting
        self._deny = deny
        self._bring_up = bring_up
        self._now_ms = now_ms
        self._told = told
        self._call_s = call_s
        self._wake = asyncio.Event()
        self._clicks: asyncio.Queue[tuple[str, str]] = asyncio.Queue(maxsize=ANSWERS_MOST)
        self._shown: _Shown | None = None
        self._owed: tuple[asyncio.Future[Incoming], str, Notice] | None = None  # sent, and not answered yet
        self._able: tuple[str, bool] | None = None  # an owner, and whether it offers actions
        self._dismissed: frozenset[str] = frozenset()
        self._answered = False  # by a click; the service closes the notice by itself then
        self._denying: set[str] = set()  # clicked away, and not settled yet
        self._retry_s = RETRY_S
        self._not_before_s = 0.0
        self._is_new = False  # the service, or that there is none
        self._unopened = ""  # the card that no screen was there for

    def changed(self) -> None:
        """Something waits, or does no longer."""
        self._wake.set()

    def without(self, trouble: Trouble) -> None:  # noqa: ARG002 - whatever it was, there is no bus
        self._say(NoticeState.NO_BUS)

    async def work(self) -> None:
        """Do what was clicked; apart from the bus, so that a denial is finished though that ends."""
        while True:
            answer, card_id = await self._clicks.get()
            if answer == "open":
                self._open(card_id)
            else:
                await self._deny_it(card_id)
            await asyncio.sleep(GAP_S)  # whoever clicks without end does not fill the feed

    async def _deny_it(self, card_id: str) -> None:
        try:
            await self._deny(card_id)
        except Exception as cause:  # noqa: BLE001 - settled meanwhile, or the log is dead: both are told elsewhere
            LOG.info("a denial at the desktop came to nothing", extra={"kind": type(cause).__name__})
        finally:
            self._denying.discard(card_id)
            self._wake.set()

    def _open(self, card_id: str) -> None:
        if not self._bring_up(card_id):
            self._unopened = card_id
            self._dismissed = frozenset()
            self._wake.set()

    async def attend(self, bus: BusConnection) -> None:
        """Until cancelled. Raises DesktopError where the bus is of no use."""
        self._shown, self._owed, self._able = None, None, None
        try:
            await bus.follow(SERVICE, self._moved)
            await bus.hear(SERVICE, SERVICE, self._heard)
            self._moved()
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._is_new:
                    self._is_new = False
                    await self._look(bus)
                await self._keep_up(bus)
                await asyncio.sleep(GAP_S)
        finally:
            self._withdraw(bus)

    async def _look(self, bus: BusConnection) -> None:
        """What there is, before anything has to be told."""
        owner = bus.owner(SERVICE)
        if owner is not None:
            try:
                await self._can_act(bus, owner)
            except DesktopError as error:
                self._failed(error)
        else:
            names = await bus.ask_bus("ListActivatableNames")
            startable = names.signature == "as" and SERVICE in names.body[0]
            self._say(NoticeState.READY if startable else NoticeState.NO_SERVICE)

    async def _keep_up(self, bus: BusConnection) -> None:
        """Make the notice what it has to be."""
        if not self._settled_debt():
            return
        if self._shown is not None and self._shown.owner != bus.owner(SERVICE):
            self._shown = None  # it went with its service
        cards = [card for card in self._waiting() if card.id not in self._denying]
        self._dismissed &= frozenset(card.id for card in cards)
        wanted = None if all(card.id in self._dismissed for card in cards) else self._wanted(cards)
        if asyncio.get_running_loop().time() < self._not_before_s:
            return  # a timer is set
        try:
            if wanted is None:
                await self._close(bus)
            elif self._shown is None or self._shown.notice != wanted:
                await self._raise(bus, wanted)
        except DesktopError as error:
            if error.trouble is Trouble.GONE:
                raise
            self._failed(error)

    def _wanted(self, cards: Sequence[NoticeCard]) -> Notice | None:
        wanted = notice(cards)
        if wanted is None or wanted.card_id != self._unopened:
            return wanted
        return replace(wanted, body=f"{wanted.body}\n{NO_SCREEN}")

    async def _raise(self, bus: BusConnection, wanted: Notice) -> None:
        owner = bus.owner(SERVICE) or await self._started(bus)
        acts = await self._can_act(bus, owner)
        replaced = 0 if self._shown is None else self._shown.id
        sent = await bus.begin(self._notify(owner, replaced, wanted, acts=acts))
        sent.add_done_callback(lambda _: self._wake.set())
        self._owed = (sent, owner, wanted)
        await asyncio.wait({sent}, timeout=self._call_s)
        if not self._settled_debt():
            raise DesktopError(Trouble.SILENT, "the notification service does not answer")

    def _settled_debt(self) -> bool:
        """Take the answer to the last notice, if it came. False: it is still owed, and nothing else is asked for."""
        if self._owed is None:
            return True
        sent, owner, told = self._owed
        if not sent.done():
            return False
        self._owed = None
        try:
            answer = sent.result()
        except DesktopError as error:
            self._failed(error)
            return True
        if answer.sender == owner and answer.signature == "u":
            self._shown = _Shown(id=answer.body[0], owner=owner, notice=told)
            self._answered = False
            self._well()
        return True

    def _notify(self, owner: str, replaced: int, wanted: Notice, *, acts: bool) -> Call:
        actions = [f"deny:{wanted.card_id}", "Deny", f"open:{wanted.card_id}", "Open"] if acts else []
        hints = {"urgency": ("y", URGENCY_NORMAL), "suppress-sound": ("b", True)}
        lasts_ms = max(wanted.expires_at_ms - self._now_ms(), 0) + LINGER_MS
        body = ("doorward", replaced, "", wanted.summary, wanted.body, actions, hints, lasts_ms)
        return Call(to=owner, path=PATH, interface=SERVICE, member="Notify", signature="susssasa{sv}i", body=body)

    async def _started(self, bus: BusConnection) -> str:
        """The service, started by the bus if it can. Raises DesktopError."""
        await bus.ask_bus("StartServiceByName", "su", SERVICE, 0, limit_s=self._call_s)
        owner = await bus.look_up(SERVICE)
        if owner is None:
            raise DesktopError(Trouble.ABSENT, "no notification service can be started")
        return owner

    async def _can_act(self, bus: BusConnection, owner: str) -> bool:
        if self._able is not None and self._able[0] == owner:
            return self._able[1]
        asked = Call(to=owner, path=PATH, interface=SERVICE, member="GetCapabilities")
        answer = await bus.call(asked, limit_s=self._call_s)
        acts = answer.signature == "as" and "actions" in answer.body[0]
        self._able = (owner, acts)
        self._well()
        return acts

    async def _close(self, bus: BusConnection) -> None:
        shown, self._shown = self._shown, None
        if shown is not None:
            await bus.call(_closing(shown), limit_s=self._call_s)

    def _withdraw(self, bus: BusConnection) -> None:
        """At the end: nothing can be answered there any more."""
        shown, self._shown = self._shown, None
        if shown is not None:
            bus.post(_closing(shown))

    def _moved(self) -> None:
        """The service's name has another owner, or none."""
        self._retry_s, self._not_before_s = RETRY_S, 0.0
        self._is_new = True
        self._wake.set()

    def _heard(self, message: Incoming) -> None:
        """A signal of the service itself."""
        shown = self._shown
        if shown is None or message.sender != shown.owner or message.path != PATH:
            return
        if message.member == "ActionInvoked" and message.signature == "us":
            self._clicked(shown, *message.body)
        elif message.member == "NotificationClosed" and message.signature == "uu":
            self._closed(shown, *message.body)

    def _clicked(self, shown: _Shown, notice_id: int, action: str) -> None:
        answer, _, card_id = action.partition(":")
        if notice_id != shown.id or answer not in {"deny", "open"} or not card_id.startswith("ap_"):
            return
        if not any(card.id == card_id for card in self._waiting()) or self._clicks.full():
            return
        self._answered = answer == "deny"
        if self._answered:
            self._denying.add(card_id)
        self._clicks.put_nowait((answer, card_id))

    def _closed(self, shown: _Shown, notice_id: int, why: int) -> None:
        if notice_id != shown.id:
            return
        self._shown = None
        if why in DISMISSED and not self._answered:
            self._dismissed = frozenset(card.id for card in self._waiting())
        self._answered = False
        self._wake.set()

    def _failed(self, error: DesktopError) -> None:
        """Say so, and try again later; sooner where the service changes hands."""
        silent = error.trouble is Trouble.SILENT
        self._say(NoticeState.SILENT if silent else NoticeState.NO_SERVICE)
        loop = asyncio.get_running_loop()
        self._not_before_s = loop.time() + self._retry_s
        loop.call_at(self._not_before_s + GAP_S, self._wake.set)
        self._retry_s = min(self._retry_s * 2, RETRY_MOST_S)

    def _well(self) -> None:
        self._retry_s = RETRY_S
        self._say(NoticeState.READY)

    def _say(self, state: NoticeState) -> None:
        if state is not self.state:
            self.state = state
            self._told()


def _closing(shown: _Shown) -> Call:
    return Call(
        to=shown.owner, path=PATH, interface=SERVICE, member="CloseNotification", signature="u", body=(shown.id,)
    )

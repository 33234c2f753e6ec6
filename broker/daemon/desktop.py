"""The daemon's side of the desktop: which cards a notice tells of, what a click does, and when the vault is locked.

Everything here takes away or shows. With no bus, no service or no login session the rest of the daemon does not notice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.contract.reasons import LockReason
from broker.contract.wire import JsonObject
from broker.core.channels import Frozen
from broker.core.effects import effect_word
from broker.core.ssh.frozen import FrozenSsh
from broker.desktop.address import session_bus, system_bus
from broker.desktop.login_session import LoginSession, LoginState
from broker.desktop.moments import Moments
from broker.desktop.notice_text import NoticeCard
from broker.desktop.notices import DENIED, Notices, NoticeState
from broker.desktop.screen_saver import ScreenSaver
from broker.desktop.standing import Part, Standing
from broker.ports import Clock, Question
from broker.server.events import EventHub

VIEWER = "the desktop's notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopWishes:
    """What the human who starts the daemon wants of the desktop."""

    notices: bool = True
    locks: bool = True  # with the screen, and before a sleep


NOTHING_WISHED = DesktopWishes(notices=False, locks=False)


class Waiting(Protocol):
    """A card of the desk."""

    @property
    def id(self) -> str: ...
    @property
    def card(self) -> JsonObject: ...
    @property
    def question(self) -> Question: ...


class Office(Protocol):
    """What the desktop may have done: nothing that gives."""

    async def lock(self, reason: LockReason) -> object: ...
    async def decide(self, card_id: str, document: JsonObject, viewer: str) -> object: ...


class Desktop:
    """`office` and `waiting` are put in when they stand. `run` it beside the doors."""

    office: Office
    waiting: Callable[[], Sequence[Waiting]]

    def __init__(self, environ: Mapping[str, str], wishes: DesktopWishes, *, hub: EventHub, clock: Clock) -> None:
        self._wishes = wishes
        self._hub = hub
        told = self._told
        self._moments = Moments(self._lock)
        self._notices = Notices(
            waiting=self._cards, deny=self._deny, bring_up=self._bring_up, now_ms=clock.now_ms, told=told
        )
        self._login = LoginSession(self._moments, told=told)
        saver = ScreenSaver(self._moments)
        parts: list[Part] = [*([self._notices] if wishes.notices else []), *([saver] if wishes.locks else [])]
        self._session = Standing(session_bus(environ), parts, monotonic_s=clock.monotonic_s)
        system = system_bus(environ)
        self._system = Standing(system, [self._login], monotonic_s=clock.monotonic_s, descriptors=True)

    def changed(self) -> None:
        """A card came, changed or went."""
        self._notices.changed()

    async def run(self) -> None:
        """Until cancelled."""
        wishes = self._wishes
        works: list[Callable[[], Awaitable[None]]] = []
        if wishes.notices or wishes.locks:
            works.append(self._session.run)
        if wishes.notices:
            works.append(self._notices.work)
        if wishes.locks:
            works += [self._system.run, self._moments.work]
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(_running(work))

    def to_json(self) -> JsonObject:
        wishes = self._wishes
        return {
            "notices": (self._notices.state if wishes.notices else NoticeState.OFF).value,
            "login_session": (self._login.state if wishes.locks else LoginState.OFF).value,
            "delays_sleep": self._login.delays,
            "forged_signals": self._session.forged + self._system.forged,
        }

    def _cards(self) -> list[NoticeCard]:
        return [_told_of(card) for card in self.waiting()]

    async def _deny(self, card_id: str) -> None:
        await self.office.decide(card_id, {"decision": "deny", "reason": DENIED}, VIEWER)

    def _bring_up(self, card_id: str) -> bool:
        """Ask the screens that are connected. None is started: who asks for a passphrase was started by the human."""
        self._hub.publish("focus", {"id": card_id, "state": "pending"})
        return self._hub.listeners > 0

    async def _lock(self, reason: LockReason) -> None:
        await self.office.lock(reason)

    def _told(self) -> None:
        self._hub.publish("status", {})


async def _running(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _told_of(card: Waiting) -> NoticeCard:
    question = card.question
    frozen = question.frozen
    expires = card.card["expires_at_ms"]
    return NoticeCard(
        id=card.id,
        agent=question.caller.agent,
        effect=effect_word(frozen.effect, destructive=frozen.destructive),
        service=frozen.service.name,
        operation=frozen.operation.removeprefix(f"{frozen.service.name}."),
        host=_host(frozen),
        proven=question.proof.is_met,
        expires_at_ms=expires if isinstance(expires, int) else 0,
    )


def _host(frozen: Frozen) -> str:
    """By the policy's own name."""
    return frozen.host.name if isinstance(frozen, FrozenSsh) else frozen.service.host

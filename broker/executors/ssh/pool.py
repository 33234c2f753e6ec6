"""Connections kept for reuse: by host with what is known of its key, user, credential version and jump hosts.

A kept connection saves the login and nothing else: each command passes the gate before it comes here. One that saw a
deadline, an overflow or a protocol error takes no new command; neither does one that is too old, too long idle, of a
rotated credential or an ended session. Those under way on it end first.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import HostKeySeen, SshFault, StoreSeen
from broker.executors.ssh.connection import CheckedConnection
from broker.executors.ssh.faults import StoppedError

CLOSE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """`channels` is what OpenSSH allows on a connection by default, less two."""

    idle_s: float = 60.0
    age_s: float = 600.0
    channels: int = 8
    links_per_key: int = 16
    links: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    """`accepted` are the keys of each hop that a human took, beside what the policy says of it."""

    hosts: tuple[SshHost, ...]
    accepted: tuple[tuple[str, ...], ...]
    credential: str | None
    credential_version: int | None
    vault_term: int


class Link:
    """A logged-in connection with what is known by it. `store` is the marker store that a probe saw over it."""

    def __init__(self, connection: CheckedConnection, group: "Group") -> None:
        self.connection = connection
        self.group = group
        self.host_key: HostKeySeen | None = connection.offered
        self.store: StoreSeen | None = None
        self.probing = asyncio.Lock()
        self.sessions: set[Hashable] = set()
        self.active = 0
        self.retired = False
        self.opened_s = self.idle_since_s = asyncio.get_running_loop().time()

    @property
    def is_usable(self) -> bool:
        return not self.retired and not self.connection.is_dead

    def retire(self) -> None:
        """No new channel from now on; closed with the last of those that are open."""
        self.retired = True
        if not self.active:
            self.connection.close()

    def shrink(self) -> bool:
        """The server refused a channel: ask for fewer on each connection. False where this was the only one."""
        if self.active < 2:
            return False
        self.group.channels = max(1, min(self.group.channels, self.active) // 2)
        return True


Connect: TypeAlias = Callable[[], Awaitable[CheckedConnection]]


class Group:
    """The links of one key, and who waits for a seat on one."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.links: list[Link] = []
        self.opening = 0
        self.waiters: deque[asyncio.Future[None]] = deque()

    @property
    def is_empty(self) -> bool:
        return not (self.links or self.opening or self.waiters)

    def wake(self, failure: StoppedError | None = None) -> None:
        """Let those who wait look again, or tell them why there is nothing to wait for."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                if failure is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(StoppedError(failure.fault, failure.said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A seat on a link. `fresh`: the connection was made for it, so there is no older one to blame."""

    link: Link
    fresh: bool


class Pool:
    """All links by key. Closing expired ones needs no task: a timer is set while there is something idle."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._groups: dict[PoolKey, Group] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def links(self) -> list[Link]:
        return [link for group in self._groups.values() for link in group.links]

    @asynccontextmanager
    async def lease(
        self, key: PoolKey, connect: Connect, *, until_s: float, session: Hashable = None
    ) -> AsyncIterator[Lease]:
        """A seat for one channel. Raises what `connect` raises, also to those who waited for that connection.

        So a wrong password is tried once for all of them, and not once for each.
        """
        group = self._groups.setdefault(key, Group(self._limits.channels))
        try:
            lease = await self._seat(group, connect, until_s)
        except TimeoutError:
            raise StoppedError(SshFault.EXEC_TIMEOUT, "no connection had a free channel in time") from None
        finally:
            self._forget_empty(key, group)
        link = lease.link
        link.sessions.add(session)
        try:
            yield lease
        finally:
            self._give_back(key, group, link)

    @contextmanager
    def spare(self, key: PoolKey) -> Iterator[Link | None]:
        """A seat on a link that is there already, or None. Nothing is dialled."""
        group = self._groups.get(key)
        link = None if group is None else self._free(group)
        if group is None or link is None:
            yield None
            return
        link.active += 1
        try:
            yield link
        finally:
            self._give_back(key, group, link)

    def drop(self, matches: Callable[[PoolKey], bool]) -> None:
        """Retire all links of the keys that match."""
        for key, group in list(self._groups.items()):
            if matches(key):
                for link in list(group.links):
                    self._retire(key, group, link)

    def end_session(self, session: Hashable) -> None:
        """Retire the links that no other session has used."""
        for key, group in list(self._groups.items()):
            for link in list(group.links):
                link.sessions.discard(session)
                if not link.sessions - {None}:
                    self._retire(key, group, link)

    async def close(self) -> None:
        """Retire everything, and wait for what was idle to be gone. What is under way ends first."""
        idle = [link for link in self.links if not link.active]
        self.drop(lambda _: True)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                for link in idle:
                    await link.connection.wait_closed()

    async def _seat(self, group: Group, connect: Connect, until_s: float) -> Lease:
        while True:
            link = self._free(group)
            if link is not None:
                link.active += 1
                return Lease(link=link, fresh=False)
            if self._should_open(group):
                return Lease(link=await self._open(group, connect), fresh=True)
            waiter = asyncio.get_running_loop().create_future()
            group.waiters.append(waiter)
            try:
                async with asyncio.timeout_at(until_s):
                    await waiter
            except (asyncio.CancelledError, TimeoutError):
                if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                    group.wake()  # the seat that was meant for us is somebody else's
                raise

    def _free(self, group: Group) -> Link | None:
        """The busiest link with a seat, so that the others may grow idle."""
        now_s = asyncio.get_running_loop().time()
        usable = [
            link
            for link in group.links
            if link.is_usable and link.active < group.channels and now_s - link.opened_s < self._limits.age_s
        ]
        return max(usable, key=lambda link: link.active, default=None)

    def _should_open(self, group: Group) -> bool:
        """Whether the connections that are being opened are too few for those who wait already."""
        usable = sum(link.is_usable for link in group.links)
        if usable + group.opening >= self._limits.links_per_key:
            return False
        return len(group.waiters) >= group.opening * (group.channels - 1)

    async def _open(self, group: Group, connect: Connect) -> Link:
        self._make_room()
        group.opening += 1
        failure: StoppedError | None = None
        try:
            link = Link(await connect(), group)
            link.active = 1
            group.links.append(link)
        except StoppedError as cause:
            failure = cause
            raise
        finally:
            group.opening -= 1
            group.wake(failure if not group.opening and not group.links else None)
        return link

    def _give_back(self, key: PoolKey, group: Group, link: Link) -> None:
        link.active -= 1
        link.idle_since_s = asyncio.get_running_loop().time()
        if not link.is_usable:
            self._retire(key, group, link)
        group.wake()
        self._forget_empty(key, group)
        self._set_timer()

    def _retire(self, key: PoolKey, group: Group, link: Link) -> None:
        link.retire()
        if link in group.links:
            group.links.remove(link)
        group.wake()
        self._forget_empty(key, group)

    def _forget_empty(self, key: PoolKey, group: Group) -> None:
        if group.is_empty and self._groups.get(key) is group:
            del self._groups[key]

    def _make_room(self) -> None:
        """Close the link that has been idle longest, where there are as many as there may be."""
        idle = sorted((link for link in self.links if not link.active), key=lambda link: link.idle_since_s)
        excess = len(self.links) + 1 - self._limits.links
        self._retire_all(idle[: max(0, excess)])

    def _sweep(self) -> None:
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        self._retire_all([link for link in self.links if not link.active and self._expires_s(link) <= now_s])
        self._set_timer()

    def _retire_all(self, links: list[Link]) -> None:
        for key, group in list(self._groups.items()):
            for link in links:
                if link in group.links:
                    self._retire(key, group, link)

    def _set_timer(self) -> None:
        if self._timer is None:
            due_s = [self._expires_s(link) for link in self.links if not link.active]
            if due_s:
                self._timer = asyncio.get_running_loop().call_at(min(due_s), self._sweep)

    def _expires_s(self, link: Link) -> float:
        """When an idle link is closed: at once where it is dead."""
        if not link.is_usable:
            return 0.0
        return min(link.idle_since_s + self._limits.idle_s, link.opened_s + self._limits.age_s)

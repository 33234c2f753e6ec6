"""The door of one socket: how many connections come in, of one process and in all; who is too many is told so.

Connections that never ask for anything are cut after a while, so that a flood of half-open ones neither grows nor
keeps others out. Where all places are taken, whoever holds most gives one to who holds less. Who is behind a
connection, as far as it counts, is connections.py's business.
"""

import asyncio
import errno
import logging
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from broker.server.connections import Connections

LOG = logging.getLogger("doorward.server")
SWEEP_EVERY_S = 2.0
NO_DESCRIPTOR_S = 0.2
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """What one socket takes. A process may hold many connections, but not so many that others find none."""

    connections: int = 2048
    per_process: int = 1024
    silent_s: float = 30.0

    @staticmethod
    def within(descriptors: int) -> "DoorLimits":
        """Limits under which two doors and their sessions leave descriptors for files and upstreams."""
        most = max(16, min(4096, (descriptors - 512) // 6))
        return DoorLimits(connections=most, per_process=max(8, most // 2))


@dataclass(slots=True, kw_only=True, eq=False)
class Guest:
    """A connection that was let in."""

    protocol: object
    transport: asyncio.Transport
    pid: int  # for counting alone: it may have been passed on or recycled
    since_s: float


def nobody(_: object) -> bool:
    """Spares no connection."""
    return False


class Door:
    """Lets connections in to a server. `turned_away` is the whole HTTP answer for who is too many.

    `spared` tells of a connection's protocol that it is not to be cut for others, whoever comes.
    """

    def __init__(
        self,
        *,
        server: web.Server,
        connections: Connections,
        turned_away: bytes,
        limits: DoorLimits,
        monotonic_s: Callable[[], float],
        spared: Callable[[object], bool] = nobody,
    ) -> None:
        self._spared = spared
        self._server = server
        self._connections = connections
        self._turned_away = turned_away
        self._limits = limits
        self._monotonic_s = monotonic_s
        self._guests: dict[object, Guest] = {}  # in the order of their coming
        self._per_process: Counter[int] = Counter()

    async def serve(self, listener: socket.socket) -> None:
        """Let connections in until cancelled. The listener stays the caller's."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)  # noqa: FBT003 - positional-only
        while True:
            try:
                endpoint, _ = await loop.sock_accept(listener)
            except OSError as fault:
                LOG.warning("no connection can be taken", extra={"count": len(self._guests)})
                await asyncio.sleep(NO_DESCRIPTOR_S if fault.errno in EXHAUSTED else 0)
                continue
            await self._let_in(loop, endpoint)

    async def sweeping(self) -> None:
        """Sweep from time to time until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            self.sweep()

    def sweep(self) -> None:
        """Forget closed connections and cut silent ones."""
        now = self._monotonic_s()
        for guest in list(self._guests.values()):
            if guest.transport.is_closing():
                self._forget(guest)
            elif now - guest.since_s > self._limits.silent_s and not self._connections.spoke(guest.protocol):
                guest.transport.abort()
                self._forget(guest)

    def __len__(self) -> int:
        return len(self._guests)

    async def _let_in(self, loop: asyncio.AbstractEventLoop, endpoint: socket.socket) -> None:
        pid = _pid_behind(endpoint)
        if self._full(pid):
            self.sweep()
        if self._per_process[pid] >= self._limits.per_process or not self._room(pid):
            _turn_away(endpoint, self._turned_away)
            return
        try:
            transport, protocol = await loop.connect_accepted_socket(self._server, endpoint)
        except OSError:
            endpoint.close()
            return
        self._guests[protocol] = Guest(protocol=protocol, transport=transport, pid=pid, since_s=self._monotonic_s())
        self._per_process[pid] += 1

    def _full(self, pid: int) -> bool:
        return len(self._guests) >= self._limits.connections or self._per_process[pid] >= self._limits.per_process

    def _room(self, newcomer: int) -> bool:
        """Room for one more, made by cutting whoever is silent for longest, else one of the process that has most."""
        if len(self._guests) < self._limits.connections:
            return True
        silent = (guest for guest in self._guests.values() if not self._connections.spoke(guest.protocol))
        leaving = next(silent, None) or self._too_many(newcomer)
        if leaving is None:
            return False
        leaving.transport.abort()
        self._forget(leaving)
        return True

    def _too_many(self, newcomer: int) -> Guest | None:
        """A connection of the process that holds most, if that is more than the newcomer's does; an idle one first."""
        guests = [guest for guest in self._guests.values() if not self._spared(guest.protocol)]
        most = max((self._per_process[guest.pid] for guest in guests), default=0)
        if most <= self._per_process[newcomer]:
            return None
        theirs = (guest for guest in guests if self._per_process[guest.pid] == most)
        return min(theirs, key=lambda guest: self._connections.is_busy(guest.protocol))

    def _forget(self, guest: Guest) -> None:
        self._connections.drop(guest.protocol)
        del self._guests[guest.protocol]
        self._per_process[guest.pid] -= 1
        if self._per_process[guest.pid] <= 0:
            del self._per_process[guest.pid]


def _pid_behind(endpoint: socket.socket) -> int:
    try:
        raw = endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        return 0
    pid: int = struct.unpack("=iII", raw)[0]
    return pid


def _turn_away(endpoint: socket.socket, answer: bytes) -> None:
    """Say no without waiting for anything, the request included."""
    with endpoint:
        try:
            endpoint.send(answer)
        except OSError:
            return  # who does not take even that learns it by the end of the connection

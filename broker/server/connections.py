"""Who is behind each connection: asked of the kernel once, held by pidfd, and cut when the process exits.

A connection whose process exited, or runs another program than it did, is never taken for the one that it was.
How many connections there may be is door.py's business.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from aiohttp import web

from broker.core.identity import PeerFacts, ProcessFacts
from broker.core.policy.model import Policy
from broker.server.peer import PeerError, PinnedPeer, alive, image_of, inspect, run_of, with_digest

DIGESTS_KEPT = 64
TOLD_KEPT = 256


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """One connection and its peer."""

    pinned: PinnedPeer
    transport: asyncio.Transport
    digested: tuple[object, ...] = ()  # for which patterns, and over which images
    claimed: int | None = None  # the ancestor that it says it asks for; counts on this connection alone

    @property
    def facts(self) -> PeerFacts:
        return self.pinned.facts


class Connections:
    """All connections of one listener that made a request."""

    def __init__(self, *, boot: str) -> None:
        self._boot = boot
        self._known: dict[object, Connection] = {}
        self._busy: set[object] = set()
        self._told: dict[ProcessFacts, ProcessFacts] = {}
        self._digests: OrderedDict[tuple[int, ...], str] = OrderedDict()

    def of(self, request: web.Request) -> Connection:
        """The connection that a request came over; its peer is looked at again. Raises PeerError."""
        transport = request.transport
        if transport is None:
            raise PeerError("the connection is gone")
        known = self._known.get(request.protocol)
        if known is not None:
            process = known.facts.process
            same = run_of(process.pid) == process.run
            if not alive(known.pinned.pidfd):  # a child that holds the socket on is nobody we know
                self._exited(request.protocol)
                raise PeerError("the process that connected has exited")
            if same:
                return known
            self.drop(request.protocol)  # it runs another program now: look at all of it again
        endpoint = transport.get_extra_info("socket")
        if not isinstance(endpoint, socket.socket) and not hasattr(endpoint, "getsockopt"):
            raise PeerError("the connection has no socket")
        pinned = inspect(endpoint, boot=self._boot)
        connection = Connection(pinned=replace(pinned, facts=self._shared(pinned.facts)), transport=transport)
        self._known[request.protocol] = connection
        asyncio.get_running_loop().add_reader(pinned.pidfd, self._exited, request.protocol)
        return connection

    def facts(self, connection: Connection, policy: Policy) -> PeerFacts:
        """The peer's facts, with digests of executables where the policy names agents by them.

        Which files those are by now is looked at each time: a digest is of what a process runs, not of what it ran.
        """
        patterns = [program.exe for program in policy.agents.values() if program.sha256 is not None]
        if not patterns:
            return connection.facts
        facts = connection.facts
        images = [image_of(process.pid) for process in facts.chain if _fits_any(process, patterns)]
        if connection.digested != (*patterns, *images):
            connection.digested = (*patterns, *images)
            wanted = replace(
                facts,
                process=self._digested(facts.process, patterns),
                ancestors=tuple(self._digested(process, patterns) for process in facts.ancestors),
            )
            connection.pinned = replace(connection.pinned, facts=wanted)
        return connection.facts

    def spoke(self, protocol: object) -> bool:
        """Whether a request of somebody known came over it."""
        return protocol in self._known

    def process(self, protocol: object) -> tuple[int, int, int] | None:
        """The key of the process behind a connection that spoke."""
        known = self._known.get(protocol)
        return None if known is None else known.facts.process.key

    @web.middleware
    async def attending(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Know which connections wait for an answer."""
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)

    def is_busy(self, protocol: object) -> bool:
        return protocol in self._busy

    def drop(self, protocol: object) -> None:
        """Forget a connection that was closed."""
        known = self._known.pop(protocol, None)
        if known is not None:
            asyncio.get_running_loop().remove_reader(known.pinned.pidfd)
            known.pinned.close()

    def close(self) -> None:
        for protocol in list(self._known):
            self.drop(protocol)

    def __len__(self) -> int:
        return len(self._known)

    def _shared(self, facts: PeerFacts) -> PeerFacts:
        """The same facts; what is told of one process is kept once, however many connections come from below it."""
        if len(self._told) > TOLD_KEPT + 2 * len(self._known):
            self._told = {process: process for known in self._known.values() for process in known.facts.chain}
        ancestors = tuple(self._told.setdefault(process, process) for process in facts.ancestors)
        return replace(facts, process=self._told.setdefault(facts.process, facts.process), ancestors=ancestors)

    def _exited(self, protocol: object) -> None:
        known = self._known.get(protocol)
        if known is not None:
            known.transport.abort()
            self.drop(protocol)

    def _digested(self, process: ProcessFacts, patterns: list[str]) -> ProcessFacts:
        """Reading a whole executable takes its time, so each is read once as long as it stays what it is."""
        if not _fits_any(process, patterns):
            return process
        image = image_of(process.pid)
        known = None if image is None else self._digests.get(image)
        if known is not None:
            return replace(process, exe_sha256=known)
        digested = with_digest(replace(process, exe_sha256=None))
        if image is not None and image == image_of(process.pid) and digested.exe_sha256 is not None:
            self._digests[image] = digested.exe_sha256
            while len(self._digests) > DIGESTS_KEPT:
                self._digests.popitem(last=False)
        return digested


def _fits_any(process: ProcessFacts, patterns: list[str]) -> bool:
    return process.exe is not None and any(fnmatchcase(process.exe, pattern) for pattern in patterns)

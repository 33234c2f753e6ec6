"""Who is behind each connection: asked of the kernel once, held by pidfd, and cut when the process exits.

Connections that never send a request are cut as well, so that a flood of half-open ones stays bounded.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from aiohttp import web

from broker.core.identity import PeerFacts, ProcessFacts
from broker.core.policy.model import Policy
from broker.server.peer import PeerError, PinnedPeer, executable_id, inspect, with_digest

SILENT_S = 30.0
CONNECTIONS_MAX = 4096
SWEEP_EVERY_S = 2.0


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """One connection and its peer."""

    pinned: PinnedPeer
    transport: asyncio.Transport
    digests: bool = False

    @property
    def facts(self) -> PeerFacts:
        return self.pinned.facts


class Connections:
    """All connections of one listener that made a request."""

    def __init__(self, *, boot: str, monotonic_s: Callable[[], float]) -> None:
        self._boot = boot
        self._monotonic_s = monotonic_s
        self._known: dict[object, Connection] = {}
        self._silent_since: dict[object, float] = {}

    def of(self, request: web.Request) -> Connection:
        """The connection that a request came over; its peer is looked at again. Raises PeerError."""
        transport = request.transport
        if transport is None:
            raise PeerError("the connection is gone")
        known = self._known.get(request.protocol)
        if known is not None and executable_id(known.facts.process.pid) == known.facts.process.exe_id:
            return known
        if known is not None:  # the process runs another program now: look at all of it again
            self._drop(request.protocol)
        endpoint = transport.get_extra_info("socket")
        if not isinstance(endpoint, socket.socket) and not hasattr(endpoint, "getsockopt"):
            raise PeerError("the connection has no socket")
        pinned = inspect(endpoint, boot=self._boot)
        connection = Connection(pinned=pinned, transport=transport)
        self._known[request.protocol] = connection
        asyncio.get_running_loop().add_reader(pinned.pidfd, self._exited, request.protocol)
        return connection

    def facts(self, connection: Connection, policy: Policy) -> PeerFacts:
        """The peer's facts, with digests of executables where the policy names agents by them."""
        patterns = [program.exe for program in policy.agents.values() if program.sha256 is not None]
        if patterns and not connection.digests:
            connection.digests = True
            facts = connection.pinned.facts
            wanted = replace(
                facts,
                process=_digested(facts.process, patterns),
                ancestors=tuple(_digested(process, patterns) for process in facts.ancestors),
            )
            connection.pinned = replace(connection.pinned, facts=wanted)
        return connection.facts

    def cut(self, pid: int) -> None:
        """Abort every connection whose process or ancestor is this one."""
        for connection in list(self._known.values()):
            if any(process.pid == pid for process in connection.facts.chain):
                connection.transport.abort()

    def sweep(self, live: Iterable[object]) -> None:
        """Forget closed connections, cut silent ones. `live` are the server's request handlers."""
        now, alive = self._monotonic_s(), set(live)
        for protocol in [key for key in self._known if key not in alive]:
            self._drop(protocol)
        silent = alive - self._known.keys()
        self._silent_since = {key: self._silent_since.get(key, now) for key in silent}
        for protocol, since in self._silent_since.items():
            if now - since > SILENT_S or len(alive) > CONNECTIONS_MAX:
                transport = getattr(protocol, "transport", None)
                if isinstance(transport, asyncio.Transport):
                    transport.abort()

    def close(self) -> None:
        for protocol in list(self._known):
            self._drop(protocol)

    def _exited(self, protocol: object) -> None:
        known = self._known.get(protocol)
        if known is not None:
            known.transport.abort()
            self._drop(protocol)

    def _drop(self, protocol: object) -> None:
        known = self._known.pop(protocol, None)
        if known is not None:
            asyncio.get_running_loop().remove_reader(known.pinned.pidfd)
            known.pinned.close()


def _digested(process: ProcessFacts, patterns: list[str]) -> ProcessFacts:
    wanted = process.exe is not None and any(fnmatchcase(process.exe, pattern) for pattern in patterns)
    return with_digest(process) if wanted else process

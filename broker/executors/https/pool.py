"""Connections kept for reuse: one pool per destination, credential version and TLS trust, and none shared between them.

A kept connection on which anything arrived unasked, or which the peer has closed, is dropped and never used again.
Pools of a locked or rotated credential take no new request and close when their last request ends.
"""

import select
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from typing_extensions import override

from broker.core.policy.model import Tls
from broker.executors.https.attempt import WatchedRequest
from broker.executors.https.faults import ExecutorError, PinMismatchError
from broker.executors.https.resolver import CheckedResolver, Destination, Lookup, checked_socket
from broker.executors.https.trust import is_pinned, trust_context

MAX_POOLS = 64
CONNECTIONS_PER_POOL = 64
IDLE_S = 15.0
MAX_HEAD_LINE_BYTES = 8190
MAX_HEADERS = 100
READ_BUFFER_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    destination: Destination
    credential: str | None
    credential_version: int | None
    tls: Tls


class CarefulConnector(aiohttp.TCPConnector):
    """Hands out fresh connections whose pin was checked, and kept ones that were vouched for and stayed silent."""

    def __init__(self, *, destination: Destination, lookup: Lookup, context: SSLContext, pin: str | None) -> None:
        super().__init__(
            ssl=context,
            resolver=CheckedResolver(destination, lookup),
            use_dns_cache=False,
            limit=0,
            limit_per_host=CONNECTIONS_PER_POOL,
            keepalive_timeout=IDLE_S,
            socket_factory=partial(checked_socket, destination),
        )
        self._pin = pin
        self._used: WeakSet[ResponseHandler] = WeakSet()
        self._clean: WeakSet[ResponseHandler] = WeakSet()

    def vouch(self, protocol: ResponseHandler) -> None:
        """Say that a connection's last exchange ended as it should. The library keeps it before that is known."""
        self._clean.add(protocol)

    @override
    async def connect(self, req: ClientRequest, traces: list[Any], timeout: ClientTimeout) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None:
                raise ExecutorError("a connection without a protocol")
            if protocol not in self._used:
                self._check_pin(connection)
                self._used.add(protocol)
                return connection
            if protocol in self._clean and _stayed_silent(protocol):
                self._clean.discard(protocol)
                return connection
            connection.close()

    def _check_pin(self, connection: Connection) -> None:
        transport = connection.transport
        tls = None if transport is None else transport.get_extra_info("ssl_object")
        if self._pin is None or tls is None:
            return
        if not is_pinned(tls.getpeercert(binary_form=True), self._pin):
            connection.close()
            raise PinMismatchError("the peer's key is not the pinned one")


class Pool:
    """One session. `active` counts the requests under way; a retired pool closes with the last of them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.active = 0
        self.retired = False


class Pools:
    """The pools by key, least recently used first."""

    def __init__(self, lookup: Lookup, *, max_pools: int = MAX_POOLS) -> None:
        self._lookup = lookup
        self._max_pools = max_pools
        self._pools: OrderedDict[PoolKey, Pool] = OrderedDict()
        self._contexts: dict[Tls, SSLContext] = {}

    @asynccontextmanager
    async def lease(self, key: PoolKey) -> AsyncIterator[aiohttp.ClientSession]:
        """A session for one request. Raises ExecutorError where the TLS settings can't be used."""
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(self._open(key))
        self._pools.move_to_end(key)
        pool.active += 1
        try:
            await self._retire_excess()
            yield pool.session
        finally:
            pool.active -= 1
            if pool.retired and not pool.active:
                await pool.session.close()

    async def retire(self, credential: str) -> None:
        """Drop every pool of a credential."""
        await self._retire([key for key in self._pools if key.credential == credential])

    async def close(self) -> None:
        await self._retire(list(self._pools))
        self._contexts.clear()

    async def _retire(self, keys: list[PoolKey]) -> None:
        dropped = [self._pools.pop(key) for key in keys]
        for pool in dropped:
            pool.retired = True
            if not pool.active:
                await pool.session.close()

    async def _retire_excess(self) -> None:
        idle = [key for key, pool in self._pools.items() if not pool.active]
        await self._retire(idle[: max(0, len(self._pools) - self._max_pools)])

    def _open(self, key: PoolKey) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=CarefulConnector(
                destination=key.destination, lookup=self._lookup, context=self._context(key.tls), pin=key.tls.pin
            ),
            request_class=WatchedRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            raise_for_status=False,
            timeout=ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=MAX_HEAD_LINE_BYTES,
            max_field_size=MAX_HEAD_LINE_BYTES,
            max_headers=MAX_HEADERS,
        )
        if not hasattr(session, "_retry_connection"):
            raise ExecutorError("this version of aiohttp can't be kept from sending a request again")
        session._retry_connection = False  # noqa: SLF001 - there is no public switch
        return session

    def _context(self, tls: Tls) -> SSLContext:
        context = self._contexts.get(tls)
        if context is None:
            if len(self._contexts) >= self._max_pools:
                self._contexts.clear()
            context = self._contexts[tls] = trust_context(tls)
        return context


def _stayed_silent(protocol: ResponseHandler) -> bool:
    """Whether nothing came since the last answer: neither parsed, nor waiting in the kernel, nor an end of stream.

    Bytes that came unasked would otherwise be taken for the answer to the next request.
    """
    transport = protocol.transport
    if protocol.should_close or transport is None:
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return not poll.poll(0)

"""Names to addresses, each checked before it is dialled.

A name is resolved once per connection; if any of its addresses may not be dialled, none is. The socket factory looks
at each address once more as its socket is made, literal addresses included, so nothing unchecked is dialled.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from broker.core.reach import may_dial
from broker.executors.https.faults import AddressRefusedError

LOOKUP_THREADS = 4

Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class SystemLookup:
    """The system's resolver in a few threads of its own, so that a dead name server holds up nothing else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=LOOKUP_THREADS, thread_name_prefix="lookup")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        find = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, find)
        return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The one host that a pool may dial, and under which scheme."""

    scheme: str
    host: str
    port: int
    named: bool

    def allows(self, address: str) -> bool:
        return may_dial(address, host=self.host, scheme=self.scheme, named=self.named)


class CheckedResolver(AbstractResolver):
    """Resolves the destination's host and nothing else; one address that is refused refuses the name as a whole."""

    def __init__(self, destination: Destination, lookup: Lookup) -> None:
        self._destination = destination
        self._lookup = lookup

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if host != self._destination.host:
            raise AddressRefusedError
        addresses = await self._lookup(host, port)
        if not addresses:
            raise OSError("the name has no address")
        if not all(self._destination.allows(address) for address in addresses):
            raise AddressRefusedError
        return [_result(host, address, port) for address in addresses]

    @override
    async def close(self) -> None:
        """Nothing to release: the lookup is shared."""


def checked_socket(destination: Destination, info: Any) -> socket.socket:
    """A socket for one address, or AddressRefusedError."""
    family, kind, protocol, _, address = info
    if not destination.allows(address[0]):
        raise AddressRefusedError
    return socket.socket(family, kind, protocol)


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)

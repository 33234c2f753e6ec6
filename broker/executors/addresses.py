"""Names to addresses, for every executor: one resolver, one judgement, and sockets to judged addresses alone.

A name is resolved once per connection; if any of its addresses may not be dialled, none is.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from broker.core.reach import may_dial

LOOKUP_THREADS = 4

Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class AddressRefusedError(OSError):
    """A host led to an address that may not be dialled. Nothing was sent."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "an address that may not be dialled")


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
    """The one host that a connection may lead to, and under which scheme."""

    scheme: str
    host: str
    port: int
    named: bool

    def allows(self, address: str) -> bool:
        return may_dial(address, host=self.host, scheme=self.scheme, named=self.named)


async def checked_addresses(destination: Destination, lookup: Lookup) -> Sequence[str]:
    """The addresses of the host, all of which may be dialled. Raises AddressRefusedError, or OSError without any."""
    addresses = await lookup(destination.host, destination.port)
    if not addresses:
        raise OSError("the name has no address")
    if not all(destination.allows(address) for address in addresses):
        raise AddressRefusedError
    return addresses

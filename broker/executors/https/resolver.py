"""Names to addresses, each checked before it is dialled.

A name is resolved once per connection; if any of its addresses may not be dialled, none is. The socket factory looks
at each address once more as its socket is made, literal addresses included, so nothing unchecked is dialled.
"""

import socket
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from broker.executors.addresses import AddressRefusedError, Destination, Lookup, SystemLookup, checked_addresses

__all__ = ["CheckedResolver", "Destination", "Lookup", "SystemLookup", "checked_socket"]


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
        addresses = await checked_addresses(self._destination, self._lookup)
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

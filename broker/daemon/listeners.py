"""A socket's listener: its HTTP server, the door before it, and the connections behind it."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from broker.server.connections import Connections
from broker.server.door import Door, DoorLimits, nobody

CLIENT_MAX = 1 << 20
IDLE_S = 75.0
HANG_UP_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One socket's server, its door, and the connections behind it."""

    runner: web.AppRunner
    door: Door
    connections: Connections

    async def close(self) -> None:
        await self.runner.cleanup()
        self.connections.close()


async def listener(
    middleware: object,
    routes: list[web.RouteDef],
    connections: Connections,
    limits: DoorLimits,
    turned_away: bytes,
    monotonic_s: Callable[[], float],
    spared: Callable[[object], bool] = nobody,
) -> Listener:
    """A server for one socket. Bodies are taken as they are: who compresses one is told that it can't be read."""
    app = web.Application(client_max_size=CLIENT_MAX, middlewares=[connections.attending, middleware])  # type: ignore[list-item]  # aiohttp's own type is narrower than what it takes
    app.add_routes(routes)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=HANG_UP_S,
        keepalive_timeout=IDLE_S,
        auto_decompress=False,
    )
    await runner.setup()
    server = runner.server
    if server is None:
        raise TypeError("a runner that was set up has a server")
    door = Door(
        server=server,
        connections=connections,
        turned_away=turned_away,
        limits=limits,
        monotonic_s=monotonic_s,
        spared=spared,
    )
    return Listener(runner=runner, door=door, connections=connections)

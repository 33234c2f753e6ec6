"""The misbehaving upstream in a thread of its own, for live tests: each case has a path, and a behaviour there."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.fakes.authority import ServerIdentity
from tests.fakes.upstream import Behaviour, Seen, Upstream, respond


class RoughUpstream:
    """Answers a path as it was told to last. What it saw may be read at any time."""

    def __init__(
        self, paths: dict[str, Behaviour], server: Upstream, scheme: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._paths = paths
        self._server = server
        self._scheme = scheme
        self._loop = loop

    @property
    def origin(self) -> str:
        host = "localhost" if self._scheme == "https" else "127.0.0.1"
        return f"{self._scheme}://{host}:{self._server.port}"

    @property
    def bytes_received(self) -> int:
        return self._server.bytes_received

    @property
    def accepted(self) -> int:
        return self._server.accepted

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(self._server.events)

    @property
    def requests(self) -> list[Seen]:
        return list(self._server.requests)

    def at(self, path: str, behaviour: Behaviour) -> None:
        self._paths[path] = behaviour

    def hang_up(self) -> None:
        """Half-close every open connection; the end is in the client's kernel when this returns."""
        done = threading.Event()

        def work() -> None:
            self._server.hang_up()
            done.set()

        self._loop.call_soon_threadsafe(work)
        assert done.wait(10)

    def seen(self, path: str) -> list[Seen]:
        """Requests at a path, whatever their query."""
        return [seen for seen in tuple(self._server.requests) if seen.target.partition("?")[0] == path]


@contextmanager
def misbehaving(
    tls: ServerIdentity | None = None, *, behaviours: Mapping[str, Behaviour] | None = None, narrow: bool = False
) -> Iterator[RoughUpstream]:
    paths = dict(behaviours or {})
    server = Upstream(respond(404, b"{}"), tls=tls, paths=paths, narrow=narrow)
    serves, ended = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with server:
            serves.set()
            await ended.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert serves.wait(10), "the upstream did not start"
        yield RoughUpstream(paths, server, "http" if tls is None else "https", loop)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()

"""What AgentApi does for every action, as the routes of a channel see it."""

from typing import Protocol

from aiohttp import web

from broker.contract.wire import JsonObject
from broker.server.incoming import Incoming, Reader
from broker.server.runs import Run


class Actions(Protocol):
    async def take(self, request: web.Request, schema: str, read: Reader) -> Incoming:
        """The body of a request for an action."""
        ...

    async def answer(self, request: web.Request, incoming: Incoming) -> web.Response:
        """Perform it and answer with its envelope."""
        ...

    def begin(self, request: web.Request, incoming: Incoming) -> tuple[Run, float]:
        """Begin the run of an action, and how long its client waits for a human."""
        ...

    async def ended(self, run: Run, wait_s: float) -> JsonObject: ...

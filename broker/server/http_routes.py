"""The HTTP routes of agent.sock: one request and its answer, at once or in frames while it comes."""

from aiohttp import web

from broker.core.resolve import MAX_UPLOAD_BYTES
from broker.server.actions import Actions
from broker.server.framed import framed, is_framed, uploaded
from broker.server.incoming import Incoming
from broker.server.shapes import http_ask


class HttpApi:
    """The handlers."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/http", self.http), web.post("/v1/http/stream", self.stream)]

    async def http(self, request: web.Request) -> web.Response:
        return await self._actions.answer(request, await self._actions.take(request, "http-request", http_ask))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        incoming = await self._incoming(request)
        if incoming.is_refused:  # nothing will come of it, so its status can tell
            return await self._actions.answer(request, incoming)
        return await framed(
            request,
            lambda sink: self._actions.begin(request, incoming.heard_by(sink)),
            self._actions.ended,
        )

    async def _incoming(self, request: web.Request) -> Incoming:
        if not is_framed(request):
            return await self._actions.take(request, "http-request", http_ask)
        head, content = await uploaded(request, max_bytes=MAX_UPLOAD_BYTES)
        return Incoming.of(head, "http-request", lambda document: http_ask(document, content), content=content)

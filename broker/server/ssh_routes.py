"""The SSH routes of agent.sock: commands, files, and output in frames while it comes."""

from aiohttp import web

from broker.contract.frames import MEDIA
from broker.core.ssh.frozen import MAX_TRANSFER_BYTES
from broker.server.actions import Actions
from broker.server.framed import framed, is_framed, uploaded
from broker.server.incoming import Incoming
from broker.server.ssh_shapes import get_ask, put_ask, ssh_ask


class SshApi:
    """The handlers."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/ssh", self.ssh),
            web.post("/v1/ssh/stream", self.stream),
            web.post("/v1/ssh/put", self.put),
            web.post("/v1/ssh/get", self.get),
        ]

    async def ssh(self, request: web.Request) -> web.Response:
        return await self._actions.answer(request, await self._actions.take(request, "ssh-request", ssh_ask))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        return await self._framed(request, await self._actions.take(request, "ssh-request", ssh_ask))

    async def get(self, request: web.Request) -> web.StreamResponse:
        if MEDIA not in request.headers.get("accept", ""):
            return await self._actions.answer(request, await self._actions.take(request, "ssh-get-request", get_ask))
        incoming = await self._actions.take(request, "ssh-get-request", lambda document: get_ask(document, framed=True))
        return await self._framed(request, incoming)

    async def put(self, request: web.Request) -> web.Response:
        if not is_framed(request):
            return await self._actions.answer(request, await self._actions.take(request, "ssh-put-request", put_ask))
        head, content = await uploaded(request, max_bytes=MAX_TRANSFER_BYTES)
        incoming = Incoming.of(head, "ssh-put-request", lambda document: put_ask(document, content), content=content)
        return await self._actions.answer(request, incoming)

    async def _framed(self, request: web.Request, incoming: Incoming) -> web.StreamResponse:
        if incoming.is_refused:  # nothing will come of it, so its status can tell
            return await self._actions.answer(request, incoming)
        return await framed(
            request,
            lambda sink: self._actions.begin(request, incoming.heard_by(sink)),
            self._actions.ended,
        )

"""The SSH routes of agent.sock: commands, files, and output in frames while it comes.

A framed answer begins with its id and ends with the envelope; one without an end is no whole answer. Whoever hangs up
hears no more, and what was begun goes on to its end.
"""

import asyncio
from typing import Protocol

from aiohttp import web

from broker.contract.frames import (
    DATA,
    END,
    HEAD,
    MAX_DATA_BYTES,
    MEDIA,
    PREFIX_BYTES,
    FrameError,
    data,
    pack,
    unpack_prefix,
)
from broker.contract.wire import JsonObject, dump
from broker.core import refusals
from broker.core.ssh.frozen import MAX_TRANSFER_BYTES
from broker.server.answered import refused
from broker.server.incoming import Incoming, Reader
from broker.server.runs import Run
from broker.server.ssh_shapes import get_ask, put_ask, ssh_ask

HEAD_MAX = 65_536
UPLOAD_S = 300.0


class Actions(Protocol):
    """What AgentApi does for every action."""

    async def take(self, request: web.Request, schema: str, read: Reader) -> Incoming: ...
    async def answer(self, request: web.Request, incoming: Incoming) -> web.Response: ...
    def begin(self, request: web.Request, incoming: Incoming) -> tuple[Run, float]: ...
    async def ended(self, run: Run, wait_s: float) -> JsonObject: ...


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
        if request.content_type != MEDIA:
            return await self._actions.answer(request, await self._actions.take(request, "ssh-put-request", put_ask))
        head, content = await _uploaded(request)
        incoming = Incoming.of(head, "ssh-put-request", lambda document: put_ask(document, content), content=content)
        return await self._actions.answer(request, incoming)

    async def _framed(self, request: web.Request, incoming: Incoming) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": MEDIA})
        sink = _Sink(response)
        run, wait_s = self._actions.begin(request, incoming.heard_by(sink))
        try:
            await response.prepare(request)
            await response.write(pack(HEAD, dump({"correlation_id": run.correlation_id})))
            sink.open()
            envelope = await self._actions.ended(run, wait_s)
        finally:
            sink.close()
        await sink.write(pack(END, dump(envelope)))
        await response.write_eof()
        return response


class _Sink:
    """A ports.FrameSink that writes to a client for as long as there is one."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response
        self._ready = asyncio.Event()
        self._closed = False
        self._turn = asyncio.Lock()

    def open(self) -> None:
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def __call__(self, stream: str, octets: bytes) -> None:
        await self._ready.wait()
        for start in range(0, len(octets), MAX_DATA_BYTES):
            if self._closed:
                raise ConnectionResetError
            await self.write(data(stream, octets[start : start + MAX_DATA_BYTES]))

    async def write(self, frame: bytes) -> None:
        """One frame at a time; waits for whoever reads slowly."""
        async with self._turn:
            await self._response.write(frame)


async def _uploaded(request: web.Request) -> tuple[bytes, bytes]:
    """The head and the content of an upload in frames. Raises Answered."""
    head = b""
    content = bytearray()
    try:
        async with asyncio.timeout(UPLOAD_S):
            while not request.content.at_eof():
                prefix = await request.content.readexactly(PREFIX_BYTES)
                kind, length = unpack_prefix(prefix)
                if (kind, bool(head)) not in {(HEAD, False), (DATA, True)}:
                    raise refused(refusals.unreadable("the frames are one H, then D"))
                if length > (HEAD_MAX if kind == HEAD else MAX_DATA_BYTES):
                    raise refused(refusals.unreadable("a frame is too long"))
                payload = await request.content.readexactly(length)
                if kind == HEAD:
                    head = payload
                elif len(content) + length > MAX_TRANSFER_BYTES:
                    raise refused(refusals.too_large(MAX_TRANSFER_BYTES))
                else:
                    content += payload
    except (FrameError, asyncio.IncompleteReadError):
        raise refused(refusals.unreadable("it is not made of whole frames")) from None
    except TimeoutError:
        raise refused(refusals.unreadable("it did not arrive in time")) from None
    return head, bytes(content)

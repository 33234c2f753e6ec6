"""Frames on agent.sock: an answer handed on while it comes, and an upload taken in.

A framed answer begins with its id and ends with the envelope; one without an end is no whole answer. Whoever hangs up
hears no more, and what was begun goes on to its end.
"""

import asyncio
from collections.abc import Awaitable, Callable

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
from broker.core.answer_stream import BODY
from broker.core.answer_stream import HEAD as ANSWER_HEAD
from broker.ports import FrameSink
from broker.server.answered import refused
from broker.server.runs import Run

HEAD_MAX = 65_536
UPLOAD_S = 300.0


def is_framed(request: web.Request) -> bool:
    return request.content_type == MEDIA


async def framed(
    request: web.Request,
    begin: Callable[[FrameSink], tuple[Run, float]],
    ended: Callable[[Run, float], Awaitable[JsonObject]],
) -> web.StreamResponse:
    """Begin the run and hand on what it has to say; the envelope is the last frame."""
    response = web.StreamResponse(headers={"content-type": MEDIA})
    sink = _Sink(response)
    run, wait_s = begin(sink)
    try:
        await response.prepare(request)
        await response.write(pack(HEAD, dump({"correlation_id": run.correlation_id})))
        sink.open()
        envelope = await ended(run, wait_s)
    finally:
        sink.close()
    await sink.write(pack(END, dump(envelope)))
    await response.write_eof()
    return response


async def uploaded(request: web.Request, *, max_bytes: int) -> tuple[bytes, bytes]:
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
                elif len(content) + length > max_bytes:
                    raise refused(refusals.too_large(max_bytes))
                else:
                    content += payload
    except (FrameError, asyncio.IncompleteReadError):
        raise refused(refusals.unreadable("it is not made of whole frames")) from None
    except TimeoutError:
        raise refused(refusals.unreadable("it did not arrive in time")) from None
    return head, bytes(content)


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
            await self.write(_frame(stream, octets[start : start + MAX_DATA_BYTES]))

    async def write(self, frame: bytes) -> None:
        """One frame at a time; waits for whoever reads slowly."""
        async with self._turn:
            await self._response.write(frame)


def _frame(stream: str, octets: bytes) -> bytes:
    if stream == BODY:
        return pack(DATA, octets)
    return pack(HEAD, octets) if stream == ANSWER_HEAD else data(stream, octets)

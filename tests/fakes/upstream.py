"""An upstream that misbehaves on purpose: raw asyncio streams, no HTTP library, and its own log of what it saw.

It shares no code with the broker, so that the two can be held against each other. A behaviour is a function of a
Conversation (one request on one connection); `respond`, `raw` and the functions at the end are the usual ones.
"""

import asyncio
import gzip
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeAlias

from tests.fakes.authority import ServerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived. `number` counts the requests of its connection from 1."""

    connection: int
    number: int
    method: str
    target: str
    head: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Conversation:
    """One request, and the means to answer it or not."""

    def __init__(self, upstream: "Upstream", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._upstream = upstream
        self._reader = reader
        self._writer = writer
        self.seen = Seen(connection=0, number=0, method="", target="", head=b"")
        self.open = True

    async def next_request(self, connection: int, number: int) -> bool:
        head = await self._take(self._reader.readuntil(b"\r\n\r\n"))
        if not head:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        self.seen = Seen(connection=connection, number=number, method=method, target=target, head=head, headers=headers)
        self._upstream.requests.append(self.seen)
        self._upstream.events.append(f"request {method} {target}")
        return True

    async def body(self, at_most: int | None = None) -> bytes:
        """The request's body, as far as it comes."""
        length = int(self.seen.headers.get("content-length", "0"))
        wanted = length if at_most is None else min(length, at_most)
        data = b""
        while len(data) < wanted:
            piece = await self._take(self._reader.read(min(65536, wanted - len(data))))
            if not piece:
                break
            data += piece
        self._upstream.events.append(f"body {len(data)}/{length}")
        return data

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        await asyncio.sleep(0)  # a drain alone lets nobody else run while the socket takes everything

    async def hold(self) -> None:
        """Say nothing until the client goes away."""
        while await self._take(self._reader.read(65536)):
            pass
        self.open = False

    async def stop_reading(self) -> None:
        """Neither read nor answer until the server is stopped."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        await self._upstream.stopped.wait()

    def close(self) -> None:
        self.open = False

    def reset(self) -> None:
        """End the connection with RST."""
        peer = self._writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self.open = False

    async def _take(self, reading: Awaitable[bytes]) -> bytes:
        try:
            data = await reading
        except asyncio.IncompleteReadError as cut:
            data = b""
            self._upstream.bytes_received += len(cut.partial)
        except (ConnectionError, OSError):
            data = b""
        self._upstream.bytes_received += len(data)
        return data


Behaviour: TypeAlias = Callable[[Conversation], Awaitable[None]]


def respond(
    status: int = 200,
    body: bytes = b"{}",
    *,
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),),
    length: int | None = None,
) -> Behaviour:
    """Read the request, answer it, keep the connection."""
    head = f"HTTP/1.1 {status} Status\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers)
    if status not in {204, 304}:
        head += f"content-length: {len(body) if length is None else length}\r\n"

    async def behave(talk: Conversation) -> None:
        await talk.body()
        await talk.send(head.encode() + b"\r\n" + (b"" if talk.seen.method == "HEAD" else body))

    return behave


def raw(*pieces: bytes, then: str = "close", read_body: bool = True) -> Behaviour:
    """Send bytes as they are, with a breath between them, then close, reset, hold or keep the connection."""

    async def behave(talk: Conversation) -> None:
        if read_body:
            await talk.body()
        for number, piece in enumerate(pieces):
            if number:
                await asyncio.sleep(0.02)
            await talk.send(piece)
        if then == "close":
            talk.close()
        elif then == "reset":
            talk.reset()
        elif then == "hold":
            await talk.hold()

    return behave


def gzipped(body: bytes, *, cut: int = 0, tail: bytes = b"") -> Behaviour:
    """A compressed answer whose framing is right; `cut` bytes are missing at its end."""
    data = gzip.compress(body)
    data = data[: len(data) - cut] + tail
    return respond(body=data, headers=(("content-type", "application/json"), ("content-encoding", "gzip")))


async def reset_before_body(talk: Conversation) -> None:
    talk.reset()


async def reset_within_body(talk: Conversation) -> None:
    await talk.body(100_000)
    talk.reset()


async def silence(talk: Conversation) -> None:
    await talk.body()
    await talk.hold()


async def never_read(talk: Conversation) -> None:
    await talk.stop_reading()


async def drip(talk: Conversation) -> None:
    """A body that never ends, a byte at a time."""
    await talk.body()
    await talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while not talk._upstream.stopped.is_set() and talk.open:
        await talk.send(b"x")
        await asyncio.sleep(0.02)


async def flood(talk: Conversation) -> None:
    """A body that never ends, as fast as it is taken."""
    await talk.body()
    await talk.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while not talk._upstream.stopped.is_set():
        await talk.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


async def endless_header_lines(talk: Conversation) -> None:
    await talk.body()
    await talk.send(b"HTTP/1.1 200 OK\r\n")
    while not talk._upstream.stopped.is_set():
        await talk.send(b"x-more: and more\r\n" * 10)


async def endless_header_value(talk: Conversation) -> None:
    await talk.body()
    await talk.send(b"HTTP/1.1 200 OK\r\nx-long: ")
    while not talk._upstream.stopped.is_set():
        await talk.send(b"a" * 4096)


def first_then(first: Behaviour, later: Behaviour) -> Behaviour:
    """One behaviour for the first request of each connection, another for those after it."""

    async def behave(talk: Conversation) -> None:
        await (first if talk.seen.number == 1 else later)(talk)

    return behave


class Upstream:
    """The server. Use it as an asynchronous context manager; its log may be read at any time."""

    def __init__(
        self,
        behaviour: Behaviour | None = None,
        *,
        tls: ServerIdentity | None = None,
        paths: Mapping[str, Behaviour] | None = None,
        host: str = "127.0.0.1",
        narrow: bool = False,
    ) -> None:
        """`narrow`: about 100 KiB go on their way to it unread, so that a larger upload has to wait."""
        self._behaviour = behaviour or respond()
        self._paths = {} if paths is None else paths
        self._tls = tls
        self._host = host
        self._narrow = narrow
        self._writers: set[asyncio.StreamWriter] = set()
        self.stopped = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.accepted = 0
        self.bytes_received = 0
        self.requests: list[Seen] = []
        self.events: list[str] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        context = None if self._tls is None else self._tls.context
        endpoint = socket.create_server((self._host, 0), backlog=100)
        if self._narrow:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        ahead = 1024 if self._narrow else 65536  # half of what is read before anybody asks for it
        self._server = await asyncio.start_server(self._serve, sock=endpoint, ssl=context, limit=ahead)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._server.close()
        for writer in set(self._writers):
            writer.transport.abort()
        await self._idle.wait()

    def hang_up(self) -> None:
        """Half-close every open connection; the FIN is in the client's kernel when this returns."""
        for writer in self._writers:
            with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as peer:
                peer.shutdown(socket.SHUT_WR)

    def speak_unasked(self, data: bytes) -> None:
        """Write to every open connection at once, past TLS."""
        for writer in self._writers:
            os.write(writer.get_extra_info("socket").fileno(), data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._idle.clear()
        self.accepted += 1
        self.events.append("accepted")
        talk = Conversation(self, reader, writer)
        number = 0
        try:
            while talk.open and await talk.next_request(self.accepted, number := number + 1):
                path = talk.seen.target.partition("?")[0]
                await self._paths.get(path, self._behaviour)(talk)
        except (ConnectionError, OSError):
            self.events.append("the client went away")
        finally:
            writer.close()
            self._writers.discard(writer)
            if not self._writers:
                self._idle.set()

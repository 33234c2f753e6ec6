"""`python -I -m broker.cli.relay FD PATH AGENT_SOCKET NAME READY`: what `doorward listen` becomes. Holds no key.

Prints READY when it serves. Hands each connection on to agent.sock, byte for byte, once the daemon has said on that
very connection that it takes it for the container's. Where it does not, nothing is handed on, the caller is told so,
and the relay ends: after a restart of the daemon the name has to be signed again. So many connections at a time, the
others wait.
"""

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from broker.client import endings
from broker.contract.exits import EXIT_CODES
from broker.contract.wire import WireError, dump_names, parse_object

CONNECTIONS_MAX = 256
CHUNK_BYTES = 1 << 16
ANSWER_BYTES_MAX = 1 << 20
CONNECT_S = 10.0
HEARD_OUT_S = 5.0
HEARD_OUT_BYTES = 1 << 21
ASKED = b"GET /v1/session HTTP/1.1\r\nhost: agent.sock\r\n\r\n"
NOT_OURS = "This listener's name is not known to the daemon any more. A human has to start it again: doorward listen"
NOT_THERE = "No daemon answers behind this listener. A human has to start it: doorward up"
LOST = EXIT_CODES["broker_unavailable"]


class NotOursError(Exception):
    """The daemon does not take us for the container's listener."""


class Relay:
    """One listener, for as long as the daemon knows it."""

    def __init__(self, *, agent_socket: str, name: str, connections_max: int = CONNECTIONS_MAX) -> None:
        self._agent_socket = agent_socket
        self._name = name
        self._free = asyncio.Semaphore(connections_max)
        self.lost = asyncio.Event()

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled; connections end with it."""
        listener.setblocking(False)  # noqa: FBT003 - positional-only
        async with asyncio.TaskGroup() as guests:
            await self._accept(listener, guests)

    async def _accept(self, listener: socket.socket, guests: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._free.acquire()
            try:
                endpoint, _ = await loop.sock_accept(listener)
            except OSError:
                self._free.release()
                await asyncio.sleep(0.1)  # no descriptor is free; those who wait keep their place
                continue
            except BaseException:
                self._free.release()
                raise
            guests.create_task(self._guest(endpoint))

    async def _guest(self, endpoint: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(sock=endpoint, limit=CHUNK_BYTES)
            try:
                await self._hand_on(reader, writer)
            finally:
                await _closed(writer)
        except OSError:
            return  # who hung up is told nothing
        finally:
            endpoint.close()
            self._free.release()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                inner, outer = await asyncio.open_unix_connection(self._agent_socket, limit=CHUNK_BYTES)
        except (OSError, TimeoutError):
            await _refuse(reader, writer, NOT_THERE)
            return
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._acknowledged(inner, outer)
        except NotOursError:
            await _refuse(reader, writer, NOT_OURS)
            self.lost.set()
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            await _refuse(reader, writer, NOT_THERE)
        else:
            async with asyncio.TaskGroup() as pumps:
                asking = pumps.create_task(_pump(reader, outer))
                await _pump(inner, writer)  # a client may have said all and still wait for the answer
                asking.cancel()
        finally:
            await _closed(outer)

    async def _acknowledged(self, inner: asyncio.StreamReader, outer: asyncio.StreamWriter) -> None:
        """Raises NotOursError where the daemon takes this connection for anybody else's."""
        outer.write(ASKED)
        await outer.drain()
        head = (await inner.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next((line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:")), "")
        if not length.strip().isdecimal() or int(length) > ANSWER_BYTES_MAX:
            raise ValueError("no length")
        try:
            told = parse_object(await inner.readexactly(int(length)))
        except WireError as cause:
            raise ValueError("no document") from cause
        if (told.get("agent"), told.get("span")) != (self._name, "container"):
            raise NotOursError


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(CHUNK_BYTES):
            writer.write(part)
            await writer.drain()
        writer.write_eof()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(HEARD_OUT_S):
            await writer.wait_closed()


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, why: str) -> None:
    """Say so; and hear the caller out, for a connection that ends with something unread is reset, answer and all."""
    body = dump_names(endings.not_running(why))
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(HEARD_OUT_S):
            writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
            writer.write_eof()
            heard = 0
            while heard < HEARD_OUT_BYTES and (part := await reader.read(CHUNK_BYTES)):
                heard += len(part)


async def serve(listener: socket.socket, *, agent_socket: str, name: str, ready: str) -> int:
    """Until told to stop, or until the daemon knows us no more; the exit code."""
    relay, stopped = Relay(agent_socket=agent_socket, name=name), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(relay.serve(listener))
        print(ready, flush=True)
        ends = [tasks.create_task(relay.lost.wait()), tasks.create_task(stopped.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        for end in ends:
            end.cancel()
    return LOST if relay.lost.is_set() else 0


def main(words: list[str]) -> int:
    descriptor, path, agent_socket, name, ready = words
    with socket.socket(fileno=int(descriptor)) as listener:
        try:
            code = asyncio.run(serve(listener, agent_socket=agent_socket, name=name, ready=ready))
        finally:
            Path(path).unlink(missing_ok=True)
    if code:
        print(f"doorward: {NOT_OURS}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

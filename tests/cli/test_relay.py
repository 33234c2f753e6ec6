"""What `doorward listen` becomes, over a daemon that says what the test wants."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.cli.relay import ASKED, NOT_OURS, NOT_THERE, Relay
from broker.contract.wire import parse_object

OURS = b'{"agent":"box","span":"container"}'
LIMIT_S = 15.0


class Daemon:
    """Answers the relay's question on each connection, then echoes in capitals until the caller has said all."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heard: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert ASKED == await reader.readexactly(len(ASKED))
        writer.write(self.answer)
        while part := await reader.read(4096):
            self.heard.append(part)
            writer.write(part.upper())
        writer.close()
        await writer.wait_closed()


def document(body: bytes, length: str | None = None) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


@asynccontextmanager
async def relaying(directory: Path, answer: bytes | None, **limits: int) -> AsyncIterator[tuple[Relay, str, Daemon]]:
    daemon = Daemon(answer or b"")
    inner, outer = str(directory / "agent.sock"), str(directory / "box.sock")
    server = None if answer is None else await asyncio.start_unix_server(daemon.serve, inner)
    relay = Relay(agent_socket=inner, name="box", **limits)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(outer)
        listener.listen(16)
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(relay.serve(listener))
            try:
                yield relay, outer, daemon
            finally:
                serving.cancel()
                if server is not None:
                    server.close()


async def asked(path: str, said: bytes) -> bytes:
    """All that comes back for all that is said."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(said)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_bytes_are_handed_on_both_ways_once_the_daemon_takes_it_for_the_containers(tmp_path: Path) -> None:
    async with relaying(tmp_path, document(OURS)) as (relay, path, daemon):
        assert [b"HELLO", b"AGAIN"] == [await asked(path, b"hello"), await asked(path, b"again")]
        assert b"helloagain" == b"".join(daemon.heard)
        assert not relay.lost.is_set()


@pytest.mark.parametrize(
    "body",
    [b'{"agent":"unidentified","span":"connection"}', b'{"agent":"other","span":"container"}', b'{"agent":"box"}'],
)
async def test_under_another_name_nothing_is_handed_on_and_the_relay_ends(tmp_path: Path, body: bytes) -> None:
    async with relaying(tmp_path, document(body)) as (relay, path, daemon):
        told = await asked(path, b"hello" * 100_000)
        await relay.lost.wait()

        assert b"503 Service Unavailable" in told
        assert NOT_OURS == parse_object(told.partition(b"\r\n\r\n")[2])["message"]
        assert [] == daemon.heard


@pytest.mark.parametrize(
    "answer",
    [None, document(OURS, "x"), document(OURS, "9999999"), document(b"{"), b"HTTP/1.1 200 OK\r\n\r\n"],
    ids=["nobody", "no number", "too much", "no document", "no length"],
)
async def test_without_a_daemon_that_answers_the_caller_is_told_and_the_relay_goes_on(
    tmp_path: Path, answer: bytes | None
) -> None:
    async with relaying(tmp_path, answer) as (relay, path, _):
        told = [parse_object((await asked(path, b"hello")).partition(b"\r\n\r\n")[2]) for _ in range(2)]

        assert [("broker_unavailable", "not_running", NOT_THERE)] * 2 == [
            (one["category"], one["code"], one["message"]) for one in told
        ]
        assert not relay.lost.is_set()


async def test_so_many_at_a_time_the_others_wait(tmp_path: Path) -> None:
    async with relaying(tmp_path, document(OURS), connections_max=1) as (_, path, daemon):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"first")
        assert b"FIRST" == await reader.readexactly(5)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(asked(path, b"second"))
            for _ in range(50):
                await asyncio.sleep(0)
            assert [b"first"] == daemon.heard
            writer.close()
            assert b"SECOND" == await waiting


async def test_who_hangs_up_leaves_a_place(tmp_path: Path) -> None:
    async with relaying(tmp_path, document(OURS), connections_max=1) as (_, path, _):
        for _ in range(5):
            _, writer = await asyncio.open_unix_connection(path)
            writer.write(b"x" * 1000)
            writer.transport.abort()

        assert b"LAST" == await asked(path, b"last")

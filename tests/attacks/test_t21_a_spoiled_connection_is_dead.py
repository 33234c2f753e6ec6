"""The next call never receives what was meant for an earlier one."""

import asyncio

import pytest

from broker.core.frozen import Deadlines
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.https_calls import OneSecret, loopback
from tests.fakes.upstream import Upstream

BRIEF = Deadlines(connect_s=0.2, write_s=0.2, first_byte_s=0.2, total_s=0.3)
STOLEN = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"stolen"'

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def late(talk: up.Conversation) -> None:
    """An answer that comes after its deadline."""
    await talk.body()
    await asyncio.sleep(0.25)
    await talk.send(STOLEN)


SPOILERS = {
    "late": late,
    "two answers to one request": up.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" + STOLEN, then="keep"),
    "more than its length": up.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}" + STOLEN, then="keep"),
    "a flood": up.flood,
    "a cut gzip": up.gzipped(b"{}", cut=4),
    "broken chunks": up.raw(CHUNKED + b"1\r\nx\r\n", b"ZZ" + STOLEN, then="keep"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILERS)
async def test_the_next_call_gets_its_own_answer(name: str) -> None:
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 10_000, version="0")
    async with Upstream(paths={"/things": SPOILERS[name]}) as server:
        await executor.execute(loopback(server.port, deadlines=BRIEF))
        raw = await executor.execute(loopback(server.port, path="/next"))
    await executor.close()

    assert (None, b"{}") == (raw.fault, raw.body)
    assert 2 == server.accepted


async def test_half_an_answer_behind_a_whole_one_is_thrown_away() -> None:
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 10_000, version="0")
    half = up.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\nx: ", then="keep")
    async with Upstream(paths={"/things": half}) as server:
        await executor.execute(loopback(server.port))
        raw = await executor.execute(loopback(server.port, path="/next"))
    await executor.close()

    assert (None, b"{}") == (raw.fault, raw.body)


async def test_what_is_said_between_two_calls_is_heard_by_neither() -> None:
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 10_000, version="0")
    async with Upstream() as server:
        await executor.execute(loopback(server.port))
        server.speak_unasked(STOLEN)
        raw = await executor.execute(loopback(server.port))
    await executor.close()

    assert (None, b"{}", 2) == (raw.fault, raw.body, server.accepted)

"""Answers that are handed on while they come: in order, bounded, and never as whole when they were not."""

import asyncio
import gzip
import tracemalloc
from collections.abc import Callable

import pytest

from broker.core.outcome import Fault, Phase
from broker.core.secret import Secret
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.https_calls import loopback
from tests.fakes.upstream import Upstream


class Listener:
    """Implements ports.AnswerSink."""

    def __init__(self, *, until_bytes: int | None = None, on_body: Callable[[bytes], None] | None = None) -> None:
        self.heads: list[tuple[int, tuple[tuple[str, str], ...]]] = []
        self.parts: list[bytes] = []
        self.taken_bytes = 0
        self._until = until_bytes
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self._on_body = on_body or self.parts.append

    async def head(self, status: int, headers: tuple[tuple[str, str], ...], derived: tuple[Secret, ...]) -> bool:
        assert () == derived
        self.heads.append((status, headers))
        return True

    async def body(self, octets: bytes) -> bool:
        await self.may_go_on.wait()
        self._on_body(octets)
        self.taken_bytes += len(octets)
        return self._until is None or self.taken_bytes < self._until


async def test_a_small_answer_is_handed_on_and_kept_to_be_judged(executor: HttpsExecutor) -> None:
    listener = Listener()
    async with Upstream(up.respond(body=b'{"a": 1}')) as server:
        raw = await executor.execute(loopback(server.port, method="GET"), listener)

    assert (b'{"a": 1}', b'{"a": 1}', 8) == (b"".join(listener.parts), raw.body, raw.handed_on_bytes)
    assert [200] == [status for status, _ in listener.heads]
    assert raw.body_complete
    assert not raw.is_body_gone


async def test_a_large_answer_is_handed_on_and_not_kept(executor: HttpsExecutor) -> None:
    body = bytes(range(256)) * 8192
    listener = Listener()
    async with Upstream(up.respond(body=body)) as server:
        raw = await executor.execute(loopback(server.port, method="GET"), listener)

    assert body == b"".join(listener.parts)
    assert (None, b"", len(body), True) == (raw.fault, raw.body, raw.handed_on_bytes, raw.is_body_gone)


async def test_a_failure_is_kept_and_not_handed_on(executor: HttpsExecutor) -> None:
    listener = Listener()
    async with Upstream(up.respond(status=404, body=b"none")) as server:
        raw = await executor.execute(loopback(server.port, method="GET"), listener)

    assert ([], b"none", None) == (listener.heads, raw.body, raw.handed_on_bytes)


async def test_a_bomb_is_handed_on_in_bounded_pieces(executor: HttpsExecutor) -> None:
    size = 64 << 20
    packed = gzip.compress(bytes(size), mtime=0)
    largest = 0

    def note(piece: bytes) -> None:
        nonlocal largest
        largest = max(largest, len(piece))

    listener = Listener(on_body=note)
    async with Upstream(up.respond(headers=(("content-encoding", "gzip"),), body=packed)) as server:
        tracemalloc.start()
        raw = await executor.execute(loopback(server.port, method="GET"), listener)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert (size, None) == (raw.handed_on_bytes, raw.fault)
    assert largest <= 262_144
    assert peak < 4 << 20


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_body_that_ends_early_is_no_whole_one(executor: HttpsExecutor, method: str) -> None:
    listener = Listener()
    async with Upstream(up.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")) as server:
        raw = await executor.execute(loopback(server.port, method=method), listener)

    assert (b"half", Fault.TRUNCATED, False) == (b"".join(listener.parts), raw.fault, raw.body_complete)
    assert Phase.RESPONSE_STARTED == raw.phase


async def test_a_read_that_nobody_hears_is_given_up(executor: HttpsExecutor) -> None:
    listener = Listener(until_bytes=1)
    async with Upstream(up.respond(body=bytes(8 << 20))) as server:
        raw = await executor.execute(loopback(server.port, method="GET"), listener)

    assert (Fault.TRUNCATED, False) == (raw.fault, raw.body_complete)
    assert listener.taken_bytes < 1 << 20


async def test_a_write_that_nobody_hears_is_read_to_its_end(executor: HttpsExecutor) -> None:
    listener = Listener(until_bytes=1)
    async with Upstream(up.respond(body=bytes(2 << 20))) as server:
        raw = await executor.execute(loopback(server.port, method="POST"), listener)

    assert (None, True, 2 << 20) == (raw.fault, raw.body_complete, raw.handed_on_bytes)
    assert 2 << 20 == listener.taken_bytes  # all of it is looked through

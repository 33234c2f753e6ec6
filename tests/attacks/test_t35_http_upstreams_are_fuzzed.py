"""Hostile HTTP upstreams: whatever bytes they send, the end is a typed outcome, in bounded time and memory.

Also T17, T20 and T21 for answers that are handed on: bounded pieces, never whole by mistake, and no connection that saw
such a thing is used again.
"""

import asyncio
import random
import time
import tracemalloc

import pytest

from broker.contract.reasons import Category
from broker.core.outcome import Fault, Phase
from broker.core.secret import Secret
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.answers import classified
from tests.fakes.https_calls import OneSecret, http, loopback
from tests.fakes.upstream import Upstream

SEED = 35
ROUNDS = 150
CAP = 10_000
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n" + b'{"a": 1}'
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
MENACES = (
    b"\r\n", b"\n", b"\0", b"\xff", b" ", b":", b"0", b"-1", b"FFFFFFFFFFFFFFFF", b"chunked", b"content-length: 3\r\n",
    b"transfer-encoding: gzip, chunked\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/9.9 999 \r\n",
    b"content-encoding: gzip\r\n",
    b"x" * 9000, b"a: b\r\n" * 120, b"\x1f\x8b\x08\x00", b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\n\r\n",
)  # fmt: skip


class Listener:
    """Counts what it is handed."""

    def __init__(self) -> None:
        self.taken_bytes = 0
        self.largest = 0

    async def head(self, status: int, headers: tuple[tuple[str, str], ...], derived: tuple[Secret, ...]) -> bool:
        del headers, derived
        return 100 <= status < 1000

    async def body(self, octets: bytes) -> bool:
        self.taken_bytes += len(octets)
        self.largest = max(self.largest, len(octets))
        return True


def spoiled(rng: random.Random) -> bytes:
    """A good answer with something done to it, or no answer at all."""
    words = bytearray(rng.choice([WHOLE, CHUNKED, WHOLE + CHUNKED, rng.randbytes(rng.randint(0, 300))]))
    for _ in range(rng.randint(1, 5)):
        at = rng.randint(0, len(words))
        match rng.randint(0, 3):
            case 0:
                words[at:at] = rng.choice(MENACES)
            case 1:
                del words[at : at + rng.randint(1, 20)]
            case 2:
                words[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                words = words[: at + 1]
    return bytes(words)


@pytest.mark.parametrize("handed_on", [False, True], ids=["kept", "handed on"])
async def test_whatever_comes_back_ends_typed_and_leaves_no_connection(handed_on: bool) -> None:  # noqa: FBT001
    rng = random.Random(SEED)  # noqa: S311 - to be repeated
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: CAP, version="0")
    began, counts = time.monotonic(), dict.fromkeys(Category, 0)
    for _ in range(ROUNDS):
        async with Upstream(up.raw(spoiled(rng), then=rng.choice(["close", "reset"]))) as server:
            permit = loopback(server.port, method=rng.choice(["GET", "POST"]))
            raw = await executor.execute(permit, Listener() if handed_on else None)
            outcome = classified(http(permit), raw)
            counts[outcome.verdict.category] += 1
            if raw.fault is not None or not raw.body_complete:
                assert Category.SUCCESS is not outcome.verdict.category
            assert Fault.INTERNAL is not raw.fault
            assert Phase.CONNECTED is not raw.phase
    await executor.close()

    assert time.monotonic() - began < 60
    assert counts[Category.MALFORMED_RESPONSE] > ROUNDS // 10
    assert 0 == counts[Category.BROKER_UNAVAILABLE]


async def test_an_endless_answer_is_handed_on_until_the_deadline_in_little_memory() -> None:
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: CAP, version="0")
    listener = Listener()

    async def endless(talk: up.Conversation) -> None:
        await talk.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        while True:
            await talk.send(b"y" * 65_536)
            await asyncio.sleep(0)

    async with Upstream(endless) as server:
        permit = loopback(server.port, method="GET")
        tracemalloc.start()
        raw = await executor.execute(permit, listener)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    await executor.close()

    assert (Fault.TOTAL_TIMEOUT, False) == (raw.fault, raw.body_complete)
    assert listener.taken_bytes > CAP
    assert listener.largest <= 1 << 20
    assert peak < 4 << 20
    assert Category.SUCCESS is not classified(http(permit), raw).verdict.category

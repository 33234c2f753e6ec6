"""T46: neither an agent's request nor an upstream's answer keeps the event loop, and with it everybody, waiting."""

import asyncio
import gc
import json
import time
from contextlib import suppress

import pytest

from broker.server.shapes import ShapeError, UnreadableError, http_ask, read_body
from tests.fakes import market
from tests.fakes.flow import Flow, as_json

LONGEST_S = 0.05
TRIES = 5  # a busy machine holds anybody up; what is wrong here is wrong every time
ONE_MIB = 1 << 20


def body_of(unit: bytes, count: int) -> bytes:
    return b'{"service":"s","method":"POST","path":"/x","body":[' + b",".join([unit] * count) + b"]}"


@pytest.mark.parametrize(
    "raw",
    [
        body_of(b"[]", 340_000),
        body_of(b"[]", 9_900),
        body_of(b"1e308", 19_000),
        body_of(b'{"a":"\\u0041"}', 9_900),
        b"{" + b",".join(b'"%d":1' % number for number in range(19_000)) + b"}",
        b'{"service":"s","method":"GET","path":"/x","headers":{'
        + b",".join(b'"%d":"1"' % number for number in range(9_000))
        + b"}}",
        b'{"reason":"' + b"\\u0000" * 150_000 + b'"}',
        b"[" * ONE_MIB,
        b'"' * ONE_MIB,
    ],
    ids=["values", "lists", "floats", "objects", "unknown names", "headers", "controls", "brackets", "quotes"],
)
def test_no_body_takes_long_to_read(raw: bytes) -> None:
    took: list[float] = []
    while not took or (min(took) > LONGEST_S and len(took) < TRIES):
        began = time.thread_time()
        with suppress(ShapeError, UnreadableError):
            http_ask(read_body(raw[:ONE_MIB], "http-request"))
        took.append(time.thread_time() - began)

    assert min(took) < LONGEST_S


@pytest.mark.parametrize(
    "unit",
    [b"[],", b"%2525252525", b"%26amp;%23x25;", b"&amp;amp;amp;", b"\\u005c", b"%63anary-market-toke "],
    ids=["lists", "percent", "mixed", "entities", "back-slashes", "nearly the secret"],
)
async def test_judging_an_answer_leaves_the_loop_to_others(unit: bytes) -> None:
    body = b"[" + unit * (262_144 // len(unit)) + b"0]"
    longest: list[float] = []
    gc.freeze()  # what other tests left behind is not to be gone through meanwhile
    while not longest or (min(longest) > LONGEST_S and len(longest) < TRIES):
        flow = Flow()
        flow.executor.answers.append(market.answered(200, body))
        longest.append(await longest_wait(flow))
    gc.unfreeze()

    assert min(longest) < LONGEST_S


async def longest_wait(flow: Flow) -> float:
    """What our threads worked while the event loop came to nobody, as an answer was judged; not what others did."""
    gaps = [0.0]

    async def beat() -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0)
            gaps.append(time.process_time() - before)

    async with asyncio.TaskGroup() as tasks:
        heart = tasks.create_task(beat())
        envelope = as_json(await flow.ask(market.READ))
        heart.cancel()
    assert envelope["http"]["status"] == 200, json.dumps(envelope)
    return max(gaps)

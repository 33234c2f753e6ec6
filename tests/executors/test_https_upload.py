"""Uploads: what of a body went out is measured, and an early answer is told from a late one."""

import asyncio

import pytest

from broker.core.frozen import Deadlines
from broker.core.outcome import Fault, Phase
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.fakes.https_calls import loopback, over_tls
from tests.fakes.upstream import Upstream

BIG = b"z" * 8_000_000
EARLY = b"HTTP/1.1 %d Early\r\ncontent-length: 3\r\ncontent-type: text/plain\r\n\r\nbig"


async def test_a_whole_body_arrives_and_is_counted(executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        raw = await executor.execute(loopback(server.port, body=BIG))

    assert (None, len(BIG), Phase.RESPONSE_COMPLETE) == (raw.fault, raw.sent_bytes, raw.phase)
    assert f"body {len(BIG)}/{len(BIG)}" in server.events


async def test_over_tls_as_well(executor: HttpsExecutor, authority: Authority) -> None:
    async with Upstream(tls=authority.server()) as server:
        raw = await executor.execute(over_tls(server.port, authority.pem, body=BIG))

    assert (None, len(BIG)) == (raw.fault, raw.sent_bytes)
    assert f"body {len(BIG)}/{len(BIG)}" in server.events


@pytest.mark.parametrize("wire", ["plain", "TLS"])
async def test_a_reset_within_the_body_shows_that_it_was_not_all_sent(
    executor: HttpsExecutor, authority: Authority, wire: str
) -> None:
    identity = authority.server() if wire == "TLS" else None
    async with Upstream(up.reset_within_body, tls=identity) as server:
        call = over_tls(server.port, authority.pem, body=BIG) if identity else loopback(server.port, body=BIG)
        raw = await executor.execute(call)

    assert (Fault.CONNECTION_LOST, Phase.HEADERS_SENT, None) == (raw.fault, raw.phase, raw.status)
    assert raw.sent_bytes < len(BIG)
    assert 1 == len(server.requests)


async def test_a_server_that_stops_reading_runs_into_the_write_deadline(executor: HttpsExecutor) -> None:
    async with Upstream(up.never_read) as server:
        raw = await executor.execute(loopback(server.port, body=BIG))

    assert (Fault.WRITE_TIMEOUT, Phase.HEADERS_SENT) == (raw.fault, raw.phase)
    assert 0 < raw.sent_bytes < len(BIG)
    assert raw.elapsed_ms < 1400


async def test_the_total_deadline_ends_an_upload_that_makes_progress(executor: HttpsExecutor) -> None:
    async def sip(talk: up.Conversation) -> None:
        for _ in range(100):
            if not await talk.body(100_000):
                break
            await asyncio.sleep(0.01)

    deadlines = Deadlines(connect_s=0.3, write_s=0.3, first_byte_s=0.3, total_s=0.4)
    async with Upstream(sip) as server:
        raw = await executor.execute(loopback(server.port, body=BIG * 4, deadlines=deadlines))

    assert (Fault.TOTAL_TIMEOUT, Phase.HEADERS_SENT) == (raw.fault, raw.phase)


@pytest.mark.parametrize("status", [413, 200])
@pytest.mark.parametrize("then", ["reset", "hold"])
async def test_an_early_answer_is_kept_with_what_was_sent_until_then(
    executor: HttpsExecutor, status: int, then: str
) -> None:
    async with Upstream(up.raw(EARLY % status, then=then, read_body=False)) as server:
        raw = await executor.execute(loopback(server.port, body=BIG))
        again = await executor.execute(loopback(server.port, body=b"x"))

    assert (None, status, b"big") == (raw.fault, raw.status, raw.body)
    assert raw.sent_bytes < len(BIG)
    assert 2 == server.accepted  # the connection that was answered early is not used again
    assert again.status == status


async def test_a_body_goes_out_with_its_length_and_never_in_chunks(executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        await executor.execute(loopback(server.port, body=b"12345"))
        await executor.execute(loopback(server.port, body=b""))
        await executor.execute(loopback(server.port, method="GET"))

    lengths = [seen.headers.get("content-length") for seen in server.requests]
    assert ["5", "0", None] == lengths
    assert not any("transfer-encoding" in seen.headers for seen in server.requests)

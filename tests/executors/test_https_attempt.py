"""The guards of one attempt, each alone: dispatched once, written once, on an open connection."""

import asyncio
import errno
import gzip
import ssl
from functools import partial
from typing import cast

import aiohttp
import pytest
from aiohttp import ClientRequest
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict
from yarl import URL

from broker.core.credential import BasicSecret, BearerSecret
from broker.core.frozen import Deadlines
from broker.core.outcome import Fault, Phase
from broker.core.policy.model import Tls
from broker.core.secret import Secret
from broker.executors.https.attempt import Attempt, SlicedBody, WatchedRequest, once, open_transport
from broker.executors.https.content import MAX_MEMBERS, Content
from broker.executors.https.faults import (
    AddressRefusedError,
    AttemptLostError,
    ContentFaultError,
    ExecutorError,
    PinMismatchError,
    fault_of,
)
from broker.executors.https.inject import inject
from broker.executors.https.pool import PoolKey, Pools
from broker.executors.https.resolver import Destination, SystemLookup
from tests.fakes.upstream import Upstream


async def test_a_second_dispatch_of_an_attempt_is_refused_before_it_reaches_the_wire() -> None:
    lookup = SystemLookup()
    pools = Pools(lookup)
    attempt = Attempt(Deadlines())
    async with Upstream() as server:
        destination = Destination(scheme="http", host="127.0.0.1", port=server.port, named=True)
        key = PoolKey(destination=destination, credential=None, credential_version=None, tls=Tls())
        async with pools.lease(key) as session:
            url = URL(f"http://127.0.0.1:{server.port}/")
            async with session.get(url, middlewares=(partial(once, attempt),)) as response:
                assert 200 == response.status
            with pytest.raises(ExecutorError, match="second dispatch"):
                await session.get(url, middlewares=(partial(once, attempt),))
    await pools.close()
    lookup.close()

    assert 1 == len(server.requests)


async def test_requests_of_another_kind_are_refused() -> None:
    async with Upstream() as server, aiohttp.ClientSession() as session:
        with pytest.raises(ExecutorError, match="another kind"):
            await session.get(f"http://127.0.0.1:{server.port}/", middlewares=(partial(once, Attempt(Deadlines())),))
    async with Upstream() as server, aiohttp.ClientSession(request_class=WatchedRequest) as session:
        with pytest.raises(ExecutorError, match="without an attempt"):
            await session.get(f"http://127.0.0.1:{server.port}/")

    assert [] == server.requests


async def test_a_body_is_sent_once_and_never_shown() -> None:
    async with Upstream() as server, aiohttp.ClientSession() as session:
        body = SlicedBody(b"canary", Attempt(Deadlines()))
        async with session.post(f"http://127.0.0.1:{server.port}/", data=body) as response:
            assert 200 == response.status
        with pytest.raises(aiohttp.ClientConnectionError, match="once"):
            await session.post(f"http://127.0.0.1:{server.port}/", data=body)
    with pytest.raises(TypeError):
        body.decode()


async def test_a_connection_that_closed_before_the_first_byte_proves_that_nothing_was_sent() -> None:
    with pytest.raises(AttemptLostError):
        open_transport(None)
    async with Upstream() as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        assert transport is open_transport(transport)
        writer.close()
        with pytest.raises(AttemptLostError):
            open_transport(transport)


async def test_phases_only_go_forward_and_an_answer_ends_the_watch() -> None:
    attempt = Attempt(Deadlines(write_s=0.01, first_byte_s=0.01))
    watched = []
    async with asyncio.timeout(None) as watch:
        attempt.watch_by(watch)
        watched.append(attempt.deadline_fault)
        attempt.dispatch(None)
        watched.append(attempt.deadline_fault)
        attempt.answered(200, ())
        attempt.sent(5)
        attempt.handed_over()
        watched.append(attempt.deadline_fault)
        await asyncio.sleep(0)
        assert None is watch.when()
    attempt.reach(Phase.CONNECTING)

    assert [Fault.CONNECT_TIMEOUT, Fault.WRITE_TIMEOUT, Fault.TOTAL_TIMEOUT] == watched
    assert (Phase.RESPONSE_STARTED, 5) == (attempt.phase, attempt.outcome(None).sent_bytes)


def test_a_value_that_no_header_can_hold_is_not_repeated_in_the_fault() -> None:
    class Request:
        headers: CIMultiDict[str] = CIMultiDict()

    request = cast("ClientRequest", Request())
    inject(request, BasicSecret(username="ä", password=Secret("ö")), b"")  # Basic encodes whatever it is
    secret = BearerSecret(token=Secret("canary"))
    object.__setattr__(secret, "token", Secret(b"canary\xff"))

    with pytest.raises(ExecutorError) as caught:
        inject(request, secret, b"")
    assert "canary" not in f"{caught.value} {caught.value.__cause__}"


def key_of(host: str) -> ConnectionKey:
    return ConnectionKey(
        host=host, port=443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
    )


FAULTS: list[tuple[Exception, Fault]] = [
    (ContentFaultError(Fault.TOO_LARGE), Fault.TOO_LARGE),
    (AddressRefusedError(), Fault.ADDRESS_REFUSED),
    (PinMismatchError(), Fault.TLS_UNTRUSTED),
    (aiohttp.ClientConnectorCertificateError(key_of("a"), ValueError("odd")), Fault.TLS_UNTRUSTED),
    (aiohttp.ClientConnectorSSLError(key_of("a"), ssl.SSLError()), Fault.TLS_FAILED),
    (aiohttp.ClientConnectorError(key_of("a"), AddressRefusedError()), Fault.ADDRESS_REFUSED),
    (aiohttp.ClientConnectorError(key_of("a"), OSError(errno.ECONNREFUSED, "x")), Fault.CONNECT_REFUSED),
    (aiohttp.ClientConnectorError(key_of("a"), OSError(errno.ENETUNREACH, "x")), Fault.CONNECT_FAILED),
    (aiohttp.ClientPayloadError("for no known reason"), Fault.TRUNCATED),
    (aiohttp.ServerDisconnectedError(), Fault.CONNECTION_LOST),
    (AttemptLostError(), Fault.CONNECTION_LOST),
    (ConnectionResetError(), Fault.CONNECTION_LOST),
    (RuntimeError("ours"), Fault.INTERNAL),
]


@pytest.mark.parametrize(("error", "fault"), FAULTS, ids=lambda value: type(value).__name__)
def test_every_exception_stands_for_a_fault(error: Exception, fault: Fault) -> None:
    assert fault is fault_of(error)


def test_broken_chunks_are_told_from_cut_ones() -> None:
    broken, cut = aiohttp.ClientPayloadError(), aiohttp.ClientPayloadError()
    broken.__cause__ = aiohttp.http_exceptions.TransferEncodingError("Invalid character in chunk size")
    cut.__cause__ = aiohttp.http_exceptions.TransferEncodingError("Not enough data to satisfy transfer length header.")

    assert (Fault.FRAMING, Fault.TRUNCATED) == (fault_of(broken), fault_of(cut))


def test_compressed_bytes_are_bounded_even_where_they_hold_nothing() -> None:
    """Blocks without content in one member: nothing is unpacked, and the input never ends."""
    content = Content(coding="gzip", cap_bytes=1000)
    content.feed(gzip.compress(b"")[:10])
    nothing = b"\x00\x00\x00\xff\xff" * 4000
    for _ in range(3):
        content.feed(nothing)
    with pytest.raises(ContentFaultError, match="too_large"):
        content.feed(nothing)


def test_members_are_bounded_and_deflate_has_one() -> None:
    with pytest.raises(ContentFaultError, match="decoding"):
        Content(coding="gzip", cap_bytes=1000).feed(gzip.compress(b"") * (MAX_MEMBERS + 1))
    deflate = Content(coding="deflate", cap_bytes=1000)
    with pytest.raises(ContentFaultError, match="decoding"):
        deflate.feed(b"x\x9c\x03\x00\x00\x00\x00\x01" + b"more")


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_body_is_the_same_however_it_is_cut(size: int) -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two" * 100)
    content = Content(coding="GZIP ", cap_bytes=1000)
    for start in range(0, len(packed), size):
        content.feed(packed[start : start + size])
    content.finish()

    assert b"one " + b"two" * 100 == content.body

"""Nothing is sent twice: not on a lost connection, not on a kept one, not for any method."""

import pytest

from broker.core.outcome import Fault, Phase
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.fakes.https_calls import loopback, over_tls
from tests.fakes.upstream import Upstream

METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH")


@pytest.mark.parametrize("method", METHODS)
async def test_a_fresh_connection_that_is_lost_is_not_replaced(executor: HttpsExecutor, method: str) -> None:
    async with Upstream(up.raw()) as server:
        raw = await executor.execute(loopback(server.port, method=method, body=_body(method)))

    assert (Fault.CONNECTION_LOST, Phase.BODY_SENT) == (raw.fault, raw.phase)
    assert (1, 1) == (len(server.requests), server.accepted)


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("method", METHODS)
async def test_a_kept_connection_that_is_lost_is_not_replaced(executor: HttpsExecutor, method: str, end: str) -> None:
    async with Upstream(up.first_then(up.respond(), up.raw(then=end))) as server:
        first = await executor.execute(loopback(server.port, method=method, body=_body(method)))
        second = await executor.execute(loopback(server.port, method=method, body=_body(method)))

    assert (None, Fault.CONNECTION_LOST) == (first.fault, second.fault)
    assert [(1, 1), (1, 2)] == [(seen.connection, seen.number) for seen in server.requests]


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_the_same_holds_over_tls(executor: HttpsExecutor, authority: Authority, method: str) -> None:
    async with Upstream(up.first_then(up.respond(), up.raw()), tls=authority.server()) as server:
        first = await executor.execute(over_tls(server.port, authority.pem, method=method, body=_body(method)))
        second = await executor.execute(over_tls(server.port, authority.pem, method=method, body=_body(method)))

    assert (None, Fault.CONNECTION_LOST) == (first.fault, second.fault)
    assert [(1, 1), (1, 2)] == [(seen.connection, seen.number) for seen in server.requests]


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used(executor: HttpsExecutor) -> None:
    """It would cost a write its certainty: the close would be seen only after the request had left."""
    async with Upstream() as server:
        first = await executor.execute(loopback(server.port, body=b"x"))
        server.hang_up()
        second = await executor.execute(loopback(server.port, body=b"x"))

    assert (None, None) == (first.fault, second.fault)
    assert [1, 2] == [seen.connection for seen in server.requests]


def _body(method: str) -> bytes:
    return b"" if method in {"GET", "HEAD", "OPTIONS", "DELETE"} else b"x" * 1000

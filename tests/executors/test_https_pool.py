"""Which connections are kept, for whom, and until when."""

import asyncio
from dataclasses import replace

import pytest

from broker.core.policy.model import Tls
from broker.executors.https import ExecutorError, HttpsExecutor
from broker.executors.https.faults import AddressRefusedError
from broker.executors.https.pool import PoolKey, Pools
from broker.executors.https.resolver import CheckedResolver, Destination, SystemLookup, checked_socket
from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.fakes.https_calls import loopback, over_tls
from tests.fakes.upstream import Upstream

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen"


async def test_a_clean_connection_is_used_again(executor: HttpsExecutor, authority: Authority) -> None:
    async with Upstream(tls=authority.server()) as server:
        for _ in range(3):
            await executor.execute(over_tls(server.port, authority.pem, body=b"x"))

    assert [(1, 1), (1, 2), (1, 3)] == [(seen.connection, seen.number) for seen in server.requests]


@pytest.mark.parametrize("noticed_by", ["kernel", "parser"])
async def test_an_answer_that_nobody_asked_for_is_never_taken_for_the_next_one(
    executor: HttpsExecutor, noticed_by: str
) -> None:
    async with Upstream() as server:
        await executor.execute(loopback(server.port))
        server.speak_unasked(HEAD)
        if noticed_by == "parser":
            await asyncio.sleep(0.02)
        raw = await executor.execute(loopback(server.port))

    assert (None, b"{}") == (raw.fault, raw.body)
    assert 2 == server.accepted


async def test_a_second_answer_behind_the_first_spoils_the_connection(executor: HttpsExecutor) -> None:
    async with Upstream(paths={"/things": up.raw(HEAD + HEAD, then="keep")}) as server:
        first = await executor.execute(loopback(server.port))
        second = await executor.execute(loopback(server.port, path="/good"))

    assert (b"stolen", b"{}") == (first.body, second.body)
    assert 2 == server.accepted


async def test_credential_versions_share_no_connection(executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        await executor.execute(loopback(server.port, version=1))
        await executor.execute(loopback(server.port, version=2))
        await executor.execute(loopback(server.port, credential=None))

    assert 3 == server.accepted


async def test_dropping_a_credential_closes_its_kept_connections_alone(executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        await executor.execute(loopback(server.port))
        await executor.execute(loopback(server.port, credential=None))
        await executor.close_credential("api")
        await executor.close_credential("unknown")
        await executor.execute(loopback(server.port))
        await executor.execute(loopback(server.port, credential=None))

    assert [1, 2, 3, 2] == [seen.connection for seen in server.requests]


async def test_a_request_under_way_is_finished_when_its_credential_is_dropped(executor: HttpsExecutor) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def wait(talk: up.Conversation) -> None:
        asked.set()
        await release.wait()
        await up.respond()(talk)

    async with Upstream(wait) as server, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(executor.execute(loopback(server.port)))
        await asked.wait()
        await executor.close_credential("api")
        release.set()
        raw = await running

    assert (None, 200) == (raw.fault, raw.status)


def key(number: int) -> PoolKey:
    destination = Destination(scheme="https", host=f"host{number}.example.com", port=443, named=True)
    return PoolKey(destination=destination, credential="api", credential_version=1, tls=Tls())


async def test_pools_are_bounded_and_the_idle_ones_go_first() -> None:
    lookup = SystemLookup()
    pools = Pools(lookup, max_pools=3)
    async with pools.lease(key(0)) as busy:
        for number in range(1, 8):
            async with pools.lease(key(number)) as session:
                assert not session.closed
        async with pools.lease(key(0)) as again:
            assert again is busy
    assert len(pools._pools) <= 3
    await pools.close()
    assert again.closed
    lookup.close()


async def test_trust_contexts_are_kept_and_bounded(authority: Authority) -> None:
    lookup = SystemLookup()
    pools = Pools(lookup, max_pools=3)
    tls = [Tls(pin="sha256:" + f"{number:064x}") for number in range(4)]
    contexts = [pools._context(one) for one in tls]

    assert contexts[-1] is pools._context(tls[-1])
    assert len(pools._contexts) <= 3
    with pytest.raises(ExecutorError, match="CA file"):
        pools._context(Tls(ca_pem=authority.pem.replace("BEGIN", "END")))
    lookup.close()


async def test_the_resolver_of_a_door_answers_for_no_other_host() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        del port
        return {"api.example.com": ["93.184.216.34"], "empty.example.com": []}[host]

    destination = Destination(scheme="https", host="api.example.com", port=443, named=True)
    resolver = CheckedResolver(destination, lookup)

    assert ["93.184.216.34"] == [found["host"] for found in await resolver.resolve("api.example.com", 443)]
    with pytest.raises(AddressRefusedError):
        await resolver.resolve("other.example.com", 443)
    with pytest.raises(OSError, match="no address"):
        await CheckedResolver(replace(destination, host="empty.example.com"), lookup).resolve("empty.example.com", 443)
    await resolver.close()


def test_a_socket_is_made_for_allowed_addresses_alone() -> None:
    destination = Destination(scheme="https", host="api.example.com", port=443, named=True)
    with checked_socket(destination, (2, 1, 6, "", ("93.184.216.34", 443))) as made:
        assert made.fileno() > 0
    with pytest.raises(AddressRefusedError):
        checked_socket(destination, (2, 1, 6, "", ("169.254.169.254", 443)))

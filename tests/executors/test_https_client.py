"""What goes out and what comes back: headers, injection, bodies, redirects, and nothing from the environment."""

import asyncio
import gzip
import netrc
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from broker.contract.reasons import Effect
from broker.core.credential import BasicSecret, BearerSecret, CredentialSecret, HeaderSecret
from broker.core.gate import under_key
from broker.core.outcome import Fault, Phase
from broker.core.policy.declarations import CallLimits, Idempotency, IdempotencyKind
from broker.core.secret import Secret
from broker.executors.https import ExecutorError, HttpsExecutor, assert_fast_parser
from broker.executors.https import client as client_module
from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.fakes.https_calls import CANARY, OneSecret, frozen, http, loopback, operation, over_tls, permit
from tests.fakes.upstream import Upstream


async def test_a_good_exchange_is_told_phase_by_phase(executor: HttpsExecutor) -> None:
    async with Upstream(up.respond(body=b'{"a": 1}')) as server:
        raw = await executor.execute(loopback(server.port, body=b"hello"))

    assert (None, 200, b'{"a": 1}', True, True) == (
        raw.fault, raw.status, raw.body, raw.body_complete, raw.body_provable
    )  # fmt: skip
    assert (Phase.RESPONSE_COMPLETE, 5) == (raw.phase, raw.sent_bytes)
    assert list(raw.phase_ms) == [
        "connecting", "connected", "headers_sent", "body_sent", "response_started", "response_complete"
    ]  # fmt: skip
    assert "canary" not in repr(raw)


async def test_the_request_is_the_frozen_one_and_a_few_headers_of_ours(executor: HttpsExecutor) -> None:
    request = frozen(
        method="POST",
        scheme="http",
        host="127.0.0.1",
        port=1,
        path="/a%20b/c",
        query="q=%2F&x",
        headers=(("accept", "application/json"), ("x-two", "1"), ("x-two", "2"), ("content-type", "text/x")),
        body=b"1",
    )
    async with Upstream() as server:
        request = replace(request, port=server.port, url=request.url.replace(":1/", f":{server.port}/"))
        await executor.execute(permit(request))

    head = server.requests[0].head.decode()
    assert head.startswith("POST /a%20b/c?q=%2F&x HTTP/1.1\r\n")
    assert [
        "accept: application/json", "x-two: 1", "x-two: 2", "content-type: text/x"
    ] == [line for line in head.split("\r\n") if line.startswith(("accept:", "x-two", "content-type"))]  # fmt: skip
    assert f"Host: 127.0.0.1:{server.port}\r\n" in head
    assert "user-agent: doorward/0.0.test\r\n" in head
    assert "accept-encoding: gzip\r\n" in head
    assert "Python" not in head


SECRETS: list[tuple[CredentialSecret, str, str]] = [
    (BearerSecret(token=Secret(CANARY)), "authorization", f"Bearer {CANARY}"),
    (BasicSecret(username="ada", password=Secret("canary")), "authorization", "Basic YWRhOmNhbmFyeQ=="),
    (HeaderSecret(header="X-Api-Key", template="key {value}", value=Secret(CANARY)), "x-api-key", f"key {CANARY}"),
]


@pytest.mark.parametrize(("secret", "name", "value"), SECRETS, ids=["bearer", "basic", "header"])
async def test_each_kind_of_credential_is_injected_and_replaces_what_stood_there(
    secrets: OneSecret, executor: HttpsExecutor, secret: CredentialSecret, name: str, value: str
) -> None:
    secrets.secret = secret
    call = loopback(1)
    async with Upstream() as server:
        request = replace(
            http(call),
            headers=((name, "of the agent"), (name, "twice")),
            port=server.port,
            url=f"http://127.0.0.1:{server.port}/things",
        )
        raw = await executor.execute(permit(request))

    lines = [line for line in server.requests[0].head.decode().split("\r\n") if line.lower().startswith(f"{name}:")]
    assert [value] == [line.partition(": ")[2] for line in lines]
    assert raw.fault is None


async def test_without_a_credential_none_is_asked_for(secrets: OneSecret, executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        raw = await executor.execute(loopback(server.port, credential=None))

    assert raw.fault is None
    assert [] == secrets.asked
    assert "authorization" not in server.requests[0].headers


async def test_the_version_of_the_permit_is_the_one_used(secrets: OneSecret, executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        await executor.execute(loopback(server.port, version=7))

    assert [("api", 7)] == secrets.asked


async def test_a_permit_without_a_version_sends_nothing(executor: HttpsExecutor) -> None:
    async with Upstream() as server:
        raw = await executor.execute(permit(http(loopback(server.port)), version=None))

    assert (Fault.INTERNAL, Phase.APPROVED) == (raw.fault, raw.phase)
    assert 0 == server.accepted


async def test_a_store_that_is_locked_meanwhile_sends_nothing() -> None:
    class Locked:
        def secret_of(self, name: str, version: int) -> CredentialSecret:
            raise RuntimeError(f"locked: {name} {version}")

    locked = HttpsExecutor(secrets=Locked(), body_limit_bytes=lambda: 1000, version="0")
    async with Upstream() as server:
        raw = await locked.execute(loopback(server.port))
    await locked.close()

    assert (Fault.INTERNAL, Phase.APPROVED, 0) == (raw.fault, raw.phase, server.accepted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "evil.example.com"),
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("expect", "100-continue"),
        ("proxy-authorization", "Basic x"),
        ("x-split", "a\r\nx-injected: 1"),
        ("x-nul", "a\0b"),
        ("x bad", "1"),
        ("X-Upper", "1"),
        ("x:", "1"),
    ],
)
async def test_a_header_that_may_not_be_sent_stops_the_request(executor: HttpsExecutor, name: str, value: str) -> None:
    async with Upstream() as server:
        call = loopback(server.port)
        raw = await executor.execute(permit(replace(http(call), headers=((name, value),))))

    assert (Fault.INTERNAL, True) == (raw.fault, raw.phase in {Phase.APPROVED, Phase.CONNECTING})
    assert 0 == server.accepted


@pytest.mark.parametrize(
    "changes",
    [
        {"host": "127.0.0.2"},
        {"path": "/other"},
        {"query": "x=1"},
        {"url": "http://user:pass@127.0.0.1:{port}/things"},
        {"url": "http://127.0.0.1:{port}/things#part"},
        {"url": "ftp://127.0.0.1:{port}/things"},
        {"url": "http://127.0.0.1:{port}/a/../things"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_url_that_differs_from_its_parts_sends_nothing(
    executor: HttpsExecutor, changes: dict[str, str]
) -> None:
    async with Upstream() as server:
        call = loopback(server.port)
        spelled = {name: value.replace("{port}", str(server.port)) for name, value in changes.items()}
        raw = await executor.execute(permit(replace(http(call), **spelled)))  # type: ignore[arg-type]  # all text

    assert (Fault.INTERNAL, 0) == (raw.fault, server.accepted)


async def test_a_compressed_answer_is_unpacked_and_counted_unpacked(executor: HttpsExecutor) -> None:
    body = b'{"rows": [' + b"1," * 1000 + b"1]}"
    async with Upstream(up.gzipped(body)) as server:
        raw = await executor.execute(loopback(server.port))

    assert (None, body) == (raw.fault, raw.body)


async def test_members_of_a_gzip_body_are_read_one_after_the_other(executor: HttpsExecutor) -> None:
    async with Upstream(up.gzipped(b"one ", tail=gzip.compress(b"two"))) as server:
        raw = await executor.execute(loopback(server.port))

    assert (None, b"one two") == (raw.fault, raw.body)


async def test_a_body_of_exactly_the_limit_is_whole_and_one_byte_more_is_not(executor: HttpsExecutor) -> None:
    declared = replace(operation(), limits=CallLimits(max_bytes=10))
    async with Upstream(up.respond(body=b"1234567890")) as server:
        fits = await executor.execute(loopback(server.port, method="GET", declared=declared))
    async with Upstream(up.respond(body=b"12345678901")) as server:
        exceeds = await executor.execute(loopback(server.port, method="GET", declared=declared))

    assert (None, b"1234567890", True) == (fits.fault, fits.body, fits.body_complete)
    assert (Fault.TOO_LARGE, b"1234567890", False) == (exceeds.fault, exceeds.body, exceeds.body_complete)


async def test_no_declaration_lifts_the_limit_above_what_is_looked_at(executor: HttpsExecutor) -> None:
    declared = replace(operation(), limits=CallLimits(max_bytes=1 << 30))
    async with Upstream(up.flood) as server:
        raw = await executor.execute(loopback(server.port, method="GET", declared=declared))

    assert (Fault.TOO_LARGE, client_module.MAX_BODY_BYTES) == (raw.fault, len(raw.body))


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body_are_complete(executor: HttpsExecutor, status: int) -> None:
    async with Upstream(up.respond(status, b"", headers=())) as server:
        raw = await executor.execute(loopback(server.port, method="GET"))

    assert (None, status, b"", True, True) == (
        raw.fault, raw.status, raw.body, raw.body_complete, raw.body_provable
    )  # fmt: skip


async def test_the_answer_to_head_has_no_body_whatever_its_length_says(executor: HttpsExecutor) -> None:
    async with Upstream(up.respond(body=b"12345")) as server:
        raw = await executor.execute(loopback(server.port, method="HEAD"))

    assert (None, b"", True, True) == (raw.fault, raw.body, raw.body_complete, raw.body_provable)
    assert ("content-length", "5") in raw.headers


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("POST", 204)])
@pytest.mark.parametrize("coding", ["content-encoding: br", "content-encoding: gzip", "transfer-encoding: gzip"])
async def test_where_there_is_no_body_its_coding_does_not_matter(
    executor: HttpsExecutor, method: str, status: int, coding: str
) -> None:
    """Servers tell of the coding that the body would have had: https://github.com/google/ngx_brotli/issues/108."""
    head = f"HTTP/1.1 {status} Status\r\n{coding}\r\n\r\n".encode()
    async with Upstream(up.raw(head, then="keep")) as server:
        raw = await executor.execute(loopback(server.port, method=method))

    assert (None, status, b"", True, True) == (
        raw.fault, raw.status, raw.body, raw.body_complete, raw.body_provable
    )  # fmt: skip


@pytest.mark.parametrize("coding", ["identity", "gzip, identity", "identity,GZIP", ", gzip"])
async def test_naming_no_coding_beside_one_changes_nothing(executor: HttpsExecutor, coding: str) -> None:
    """Seen in the wild: https://github.com/urllib3/urllib3/pull/5189."""
    packed = b"{}" if coding == "identity" else gzip.compress(b"{}")
    async with Upstream(up.respond(body=packed, headers=(("content-encoding", coding),))) as server:
        raw = await executor.execute(loopback(server.port))

    assert (None, b"{}") == (raw.fault, raw.body)


@pytest.mark.parametrize("coding", [b"", b"transfer-encoding: identity\r\n", b"transfer-encoding:\r\n"])
async def test_a_body_that_only_the_end_delimits_is_not_provably_whole(executor: HttpsExecutor, coding: bytes) -> None:
    async with Upstream(up.raw(b"HTTP/1.1 200 OK\r\n" + coding + b"\r\nwho knows whether this is all")) as server:
        raw = await executor.execute(loopback(server.port))

    assert (None, False, True) == (raw.fault, raw.body_provable, raw.body_complete)


async def test_interim_answers_are_passed_over(executor: HttpsExecutor) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    async with Upstream(up.raw(interim, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")) as server:
        raw = await executor.execute(loopback(server.port))

    assert (None, 200, b"ok") == (raw.fault, raw.status, raw.body)


async def test_header_values_are_text_in_either_encoding_and_repeated_ones_stay_apart(executor: HttpsExecutor) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: \xc3\xa9\r\nX-A: \xe9\r\ncontent-length: 0\r\n\r\n"
    async with Upstream(up.raw(head)) as server:
        raw = await executor.execute(loopback(server.port))

    assert [("x-a", "é"), ("x-a", "é")] == [pair for pair in raw.headers if pair[0] == "x-a"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_redirect_is_followed(executor: HttpsExecutor, status: int, method: str) -> None:
    async with Upstream() as elsewhere:
        location = f"http://127.0.0.1:{elsewhere.port}/stolen"
        async with Upstream(up.respond(status, b"", headers=(("location", location),))) as server:
            raw = await executor.execute(loopback(server.port, method=method))

    assert (None, status) == (raw.fault, raw.status)
    assert (1, 0) == (len(server.requests), elsewhere.accepted)


async def test_proxies_and_netrc_of_the_environment_are_ignored(
    executor: HttpsExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login canary password canary\n")
    file.chmod(0o600)
    assert netrc.netrc(str(file)).authenticators("127.0.0.1")
    monkeypatch.setenv("NETRC", str(file))
    async with Upstream() as proxy, Upstream() as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await executor.execute(loopback(server.port, credential=None))

    assert (0, 1) == (proxy.accepted, len(server.requests))
    assert "authorization" not in server.requests[0].headers


async def test_cookies_are_not_kept(executor: HttpsExecutor) -> None:
    async with Upstream(up.respond(headers=(("set-cookie", "session=canary; Path=/"),))) as server:
        await executor.execute(loopback(server.port))
        await executor.execute(loopback(server.port))

    assert 2 == len(server.requests)
    assert "cookie" not in server.requests[1].headers


async def test_cancelling_closes_the_connection(executor: HttpsExecutor) -> None:
    async with Upstream(paths={"/things": up.silence}) as server:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(executor.execute(loopback(server.port)))
            while not server.requests:  # noqa: ASYNC110 - the fake server has no event for it
                await asyncio.sleep(0.005)
            running.cancel()
        assert running.cancelled()
        raw = await executor.execute(loopback(server.port, path="/good"))

    assert raw.fault is None
    assert [1, 2] == [seen.connection for seen in server.requests]


async def test_a_declared_write_by_tls_works_end_to_end(executor: HttpsExecutor, authority: Authority) -> None:
    async with Upstream(up.respond(201, b'{"id": "1"}'), tls=authority.server()) as server:
        raw = await executor.execute(over_tls(server.port, authority.pem, body=b"{}"))

    assert (None, 201) == (raw.fault, raw.status)
    assert f"Bearer {CANARY}" == server.requests[0].headers["authorization"]


def test_the_fast_parser_is_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_fast_parser()
    monkeypatch.setattr(client_module, "HttpResponseParser", aiohttp.http_parser.HttpResponseParserPy)
    with pytest.raises(ExecutorError, match="C extensions"):
        assert_fast_parser()


def test_effects_play_no_part_here() -> None:
    assert Effect.WRITE is loopback(1).frozen.effect


async def test_a_key_of_the_brokers_goes_with_the_request_and_without_it_nothing_goes(executor: HttpsExecutor) -> None:
    rules = Idempotency(kind=IdempotencyKind.KEY, header="idempotency-key", window_s=60)
    declared = replace(operation(method="POST", effect=Effect.WRITE), idempotency=rules)
    async with Upstream() as server:
        request = replace(http(loopback(server.port, body=b"x")), method="POST", declared=declared, effect=Effect.WRITE)
        bare = await executor.execute(permit(request))
        await executor.execute(under_key(permit(request), "dw-1"))

    assert Fault.INTERNAL is bare.fault
    assert ["dw-1"] == [seen.headers["idempotency-key"] for seen in server.requests]


async def test_a_key_that_is_an_argument_goes_in_the_body_and_counts_for_nothing(executor: HttpsExecutor) -> None:
    rules = Idempotency(kind=IdempotencyKind.KEY, param="token", window_s=60)
    declared = replace(operation(method="POST", effect=Effect.WRITE), idempotency=rules, body=("n", "token"))
    bodies: list[bytes] = []

    async def keep(talk: up.Conversation) -> None:
        bodies.append(await talk.body())
        await talk.send(b"HTTP/1.1 201 C\r\ncontent-length: 0\r\n\r\n")

    async with Upstream(keep) as server:
        request = http(loopback(server.port, body=b'{"n":1}', declared=declared))
        request = replace(request, effect=Effect.WRITE, args={"n": 1})
        bare = await executor.execute(permit(request))
        raw = await executor.execute(under_key(permit(request), "dw-1"))

    assert (Fault.INTERNAL, Phase.APPROVED) == (bare.fault, bare.phase)
    assert [b'{"n":1,"token":"dw-1"}'] == bodies
    assert (None, 201, len(request.body)) == (raw.fault, raw.status, raw.sent_bytes)

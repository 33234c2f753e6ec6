"""What the kinds of credential add on the wire, as a server sees it: parameters, cookies, signatures."""

import hashlib
from dataclasses import replace
from datetime import datetime
from urllib.parse import parse_qsl

import pytest

from broker.core.frozen import FrozenRequest
from broker.core.http_secrets import CookieSecret, QuerySecret, SigV4Secret
from broker.core.outcome import Fault, Phase
from broker.core.secret import Secret
from broker.core.sigv4 import ToSign, sign
from broker.executors.https import HttpsExecutor
from tests.fakes.https_calls import OneSecret, frozen, permit
from tests.fakes.upstream import Upstream

VALUE = "canary value+/&=%ü"
AWS = SigV4Secret(
    access_key_id="AKIACANARY",
    secret_access_key=Secret("canary/aws+0123456789abcdefghijklmn"),
    session_token=Secret("canary-session-token=="),
    region="eu-west-3",
    aws_service="s3",
)


def to(server: Upstream, **more: object) -> FrozenRequest:
    made = frozen(method="PUT", scheme="http", host="127.0.0.1", port=1, **more)  # type: ignore[arg-type]
    return replace(made, port=server.port, url=made.url.replace(":1/", f":{server.port}/"))


@pytest.mark.parametrize("query", ["", "a=1&b=%2F", "api_key=mine&a=1", "API%5Fkey=mine"])
async def test_a_query_credential_is_the_only_parameter_of_its_name(
    secrets: OneSecret, executor: HttpsExecutor, query: str
) -> None:
    secrets.secret = QuerySecret(parameter="api_key", value=Secret(VALUE))
    async with Upstream() as server:
        raw = await executor.execute(permit(to(server, query=query)))

    path = server.requests[0].head.decode().split(" ")[1]
    sent = [(name, value) for name, value in parse_qsl(path.partition("?")[2])]
    assert [VALUE] == [value for name, value in sent if name.casefold() == "api_key"]
    assert [pair for pair in parse_qsl(query) if pair[0].casefold() != "api_key"] == sent[:-1]
    assert raw.fault is None


async def test_a_cookie_credential_is_the_whole_cookie_header(secrets: OneSecret, executor: HttpsExecutor) -> None:
    secrets.secret = CookieSecret(cookie="sid", value=Secret("canary-cookie-value"))
    async with Upstream() as server:
        await executor.execute(permit(to(server)))
        await executor.execute(permit(to(server)))

    assert [{"cookie: sid=canary-cookie-value"}] * 2 == [
        {line.lower() for line in seen.head.decode().split("\r\n") if line.lower().startswith("cookie:")}
        for seen in server.requests
    ]


@pytest.mark.parametrize("body", [b"", b"some body"])
async def test_a_signature_covers_what_is_sent(secrets: OneSecret, executor: HttpsExecutor, body: bytes) -> None:
    secrets.secret = AWS
    headers = (("x-amz-meta-a", "b"), ("content-type", "text/plain"))
    async with Upstream() as server:
        request = to(server, path="/bucket/a%20key", query="list-type=2&x", body=body, headers=headers)
        raw = await executor.execute(permit(request))

    seen = server.requests[0].headers
    at = datetime.strptime(f"{seen['x-amz-date']}+0000", "%Y%m%dT%H%M%SZ%z")
    expected = sign(
        AWS,
        ToSign(
            method="PUT",
            host=f"127.0.0.1:{server.port}",
            path="/bucket/a%20key",
            query="list-type=2&x",
            headers=(("host", f"127.0.0.1:{server.port}"), *headers),
            body_sha256=hashlib.sha256(body).hexdigest(),
        ),
        now=at,
    )
    assert {name.lower(): value.reveal().decode() for name, value in expected.headers}.items() <= seen.items()
    assert expected.derived == raw.derived
    assert "canary" not in repr(raw)


async def test_a_signature_that_was_brought_along_gives_way(secrets: OneSecret, executor: HttpsExecutor) -> None:
    secrets.secret = AWS
    brought = (("x-amz-date", "20000101T000000Z"), ("x-amz-security-token", "of the agent"))
    async with Upstream() as server:
        await executor.execute(permit(to(server, headers=brought)))

    head = server.requests[0].head.decode().lower()
    assert 1 == head.count("x-amz-date: ")
    assert "of the agent" not in head


async def test_a_host_that_tells_no_region_sends_nothing(secrets: OneSecret, executor: HttpsExecutor) -> None:
    secrets.secret = replace(AWS, region=None)
    async with Upstream() as server:
        raw = await executor.execute(permit(to(server)))

    assert (Fault.INTERNAL, Phase.CONNECTED, 0) == (raw.fault, raw.phase, len(server.requests))

"""Redirects come back typed. Whatever kind of credential it is, nothing of it reaches the place they name.

A declared read is followed on its own origin alone, however the place is spelled.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.credential import (
    BearerSecret,
    CookieSecret,
    CredentialSecret,
    HeaderSecret,
    QuerySecret,
    SigV4Secret,
)
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.policy.declarations import Follow, Redirect
from broker.core.redirects import next_hop
from broker.core.secret import Secret
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.answers import classified
from tests.fakes.authority import Authority
from tests.fakes.https_calls import CANARY, OneSecret, frozen, http, operation, over_tls
from tests.fakes.upstream import Upstream

AUTHORITY = Authority()
SECRETS: list[CredentialSecret] = [
    BearerSecret(token=Secret(CANARY)),
    HeaderSecret(header="X-Api-Key", template="{value}", value=Secret(CANARY)),
    QuerySecret(parameter="key", value=Secret(CANARY)),
    CookieSecret(cookie="sid", value=Secret(CANARY)),
    SigV4Secret(access_key_id="AKIACANARY", secret_access_key=Secret(CANARY), region="eu-west-3", aws_service="s3"),
]


@pytest.mark.parametrize("secret", SECRETS, ids=["bearer", "custom header", "query", "cookie", "sigv4"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_reported_and_not_followed(status: int, method: str, secret: CredentialSecret) -> None:
    executor = HttpsExecutor(secrets=OneSecret(secret), body_limit_bytes=lambda: 1000, version="0")
    async with Upstream(tls=AUTHORITY.server()) as elsewhere:
        for place in (f"https://localhost:{elsewhere.port}/", "/same-origin", f"http://127.0.0.1:{elsewhere.port}/"):
            behaviour = up.respond(status, b"", headers=(("location", place),))
            async with Upstream(behaviour, tls=AUTHORITY.server()) as server:
                permit = over_tls(server.port, AUTHORITY.pem, method=method)
                raw = await executor.execute(permit)
                verdict = classified(http(permit), raw).verdict
            assert (None, 1) == (raw.fault, len(server.requests))
            assert (Category.CONFIRMED_FAILURE, "redirect_not_followed", Retry.NEVER) == (
                verdict.category, verdict.code, verdict.retry
            )  # fmt: skip
            may_follow_a_change = status == 303 and method == "POST"
            assert (RemoteEffect.UNKNOWN if may_follow_a_change else RemoteEffect.NONE) is verdict.remote_effect
    await executor.close()

    assert (0, 0) == (elsewhere.accepted, elsewhere.bytes_received)


async def test_a_certificate_that_fails_gets_nothing_of_it_either() -> None:
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 1000, version="0")
    async with Upstream(tls=AUTHORITY.server(names=("other.example.com",))) as server:
        raw = await executor.execute(over_tls(server.port, AUTHORITY.pem, body=b"canary"))
    await executor.close()

    assert (Fault.TLS_NAME, 0, []) == (raw.fault, server.bytes_received, server.requests)


FOLLOWING = frozen(
    host="api.bank.example",
    path="/v1/x",
    declared=replace(operation(), redirect=Redirect(follow=Follow.SAME_HOST_GET_ONLY)),
)
BEGINNINGS = [
    "",
    "https://",
    "HTTPS://",
    "http://",
    "https:",
    "//",
    "///",
    "\\\\",
    "https:\\\\",
    "ftp://",
    "javascript:",
]
HOSTS = [
    "", "api.bank.example", "API.BANK.EXAMPLE", "api.bank.example.", "api.bank.example:443", "evil.example",
    "api.bank.example@evil.example", "evil.example#@api.bank.example", "evil.example\\@api.bank.example",
    "api.bank.example:8443", "u:p@api.bank.example", "\uff41pi.bank.example", "[::1]", "127.0.0.1", "..", "%2e%2e",
]  # fmt: skip
ENDS = ["", "/", "/v1/y", "/a/../b", "/%2e%2e/b", "/a//b", "?q=//evil.example", "#x", "/\t", "/\r\nx: y"]
PLACES = st.builds("".join, st.tuples(*map(st.sampled_from, (BEGINNINGS, HOSTS, ENDS))))


@settings(max_examples=400)
@given(place=PLACES, status=st.sampled_from([301, 302, 303, 307, 308]))
def test_a_redirect_that_is_followed_stays_on_its_origin(place: str, status: int) -> None:
    raw = RawOutcome(phase=Phase.RESPONSE_COMPLETE, status=status, headers=(("location", place),), body_complete=True)
    hop = next_hop(FOLLOWING, raw)

    if hop is not None:
        for reading in (URL(hop.url), URL(hop.url, encoded=True)):
            assert ("https", "api.bank.example", 443) == (reading.scheme, reading.raw_host, reading.port)
            assert hop.path == reading.raw_path
        assert (hop.host, hop.port, hop.method, hop.body) == ("api.bank.example", 443, "GET", b"")
        assert not {"\r", "\n", "\\"} & set(hop.url)

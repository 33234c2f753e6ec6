"""Redirects come back typed. Whatever kind of credential it is, nothing of it reaches the place they name."""

import pytest

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.credential import (
    BearerSecret,
    CookieSecret,
    CredentialSecret,
    HeaderSecret,
    QuerySecret,
    SigV4Secret,
)
from broker.core.outcome import Fault
from broker.core.secret import Secret
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.answers import classified
from tests.fakes.authority import Authority
from tests.fakes.https_calls import CANARY, OneSecret, http, over_tls
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

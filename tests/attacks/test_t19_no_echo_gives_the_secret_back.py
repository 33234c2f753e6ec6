"""An upstream that gives the credential back, in its headers and its body, in whatever spelling."""

import base64
import json
from urllib.parse import quote

import pytest

from broker.core.credential import BasicSecret, BearerSecret, CredentialSecret
from broker.core.scrub import scrub
from broker.core.secret import Secret
from broker.core.secret_set import secret_set
from broker.executors.https import HttpsExecutor
from tests.fakes.answers import classified
from tests.fakes.https_calls import OneSecret, http, loopback
from tests.fakes.upstream import Conversation, Upstream

TOKEN = "canary/tok+en=0123456789&abc"
BEARER = BearerSecret(token=Secret(TOKEN))
BASIC = BasicSecret(username="ada-lovelace", password=Secret("canary pass-word/12345"))


async def echo(talk: Conversation) -> None:
    """What came in the Authorization header, in many spellings."""
    await talk.body()
    value = talk.seen.headers["authorization"]
    token = value.partition(" ")[2]
    plain = base64.b64decode(token).decode() if value.startswith("Basic ") else token
    parts = plain.split(":", 1)
    spellings = [value, plain, *parts]
    body = {
        "raw": spellings,
        "percent": [quote(one, safe="") for one in spellings],
        "twice": [quote(quote(one, safe=""), safe="") for one in spellings],
        "base64": [base64.b64encode(b"x" * shift + one.encode()).decode() for one in spellings for shift in range(3)],
        "urlsafe": [base64.urlsafe_b64encode(one.encode()).decode().rstrip("=") for one in spellings],
        "hex": [one.encode().hex() for one in spellings],
        "json": [json.dumps(one) for one in spellings],
    }
    data = json.dumps(body).replace("/", "\\/").encode()
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    head += f"x-request-id: {value}\r\netag: {quote(plain, safe='')}\r\n"
    await talk.send(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


@pytest.mark.parametrize("secret", [BEARER, BASIC], ids=["bearer", "basic"])
async def test_an_echo_of_the_credential_does_not_reach_the_agent(secret: CredentialSecret) -> None:
    executor = HttpsExecutor(secrets=OneSecret(secret), body_limit_bytes=lambda: 262_144, version="0")
    async with Upstream(echo) as server:
        permit = loopback(server.port, method="GET")
        raw = await executor.execute(permit)
    await executor.close()
    outcome = scrub(classified(http(permit), raw), secret_set(secret))

    assert outcome.answer is not None
    assert outcome.hits > 0
    shown = json.dumps(outcome.answer.to_json())
    for value in (TOKEN, "canary", "ada-lovelace"):
        assert value not in shown
        assert value.encode().hex() not in shown
        for shift in range(3):
            assert base64.b64encode(b"x" * shift + value.encode()).decode()[4:-4] not in shown or len(value) < 8

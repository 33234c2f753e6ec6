"""T13: the host that policy reads, that is dialled, that TLS names and that the request carries is one and the same.

Over odd forms: case, trailing dots, ports, user info, international names, absolute forms, encoded separators.
"""

import ssl
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from broker.core.credential import covers_url, parse_binding
from broker.core.frozen import FrozenRequest
from broker.core.policy.match import facts_of
from broker.core.policy.model import Tls
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.executors.https import HttpsExecutor
from tests.fakes.authority import Authority
from tests.fakes.https_calls import OneSecret, permit
from tests.fakes.policies import policy_of
from tests.fakes.upstream import Upstream

AUTHORITY = Authority()

POLICY = policy_of(
    """
[services.bank]
kind = "http"
base_url = "https://api.bank.example/v1"
credential = "bank"
ad_hoc = ["GET", "POST", "DELETE"]

[services.local]
kind = "http"
base_url = "http://127.0.0.1:8080"
ad_hoc = ["GET"]
"""
)
BINDING = parse_binding("https://api.bank.example")

HOSTS = st.sampled_from(
    [
        "api.bank.example", "API.Bank.EXAMPLE", "api.bank.example.", "api.bank.example:443", "api.bank.example:0443",
        "api.bank.example:8443", "user@api.bank.example", "api.bank.example@evil.example", "evil.example",
        "evil.example#api.bank.example", "evil.example\\@api.bank.example", "api.bank.example\\.evil.example",
        "api.bank.example%2eevil.example", "api.bank.example%00.evil.example", "api.bank.example\t",
        "api.bank.example\r\n",
        "api\uff0ebank.example", "\uff41pi.bank.example", "xn--pi-7ka.bank.example", "api.bank.example\u3002",
        "127.0.0.1:8080",
        "127.1:8080", "2130706433:8080", "0x7f.1:8080", "0177.0.0.1:8080", "[::ffff:127.0.0.1]:8080", "[::1]:8080", "",
    ]
)  # fmt: skip
PATHS = st.sampled_from(
    [
        "", "/", "/v1", "/v1/", "/v1/x", "/V1/x", "/v1/../x", "/v1/%2e%2e/x", "/v1/..%2fx", "/v1//evil.example",
        "//evil.example/v1",
        "/v1/x?u=https://evil.example", "/v1/x#@evil.example", "/v1\\x", "/v1;x", "/v1/..;/x", "/v10/x", "/v1/%5cx",
        "/v1/https://evil.example", "/@evil.example/v1",
    ]
)  # fmt: skip
SCHEMES = st.sampled_from(
    ["https://", "HTTPS://", "http://", "https:/", "//", "https:\\\\", "ftp://", "https://https://"]
)


def _is_consistent(frozen: FrozenRequest) -> None:
    service = frozen.service
    for reading in (URL(frozen.url), URL(frozen.url, encoded=True)):
        assert (service.scheme, service.host, service.port) == (reading.scheme, reading.raw_host, reading.port)
        assert frozen.path == reading.raw_path
        assert frozen.url == str(reading)
    assert (service.host, service.port) == (frozen.host, frozen.port)
    assert facts_of("any", frozen).host == service.host
    assert frozen.url.startswith(f"{service.base_url}/") or frozen.url.partition("?")[0] == service.base_url
    assert "host" not in dict(frozen.headers)
    if service.credential is not None:
        assert covers_url(BINDING, frozen.url)


@settings(max_examples=400)
@given(scheme=SCHEMES, host=HOSTS, path=PATHS, method=st.sampled_from(["GET", "POST", "DELETE"]))
def test_whatever_the_form_of_a_url_all_readings_name_one_host(scheme: str, host: str, path: str, method: str) -> None:
    resolved = resolve(POLICY, HttpAsk(method=method, url=scheme + host + path))

    if isinstance(resolved, FrozenRequest):
        _is_consistent(resolved)
    else:
        assert resolved.code in {"bad_url", "unknown_service"}


@settings(max_examples=400)
@given(path=PATHS | st.text(max_size=20).map("/".__add__), query=st.text(max_size=10))
def test_whatever_the_form_of_a_path_the_host_stays_the_services(path: str, query: str) -> None:
    resolved = resolve(POLICY, HttpAsk(service="bank", method="GET", path=path, query=(("q", query),)))

    if isinstance(resolved, FrozenRequest):
        _is_consistent(resolved)
    else:
        assert resolved.code in {"bad_url", "schema"}


@pytest.mark.parametrize(
    "url",
    [
        "https://api.bank.example@evil.example/v1/x",
        "https://evil.example\\@api.bank.example/v1/x",
        "https://api.bank.example.evil.example/v1/x",
        "https://api.bank.example./v1/x",
        "https://api.bank.example%2f@evil.example/v1/x",
        "https://\uff41pi.bank.example/v1/x",
        "https://api.bank.example:443@evil.example/v1/x",
        "https://api.bank.example/v1/../../evil",
        "https://api.bank.example/v1%2f..%2fadmin",
        "http://api.bank.example/v1/x",
    ],
)
def test_a_known_trick_reaches_no_service(url: str) -> None:
    assert isinstance(resolve(POLICY, HttpAsk(method="GET", url=url)), Invalid)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "[::ffff:7f00:1]"])
def test_another_spelling_of_an_address_is_not_that_address(host: str) -> None:
    assert isinstance(resolve(POLICY, HttpAsk(method="GET", url=f"http://{host}:8080/x")), Invalid)


FORMS = ["localhost", "LOCALHOST", "LocalHost", "localhost.", "localhost:0{port}", "user@localhost", "localhost%2e",
         "\uff4cocalhost", "localhost\t", "loc\u00adalhost", "localhost\u3002", "127.1", "[::1]"]  # fmt: skip


async def test_on_the_wire_it_is_one_as_well_however_it_was_spelled() -> None:
    """What the resolver is asked, what TLS names and what the request carries, over every form that gets there."""
    identity, named, asked, carried = AUTHORITY.server(names=("localhost",)), set(), set(), set()

    def name(_: ssl.SSLObject, told: str | None, __: ssl.SSLContext) -> None:
        named.add(told)

    async def lookup(host: str, port: int) -> Sequence[str]:
        asked.add((host, port))
        return ["127.0.0.1"]

    identity.context.sni_callback = name
    async with Upstream(tls=identity) as server:
        policy = policy_of(
            f'[services.s]\nkind = "http"\nbase_url = "https://localhost:{server.port}"\nad_hoc = ["GET"]\n'
        )
        executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 1000, version="0", lookup=lookup)
        arrived = 0
        for form in FORMS:
            host = form.format(port=server.port) if "{port}" in form else f"{form}:{server.port}"
            found = resolve(policy, HttpAsk(method="GET", url=f"https://{host}/x"))
            if isinstance(found, FrozenRequest):
                found = replace(found, service=replace(found.service, tls=Tls(ca_pem=AUTHORITY.pem)))
                raw = await executor.execute(permit(found))
                assert 200 == raw.status, (form, raw)
                arrived += 1
        carried = {seen.headers["host"] for seen in server.requests}
        await executor.close()

    assert arrived >= 2
    assert arrived == len(server.requests)
    assert {"localhost"} == named
    assert {("localhost", server.port)} == asked
    assert {f"localhost:{server.port}"} == carried

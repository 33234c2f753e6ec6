"""No plain HTTP but to loopback; proxies, netrc and cookies play no part."""

from pathlib import Path

import pytest

from broker.core.outcome import Fault, Phase
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.fakes.https_calls import CANARY, OneSecret, frozen, over_tls, permit
from tests.fakes.upstream import Upstream

AUTHORITY = Authority()


@pytest.mark.parametrize("host", ["api.example.com", "10.0.0.5", "nas.lan", "8.8.8.8", "169.254.169.254"])
async def test_plain_http_goes_to_loopback_and_nowhere_else(host: str) -> None:
    async def everything_is_here(name: str, port: int) -> list[str]:
        raise AssertionError(f"{name}:{port} must not even be looked up")

    secrets = OneSecret()
    executor = HttpsExecutor(secrets=secrets, body_limit_bytes=lambda: 1000, version="0", lookup=everything_is_here)
    raw = await executor.execute(permit(frozen(scheme="http", host=host, port=80)))
    await executor.close()

    assert (Fault.ADDRESS_REFUSED, Phase.APPROVED) == (raw.fault, raw.phase)


async def test_the_environment_chooses_no_way_and_adds_no_credential(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "netrc"
    file.write_text("machine localhost login canary password canary\n")
    monkeypatch.setenv("NETRC", str(file))
    async with (
        Upstream() as proxy,
        Upstream(up.respond(headers=(("set-cookie", "a=b"),)), tls=AUTHORITY.server()) as server,
    ):
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 1000, version="0")
        for _ in range(2):
            await executor.execute(over_tls(server.port, AUTHORITY.pem))
        await executor.close()

    assert (0, 2) == (proxy.accepted, len(server.requests))
    assert [f"Bearer {CANARY}"] * 2 == [seen.headers["authorization"] for seen in server.requests]
    assert not any("cookie" in seen.headers for seen in server.requests)

"""Before a connection is up: names, addresses, TLS. Nothing is sent, and each reason is told apart."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from broker.core.outcome import Fault, Phase, RawOutcome
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.fakes.https_calls import OneSecret, frozen, loopback, over_tls, permit
from tests.fakes.upstream import Upstream


class Names:
    """A resolver that says what it is told, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(f"{host}:{port}")
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return answer


@pytest.fixture
def names() -> Names:
    return Names(())


@pytest.fixture
async def resolving(names: Names, secrets: OneSecret) -> AsyncIterator[HttpsExecutor]:
    made = HttpsExecutor(secrets=secrets, body_limit_bytes=lambda: 1000, version="0", lookup=names)
    yield made
    await made.close()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full, so that nothing answers a new one."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port: int = listening.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)  # noqa: FBT003 - the socket module's own signature
            filler.connect_ex(("127.0.0.1", port))
        yield port
        for filler in fillers:
            filler.close()


def unsent(raw: RawOutcome) -> tuple[Fault | None, bool, int | None, int]:
    return raw.fault, raw.phase in {Phase.APPROVED, Phase.CONNECTING}, raw.status, raw.sent_bytes


async def test_an_unknown_name_is_a_dns_fault(resolving: HttpsExecutor) -> None:
    raw = await resolving.execute(permit(frozen(host="no-such-host.example.com")))

    assert (Fault.DNS_FAILED, True, None, 0) == unsent(raw)


async def test_the_system_resolver_reports_unknown_names_too(executor: HttpsExecutor) -> None:
    raw = await executor.execute(permit(frozen(host="canary-no-such-host.invalid")))

    assert (Fault.DNS_FAILED, True, None, 0) == unsent(raw)


async def test_a_closed_port_is_a_refusal(executor: HttpsExecutor, closed_port: int) -> None:
    assert (Fault.CONNECT_REFUSED, True, None, 0) == unsent(await executor.execute(loopback(closed_port)))


async def test_a_silent_port_runs_into_the_connect_deadline(executor: HttpsExecutor, full_port: int) -> None:
    raw = await executor.execute(loopback(full_port, body=b"x"))

    assert (Fault.CONNECT_TIMEOUT, True, None, 0) == unsent(raw)
    assert 350 <= raw.elapsed_ms < 15_000


async def test_a_name_server_that_hangs_runs_into_the_connect_deadline(secrets: OneSecret) -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        del host, port
        await asyncio.Event().wait()
        return ()

    executor = HttpsExecutor(secrets=secrets, body_limit_bytes=lambda: 1000, version="0", lookup=hang)

    assert (Fault.CONNECT_TIMEOUT, True, None, 0) == unsent(await executor.execute(permit(frozen())))
    await executor.close()


@pytest.mark.parametrize("kind", ["untrusted", "another name", "expired"])
async def test_certificates_are_refused_each_for_its_reason_and_nothing_is_sent(
    executor: HttpsExecutor, authority: Authority, kind: str
) -> None:
    fault = {"untrusted": Fault.TLS_UNTRUSTED, "another name": Fault.TLS_NAME, "expired": Fault.TLS_EXPIRED}[kind]
    names = ("other.example.com",) if kind == "another name" else ("localhost",)
    async with Upstream(tls=authority.server(names=names, expired=kind == "expired")) as server:
        ca_pem = None if kind == "untrusted" else authority.pem
        raw = await executor.execute(over_tls(server.port, ca_pem, body=b"canary"))

    assert (fault, True, None, 0) == unsent(raw)
    assert (0, []) == (server.bytes_received, server.requests)


async def test_an_address_in_the_certificate_is_needed_for_an_address_in_the_url(
    executor: HttpsExecutor, authority: Authority
) -> None:
    async with Upstream(tls=authority.server(names=("localhost",))) as server:
        wrong = await executor.execute(over_tls(server.port, authority.pem, host="127.0.0.1"))
    async with Upstream(tls=authority.server(addresses=("127.0.0.1",))) as server:
        right = await executor.execute(over_tls(server.port, authority.pem, host="127.0.0.1"))

    assert (Fault.TLS_NAME, None) == (wrong.fault, right.fault)


async def test_a_peer_that_speaks_no_tls_is_a_tls_fault(executor: HttpsExecutor, authority: Authority) -> None:
    async with Upstream(up.raw(b"HTTP/1.1 400 Bad\r\n\r\n", read_body=False)) as server:
        raw = await executor.execute(over_tls(server.port, authority.pem))

    assert raw.fault in {Fault.TLS_FAILED, Fault.CONNECT_FAILED, Fault.CONNECT_TIMEOUT}
    assert (True, None, 0) == unsent(raw)[1:]


async def test_a_stalled_handshake_runs_into_the_connect_deadline(
    executor: HttpsExecutor, authority: Authority
) -> None:
    async with Upstream(up.silence) as server:
        raw = await executor.execute(over_tls(server.port, authority.pem))

    assert (Fault.CONNECT_TIMEOUT, True, None, 0) == unsent(raw)


async def test_the_pinned_key_is_accepted_and_another_one_is_not(executor: HttpsExecutor, authority: Authority) -> None:
    identity = authority.server()
    async with Upstream(tls=identity) as server:
        right = await executor.execute(over_tls(server.port, authority.pem, pin=identity.pin))
        before = server.bytes_received
        wrong = await executor.execute(over_tls(server.port, authority.pem, pin="sha256:" + "0" * 64))
        after = server.bytes_received

    assert (None, 200) == (right.fault, right.status)
    assert (Fault.TLS_UNTRUSTED, True, None, 0) == unsent(wrong)
    assert before == after


@pytest.mark.parametrize(
    ("ca_pem", "pin"), [("no certificate", None), ("", "sha256:short"), (None, "0" * 64)], ids=["CA", "both", "pin"]
)
async def test_unreadable_trust_settings_send_nothing(
    executor: HttpsExecutor, ca_pem: str | None, pin: str | None
) -> None:
    raw = await executor.execute(over_tls(1, ca_pem, pin=pin))

    assert (Fault.INTERNAL, True, None, 0) == unsent(raw)


async def test_tls_session_keys_are_written_nowhere(
    executor: HttpsExecutor,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path_factory.mktemp("keys") / "keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(file))
    async with Upstream(tls=authority.server()) as server:
        raw = await executor.execute(over_tls(server.port, authority.pem))

    assert raw.fault is None
    assert not file.exists()

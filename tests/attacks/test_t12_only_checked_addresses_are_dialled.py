"""A name is resolved once per connection, every address is checked, and only checked ones are dialled."""

from collections.abc import AsyncIterator, Sequence

import pytest

from broker.core.outcome import Fault, Phase
from broker.executors.https import HttpsExecutor
from tests.fakes.authority import Authority
from tests.fakes.https_calls import OneSecret, frozen, over_tls, permit
from tests.fakes.upstream import Upstream

AUTHORITY = Authority()


class Flipping:
    """A resolver that answers differently each time; the last answer stays."""

    def __init__(self) -> None:
        self.answers: list[Sequence[str]] = []
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        del host, port
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


@pytest.fixture
def names() -> Flipping:
    return Flipping()


@pytest.fixture
async def executor(names: Flipping) -> AsyncIterator[HttpsExecutor]:
    made = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: 1000, version="0", lookup=names)
    yield made
    await made.close()


REFUSED = [
    ("api.example.com", ["127.0.0.1"]),
    ("api.example.com", ["::1"]),
    ("api.example.com", ["10.0.0.5"]),
    ("api.example.com", ["169.254.169.254"]),
    ("api.example.com", ["fd00:ec2::254"]),
    ("api.example.com", ["93.184.216.34", "169.254.169.254"]),
    ("api.example.com", ["::ffff:127.0.0.1"]),
    ("api.example.com", ["64:ff9b::7f00:1"]),
    ("api.example.com", ["2002:7f00:1::"]),
    ("git.internal", ["169.254.169.254"]),
    ("git.internal", ["127.0.0.1"]),
    ("localhost", ["10.0.0.5"]),
    ("localhost", ["93.184.216.34"]),
    ("localhost", ["127.0.0.1", "169.254.169.254"]),
]


@pytest.mark.parametrize(("host", "addresses"), REFUSED)
async def test_a_name_that_leads_where_it_may_not_is_refused_as_a_whole(
    executor: HttpsExecutor, names: Flipping, host: str, addresses: list[str]
) -> None:
    names.answers = [addresses]
    async with Upstream(tls=AUTHORITY.server(names=(host,))) as server:
        raw = await executor.execute(over_tls(server.port, AUTHORITY.pem, host=host))

    assert (Fault.ADDRESS_REFUSED, Phase.CONNECTING) == (raw.fault, raw.phase)
    assert (1, 0) == (names.asked, server.accepted)


LITERALS = [
    "169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "0.0.0.0",  # noqa: S104
    "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost.", "127.0.0.1.",
]  # fmt: skip


@pytest.mark.parametrize("host", LITERALS)
async def test_literal_and_odd_hosts_lead_nowhere(executor: HttpsExecutor, names: Flipping, host: str) -> None:
    names.answers = [["127.0.0.1"]]
    async with Upstream() as server:
        raw = await executor.execute(permit(frozen(host=host, port=server.port)))

    assert raw.fault in {Fault.ADDRESS_REFUSED, Fault.INTERNAL}
    assert Phase.APPROVED is raw.phase
    assert (0, 0) == (names.asked, server.accepted)


async def test_a_flipping_resolver_is_asked_once_per_connection_and_gains_nothing(
    executor: HttpsExecutor, names: Flipping
) -> None:
    names.answers = [["127.0.0.1"], ["169.254.169.254"]]
    async with Upstream(tls=AUTHORITY.server()) as server:
        first = await executor.execute(over_tls(server.port, AUTHORITY.pem))
        kept = await executor.execute(over_tls(server.port, AUTHORITY.pem))
        asked_for_one_connection = names.asked
        server.hang_up()
        flipped = await executor.execute(over_tls(server.port, AUTHORITY.pem))

    assert (None, None, 1) == (first.fault, kept.fault, asked_for_one_connection)
    assert (Fault.ADDRESS_REFUSED, 2, 1) == (flipped.fault, names.asked, server.accepted)


async def test_of_several_good_addresses_the_next_is_tried(executor: HttpsExecutor, names: Flipping) -> None:
    names.answers = [["127.0.0.2", "127.0.0.1"]]
    async with Upstream(tls=AUTHORITY.server()) as server:
        raw = await executor.execute(over_tls(server.port, AUTHORITY.pem))

    assert (None, 1, 1) == (raw.fault, names.asked, server.accepted)

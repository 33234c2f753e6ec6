"""SSH and jump addresses: resolved once, all of them checked, and only checked ones dialled (also T44)."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import pytest

from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import SshFault, SshPhase
from broker.executors.ssh import SshExecutor
from tests.fakes.ssh_calls import QUICK, OneLogin, Trusting, bare, frozen, host, key_secret, permit
from tests.live.sshd import Lab, open_lab

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


class Names:
    """A resolver that answers as told, one answer after the other; the last one stays."""

    def __init__(self) -> None:
        self.answers: list[Sequence[str]] = [["127.0.0.1"]]
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        del port
        self.asked.append(name)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@asynccontextmanager
async def silent_listener() -> AsyncIterator[tuple[int, list[str]]]:
    """A port with a list of who connected to it."""
    visits: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        visits.append("visit")
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], visits


@contextmanager
def executing(lab: Lab, names: Names) -> Iterator[SshExecutor]:
    yield SshExecutor(secrets=OneLogin(key_secret(lab.user_key)), trust=Trusting(), lookup=names)


REFUSED = [
    ("web.example.com", ["127.0.0.1"]),
    ("web.example.com", ["10.0.0.5"]),
    ("web.example.com", ["169.254.169.254"]),
    ("web.example.com", ["93.184.216.34", "169.254.169.254"]),
    ("web.example.com", ["::ffff:127.0.0.1"]),
    ("web.example.com", ["64:ff9b::7f00:1"]),
    ("db.internal", ["169.254.169.254"]),
    ("localhost", ["127.0.0.1", "10.0.0.5"]),
]


@pytest.mark.parametrize(("name", "addresses"), REFUSED)
async def test_a_name_that_leads_where_it_may_not_is_refused_as_a_whole(
    lab: Lab, name: str, addresses: list[str]
) -> None:
    names = Names()
    names.answers = [addresses]
    async with silent_listener() as (port, visits):
        with executing(lab, names) as executor:
            target = host(port, "anybody", address=name)
            seen = await executor.execute(permit(frozen(target, bare("true"), deadlines=QUICK)))
            looked = await executor.look_at_host(target)

    assert (SshPhase.CONNECTING, SshFault.ADDRESS_REFUSED) == (seen.phase, seen.fault)
    assert SshFault.ADDRESS_REFUSED is looked
    assert ([name] * 2, []) == (names.asked, visits)


LITERALS = [
    "169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1", "0.0.0.0", "2130706433", "0x7f000001", "0177.0.0.1",  # noqa: S104
    "127.1", "localhost.", "127.0.0.1.", "fe80::1%lo",
]  # fmt: skip


@pytest.mark.parametrize("address", LITERALS)
async def test_odd_and_forbidden_spellings_are_not_even_resolved(lab: Lab, address: str) -> None:
    names = Names()
    async with silent_listener() as (port, visits):
        with executing(lab, names) as executor:
            seen = await executor.execute(permit(frozen(host(port, "anybody", address=address), bare("true"))))

    assert SshFault.ADDRESS_REFUSED is seen.fault
    assert ([], []) == (names.asked, visits)


def through(lab: Lab, address: str) -> SshHost:
    """A host behind the lab's own server."""
    account = lab.account("bash")
    server = lab.start()
    hop = host(server.port, account.name, known_hosts=lab.known_hosts(server), name="hop")
    return host(22, account.name, address=address, jump=(hop,), known_hosts="")


@pytest.mark.parametrize("address", ["169.254.169.254", "2130706433", "localhost.", "::ffff:10.0.0.1"])
async def test_a_jump_host_is_not_asked_to_dial_what_may_not_be_dialled(lab: Lab, address: str) -> None:
    names = Names()
    target = through(lab, address)
    with executing(lab, names) as executor:
        seen = await executor.execute(permit(frozen(target, bare("true"))))
        await executor.close()

    assert (SshPhase.CONNECTING, SshFault.ADDRESS_REFUSED) == (seen.phase, seen.fault)
    assert ["127.0.0.1"] == names.asked


async def test_the_address_of_a_jump_host_is_checked_too(lab: Lab) -> None:
    names = Names()
    names.answers = [["169.254.169.254"]]
    hop = host(22, "anybody", address="hop.example.com", name="hop")
    with executing(lab, names) as executor:
        seen = await executor.execute(permit(frozen(host(22, "anybody", jump=(hop,)), bare("true"))))

    assert (SshFault.ADDRESS_REFUSED, ["hop.example.com"]) == (seen.fault, names.asked)


async def test_a_flipping_resolver_is_asked_once_for_each_connection(lab: Lab) -> None:
    account, server, names = lab.account("bash"), lab.start(), Names()
    names.answers = [["127.0.0.1"], ["169.254.169.254"]]
    keys = lab.known_hosts(server, host="localhost")
    target = host(server.port, account.name, address="localhost", known_hosts=keys)
    with executing(lab, names) as executor:
        kept = [await executor.execute(permit(frozen(target, bare("true")))) for _ in range(3)]
        asked = len(names.asked)
        await executor.close_all()
        flipped = await executor.execute(permit(frozen(target, bare("true"))))
        await executor.close()

    assert ([0, 0, 0], 1) == ([one.exit_status for one in kept], asked)
    assert SshFault.ADDRESS_REFUSED is flipped.fault


async def test_of_several_good_addresses_the_next_is_tried(lab: Lab) -> None:
    account, server, names = lab.account("bash"), lab.start(), Names()
    names.answers = [["127.0.0.2", "127.0.0.1"]]
    keys = lab.known_hosts(server, host="localhost")
    with executing(lab, names) as executor:
        target = host(server.port, account.name, address="localhost", known_hosts=keys)
        seen = await executor.execute(permit(frozen(target, bare("true"))))
        await executor.close()

    assert 0 == seen.exit_status

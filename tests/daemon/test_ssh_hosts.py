"""What the daemon remembers of hosts: sealed, told in the log, and nothing while the vault is locked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.events import EventName
from broker.core.ssh.model import HostKeyMode, HostTrust, SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen
from broker.daemon.ssh_hosts import SshHosts
from broker.vault import Fault, Vault, VaultError
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.vaults import KEK, new_vault

WEB = SshHost(name="web-1", address="10.0.4.13", user="deploy", trust=HostTrust(mode=HostKeyMode.ACCEPT_NEW))
STRICT = replace(WEB, trust=HostTrust(mode=HostKeyMode.STRICT, known_hosts="web-1 key"))
ELSEWHERE = replace(WEB, address="10.0.4.14")
SEEN = HostKeySeen(algorithm="ssh-ed25519", fingerprint="SHA256:abc", public="ssh-ed25519 AAAAC3")
OTHER = HostKeySeen(algorithm="ssh-ed25519", fingerprint="SHA256:def", public="ssh-ed25519 BBBB")
STORE = StoreSeen(path="/home/deploy/.doorward", id="a1", boot="b1")


class Bench:
    def __init__(self, directory: Path) -> None:
        self.vault = Vault.open(new_vault(directory))
        self.vault.unlock(KEK)
        self.audit = MemoryAudit()
        self.hosts = SshHosts(vault=self.vault, audit=self.audit, clock=SetClock())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.vault.close()


async def test_an_accepted_key_is_kept_once_and_told_in_the_log(bench: Bench) -> None:
    await bench.hosts.remember(WEB, SEEN)
    await bench.hosts.remember(WEB, OTHER)

    assert ((SEEN.public,), ()) == (bench.hosts.known(WEB), bench.hosts.known(ELSEWHERE))
    assert ["SHA256:abc"] == [key.fingerprint for key in bench.hosts.accepted()]
    (event,) = bench.audit.events
    assert EventName.HOSTKEY_ACCEPTED is event.name
    assert ("web-1", "10.0.4.13", 22, "SHA256:abc") == tuple(
        event.fields[name] for name in ("host", "address", "port", "fingerprint")
    )


async def test_a_host_whose_key_the_policy_names_takes_nothing_from_here(bench: Bench) -> None:
    await bench.hosts.remember(WEB, SEEN)

    assert () == bench.hosts.known(STRICT)


async def test_a_shown_key_counts_while_its_attempt_runs_and_for_its_host_alone(bench: Bench) -> None:
    with bench.hosts.provisionally(WEB, SEEN):
        assert ((SEEN.public,), ()) == (bench.hosts.known(WEB), bench.hosts.known(ELSEWHERE))
    assert () == bench.hosts.known(WEB)

    with pytest.raises(RuntimeError), bench.hosts.provisionally(WEB, SEEN):
        raise RuntimeError
    assert () == bench.hosts.known(WEB)


async def test_where_markers_lie_is_written_when_it_changed(bench: Bench) -> None:
    await bench.hosts.saw_store(WEB, STORE)
    generation = bench.vault.generation
    await bench.hosts.saw_store(WEB, STORE)

    assert (generation, STORE) == (bench.vault.generation, bench.hosts.store_of(WEB))
    await bench.hosts.saw_store(WEB, replace(STORE, boot="b2"))
    assert "b2" == getattr(bench.hosts.store_of(WEB), "boot", None)


async def test_while_the_vault_is_locked_nothing_is_known_and_nothing_is_kept(bench: Bench) -> None:
    await bench.hosts.remember(WEB, SEEN)
    bench.vault.lock()
    assert ((), None) == (bench.hosts.known(WEB), bench.hosts.store_of(WEB))
    await bench.hosts.remember(ELSEWHERE, OTHER)
    await bench.hosts.saw_store(WEB, STORE)
    bench.vault.unlock(KEK)

    assert ((SEEN.public,), (), None) == (
        bench.hosts.known(WEB), bench.hosts.known(ELSEWHERE), bench.hosts.store_of(WEB),
    )  # fmt: skip
    assert 1 == len(bench.audit.events)


async def test_a_log_that_takes_nothing_stops_whoever_goes_on_and_not_this(bench: Bench) -> None:
    bench.audit.break_at(EventName.HOSTKEY_ACCEPTED)
    await bench.hosts.remember(WEB, SEEN)

    assert (SEEN.public,) == bench.hosts.known(WEB)


async def test_a_vault_that_can_not_be_read_knows_no_key(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> None:
        raise VaultError(Fault.LOCKED, "no")

    monkeypatch.setattr(bench.vault, "known_hosts", damaged)

    assert () == bench.hosts.known(WEB)

from pathlib import Path

import pytest

from broker.core.ssh.model import HostKeyMode, HostTrust, SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen
from broker.vault import Fault, Vault, VaultError
from broker.vault.hosts import MAX_HOSTS, MAX_STORES, KnownHosts, decode_hosts
from tests.fakes.vaults import KEK, NOW_MS, new_vault

TRUST = HostTrust(mode=HostKeyMode.ACCEPT_NEW)
WEB = SshHost(name="web-1", address="10.0.4.13", user="deploy", trust=TRUST)
SEEN = HostKeySeen(algorithm="ssh-ed25519", fingerprint="SHA256:abc", public="ssh-ed25519 AAAAC3")
STORE = StoreSeen(path="/home/deploy/.doorward", id="a1", boot="b1")


def opened(directory: Path) -> Vault:
    vault = Vault.open(new_vault(directory))
    vault.unlock(KEK)
    return vault


def test_an_accepted_key_outlives_the_lock_and_belongs_to_its_host_alone(tmp_path: Path) -> None:
    vault = opened(tmp_path)
    vault.accept_host_key(WEB, SEEN, now_ms=NOW_MS)
    vault.remember_store(WEB, STORE)
    vault.lock()
    vault.unlock(KEK)
    known = vault.known_hosts()
    other = SshHost(name="web-1", address="10.0.4.14", user="deploy", trust=TRUST)

    kept = known.key_of(WEB)
    assert kept is not None
    assert ("web-1", "SHA256:abc", "ssh-ed25519 AAAAC3", NOW_MS) == (
        kept.name, kept.fingerprint, kept.public, kept.accepted_at_ms,
    )  # fmt: skip
    assert STORE == known.store_of(WEB)
    assert (None, None) == (known.key_of(other), known.store_of(other))


def test_another_key_is_taken_only_after_a_human_forgot_the_first(tmp_path: Path) -> None:
    vault = opened(tmp_path)
    vault.accept_host_key(WEB, SEEN, now_ms=NOW_MS)
    with pytest.raises(VaultError, match="forget that one first") as fault:
        vault.accept_host_key(WEB, SEEN, now_ms=NOW_MS)
    vault.forget_host_key("10.0.4.13", 22)
    with pytest.raises(VaultError, match="no key"):
        vault.forget_host_key("10.0.4.13", 22)

    assert Fault.NAME_TAKEN is fault.value.fault
    assert None is vault.known_hosts().key_of(WEB)


def test_a_store_is_the_one_that_was_seen_last_and_one_users() -> None:
    later = StoreSeen(path="/home/deploy/.doorward", id="a1", boot="b2")
    root = SshHost(name="web-1", address="10.0.4.13", user="root", trust=TRUST)
    known = KnownHosts().seeing(WEB, STORE).seeing(WEB, later)

    assert (later, None, 1) == (known.store_of(WEB), known.store_of(root), len(known.stores))


def test_what_is_remembered_is_bounded() -> None:
    known = KnownHosts()
    for port in range(1, MAX_STORES + 3):
        known = known.seeing(SshHost(name="h", address="a", port=port, user="u", trust=TRUST), STORE)
    for port in range(1, MAX_HOSTS + 1):
        known = known.accepting(SshHost(name="h", address="a", port=port, user="u", trust=TRUST), SEEN, NOW_MS)
    with pytest.raises(VaultError, match="forget one"):
        known.accepting(WEB, SEEN, NOW_MS)

    assert MAX_STORES == len(known.stores)
    assert known == decode_hosts(known.encode())


def test_a_vault_without_hosts_remembers_none(tmp_path: Path) -> None:
    assert KnownHosts() == opened(tmp_path).known_hosts()

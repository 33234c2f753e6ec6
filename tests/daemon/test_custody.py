"""Custody: when actions may run, and how long a value is held."""

from pathlib import Path

import pytest

from broker.daemon.custody import Custody
from broker.ports import CredentialGone
from broker.vault import Vault
from tests.fakes.vaults import KEK, NOW_MS, bearer, new_vault


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    made = Vault.open(new_vault(tmp_path))
    made.unlock(KEK)
    made.add_credential(bearer("one", "canary-token-of-custody"), now_ms=NOW_MS)
    return made


def test_an_open_vault_is_ready_once_all_that_hangs_on_it_is(vault: Vault) -> None:
    custody = Custody(vault)
    seen = [custody.state]
    for step in (custody.use, custody.forget, vault.lock, custody.use):
        step()
        seen.append(custody.state)

    assert ["locked", "ready", "locked", "locked", "locked"] == seen
    assert custody.term == vault.term


def test_a_value_is_held_for_work_in_flight_over_a_lock(vault: Vault) -> None:
    custody = Custody(vault)
    with pytest.raises(KeyError):
        custody.secret_of("one", 1)
    with custody.lease("one", 1) as secrets, custody.lease("one", 1) as same:
        assert secrets is same
        custody.forget()
        vault.lock()
        assert custody.secret_of("one", 1) is not None
        assert custody.credential_version("one") is None
    with pytest.raises(KeyError):
        custody.secret_of("one", 1)
    with pytest.raises(CredentialGone), custody.lease("one", 1):
        pass


def test_a_value_that_is_not_there_any_more_is_gone(vault: Vault) -> None:
    custody = Custody(vault)
    for name, version in (("other", 1), ("one", 2)):
        with pytest.raises(CredentialGone), custody.lease(name, version):
            pass


def test_what_is_costly_to_build_is_built_once_until_a_lock(vault: Vault) -> None:
    custody = Custody(vault)
    with custody.lease("one", 1) as first:
        pass
    with custody.lease("one", 1) as second:
        assert first is second
    custody.forget()
    with custody.lease("one", 1) as third:
        assert first is not third
    assert custody.covers("one", "https://api.example.com/x")
    assert not custody.covers("one", "https://evil.example/x")

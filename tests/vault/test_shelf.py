from pathlib import Path

import pytest

from broker.core.credential import (
    BasicSecret,
    BearerSecret,
    Beside,
    CredentialError,
    parse_binding,
)
from broker.core.secret import Secret
from broker.vault import (
    Fault,
    Vault,
    VaultError,
)
from broker.vault.shelf import MAX_CREDENTIALS
from tests.fakes.vaults import (
    KEK,
    NOW_MS,
    bearer,
    credential,
    new_vault,
)

URL = "https://api.example.com/x"
HEAD = "0" * 63 + "1"


def token(vault: Vault, name: str, version: int) -> bytes:
    secret = vault.secret_of(name, version)
    assert isinstance(secret, BearerSecret)
    return secret.token.reveal()


def test_looking_up_in_a_locked_vault_finds_nothing(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-a", "https://api.example.com"), now_ms=NOW_MS)
        assert 1 == vault.credential_version("a")
        assert vault.covers("a", URL)
        assert not vault.covers("a", "https://other.example/x")
        assert not vault.covers("b", URL)
        assert vault.credential_version("b") is None
        vault.lock()

        assert vault.credential_version("a") is None
        assert not vault.covers("a", URL)


def test_rotation_keeps_the_proven_value_until_the_new_one_is_confirmed(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        meta = vault.rotate_credential("a", Secret("canary-2"), now_ms=NOW_MS + 1)
        assert (2, True, NOW_MS, NOW_MS + 1) == (
            meta.version, meta.rotation_pending, meta.created_at_ms, meta.rotated_at_ms,
        )  # fmt: skip
        assert [b"canary-1", b"canary-2"] == [token(vault, "a", version) for version in (1, 2)]

        vault.rotate_credential("a", Secret("canary-3"), now_ms=NOW_MS + 2)
        assert [b"canary-1", b"canary-3"] == [token(vault, "a", version) for version in (1, 3)]
        with pytest.raises(VaultError, match="not kept"):
            vault.secret_of("a", 2)

        assert not vault.confirm_rotation("a").rotation_pending
        with pytest.raises(VaultError, match="not kept"):
            vault.secret_of("a", 1)
        with pytest.raises(VaultError) as nothing:
            vault.confirm_rotation("a")
        assert Fault.NOTHING_PENDING == nothing.value.fault


def test_a_rotation_that_failed_is_undone_under_a_version_of_its_own(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        vault.rotate_credential("a", Secret("canary-2"), now_ms=NOW_MS)
        meta = vault.undo_rotation("a", now_ms=NOW_MS)

        assert (3, False, b"canary-1") == (meta.version, meta.rotation_pending, token(vault, "a", 3))


def test_rotation_keeps_the_kind_and_the_other_parts(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        before = BasicSecret(username="deploy", password=Secret("canary-1"))
        vault.add_credential(credential("a", before), now_ms=NOW_MS)
        vault.rotate_credential("a", Secret("canary-2"), now_ms=NOW_MS)
        assert BasicSecret(username="deploy", password=Secret("canary-2")) == vault.secret_of("a", 2)
        vault.rotate_credential("a", Secret("canary-3"), now_ms=NOW_MS, beside=Beside(username="other"))
        assert BasicSecret(username="other", password=Secret("canary-3")) == vault.secret_of("a", 3)
        with pytest.raises(CredentialError):
            vault.rotate_credential("a", Secret("canary\n"), now_ms=NOW_MS)


def test_rebinding_takes_the_value_anew_and_keeps_no_older_one(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        vault.rotate_credential("a", Secret("canary-2"), now_ms=NOW_MS)
        elsewhere = parse_binding("https://elsewhere.example")
        meta = vault.rebind_credential("a", (elsewhere,), Secret("canary-3"), now_ms=NOW_MS)

        assert ((elsewhere,), 3, b"canary-3") == (meta.bindings, meta.version, token(vault, "a", 3))
        assert not vault.covers("a", URL)
        for version in (1, 2):
            with pytest.raises(VaultError):
                vault.secret_of("a", version)
        with pytest.raises(CredentialError):
            vault.rebind_credential("a", (), Secret("canary-4"), now_ms=NOW_MS)


def test_names_are_unique_and_unknown_ones_refused(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        with pytest.raises(VaultError) as taken:
            vault.add_credential(bearer("a", "canary-2"), now_ms=NOW_MS)
        with pytest.raises(VaultError) as unknown:
            vault.remove_credential("b")
        vault.remove_credential("a")

        assert (Fault.NAME_TAKEN, Fault.UNKNOWN_CREDENTIAL) == (taken.value.fault, unknown.value.fault)
        assert () == vault.credentials()


def test_a_name_that_is_given_again_goes_on_behind_its_former_versions(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        vault.rotate_credential("a", Secret("canary-2"), now_ms=NOW_MS)
        vault.add_credential(bearer("b", "canary-b"), now_ms=NOW_MS)
        vault.remove_credential("a")
        vault.remove_credential("b")
    with Vault.open(path) as vault:
        vault.unlock(KEK)

        assert 3 == vault.add_credential(bearer("a", "canary-3"), now_ms=NOW_MS).version
        assert b"canary-3" == token(vault, "a", 3)


def test_the_number_of_credentials_is_bounded(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        shelved = vault._in_use().shelf["a"]
        many = {f"c{n}": shelved for n in range(MAX_CREDENTIALS)}
        object.__setattr__(vault._in_use(), "shelf", many)
        with pytest.raises(VaultError) as full:
            vault.add_credential(bearer("b", "canary-2"), now_ms=NOW_MS)

        assert Fault.FULL == full.value.fault


def test_a_listing_holds_no_secret_part(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        secret = BasicSecret(username="canary-user", password=Secret("canary-word"))
        vault.add_credential(credential("a", secret), now_ms=NOW_MS)

        assert "canary" not in repr(vault.credentials())
        assert "canary" not in repr(vault._in_use())

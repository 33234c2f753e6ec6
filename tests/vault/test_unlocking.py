"""Unlock methods: what opens a vault, what does not, and how methods and passphrase change."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from broker.contract.reasons import VaultState
from broker.contract.unlock_methods import UnlockMethod
from broker.core.secret import Secret
from broker.vault import Fault, QuarantineReason, Vault, VaultError, VaultLocked, VaultQuarantined, WrongPassphrase
from broker.vault.unlocking import Given, new_share, share_name, wants_share
from tests.fakes.vaults import (
    CHEAP_KDF,
    KEK,
    NOW_MS,
    WRONG_KEK,
    StillClock,
    bearer,
    new_vault,
)

PASSPHRASE, KEYRING, BOTH = UnlockMethod.PASSPHRASE, UnlockMethod.KEYRING, UnlockMethod.BOTH
SHARE = Secret(b"s" * 32)
OTHER_SHARE = Secret(b"o" * 32)
NEW_KEK = Secret(b"n" * 32)
NEW_KDF = replace(CHEAP_KDF, salt=b"salt-of-another!")


def made(directory: Path, methods: Sequence[UnlockMethod], share: Secret | None = SHARE) -> Path:
    return new_vault(directory, methods=methods, share=share)


@pytest.fixture
def of_both(tmp_path: Path) -> Iterator[Vault]:
    with Vault.open(made(tmp_path, [BOTH]), monotonic_s=StillClock()) as vault:
        yield vault


def fault(vault: Vault, kek: Secret | None, share: Secret | None) -> Fault | None:
    """Why it did not open; None where it did."""
    try:
        vault.unlock(kek, share=share)
    except VaultError as error:
        return error.fault
    return None


def test_both_shares_open_what_neither_opens_alone(of_both: Vault) -> None:
    assert Fault.SHARE_MISSING is fault(of_both, KEK, None)
    assert Fault.INVALID is fault(of_both, None, SHARE), "it says that a passphrase is wanted"
    assert None is fault(of_both, KEK, SHARE)
    assert VaultState.READY is of_both.state


def test_nothing_that_is_missing_slows_the_next_passphrase_down(of_both: Vault) -> None:
    fault(of_both, KEK, None)
    fault(of_both, None, SHARE)
    fault(of_both, KEK, OTHER_SHARE)

    assert 0 == of_both.retry_after_s


def test_a_wrong_passphrase_beside_the_right_share_is_told_and_slowed(of_both: Vault) -> None:
    assert Fault.WRONG_PASSPHRASE is fault(of_both, WRONG_KEK, SHARE)
    assert 1.0 == of_both.retry_after_s
    assert Fault.TOO_SOON is fault(of_both, KEK, SHARE)


def test_the_share_of_another_vault_is_called_that(of_both: Vault) -> None:
    with pytest.raises(VaultError, match="of another vault"):
        of_both.unlock(KEK, share=OTHER_SHARE)


@pytest.mark.parametrize("known", ["passphrase", "share"])
def test_a_copy_of_the_file_and_one_share_seal_open_nothing(tmp_path: Path, known: str) -> None:
    """With all of the file's bytes and no code of ours: neither the key of the passphrase nor the share unwraps it."""
    path = made(tmp_path, [BOTH])
    with closing(sqlite3.connect(path)) as copy:
        rows = copy.execute("SELECT method, params, sealed FROM wraps").fetchall()
    assert ["passphrase+keyring"] == [method for method, _, _ in rows], "there is no other wrap to try"
    assert SHARE.reveal() not in path.read_bytes()
    with Vault.open(path) as vault:
        for guess in (Secret(bytes(32)), KEK, SHARE, new_share()):
            kek, share = (KEK, guess) if known == "passphrase" else (guess, SHARE)
            if (kek, share) == (KEK, SHARE):
                continue
            assert fault(vault, kek, share) is not None
        with pytest.raises(VaultLocked):
            vault.credentials()


def test_a_keyring_that_is_enough_opens_without_a_passphrase(tmp_path: Path) -> None:
    with Vault.open(made(tmp_path, [KEYRING])) as vault:
        assert (KEYRING,) == vault.methods
        assert Fault.SHARE_MISSING is fault(vault, None, None)
        assert None is fault(vault, None, SHARE)


def test_each_of_several_methods_opens_and_a_wrong_passphrase_is_never_overlooked(tmp_path: Path) -> None:
    path = made(tmp_path, [PASSPHRASE, KEYRING, BOTH])
    for kek, share in ((KEK, None), (None, SHARE), (KEK, SHARE)):
        with Vault.open(path) as vault:
            vault.unlock(kek, share=share)
            assert {PASSPHRASE, KEYRING, BOTH} == set(vault.methods)
    with Vault.open(path) as vault, pytest.raises(WrongPassphrase):
        vault.unlock(WRONG_KEK, share=SHARE)


def test_no_vault_is_made_without_a_method_or_without_its_share(tmp_path: Path) -> None:
    for methods, share, expected in (([], SHARE, Fault.LAST_METHOD), ([BOTH], None, Fault.INVALID)):
        with pytest.raises(VaultError) as refused:
            made(tmp_path, methods, share)
        assert expected is refused.value.fault
    assert not (tmp_path / "data" / "vault.db").exists()


def test_another_passphrase_is_put_into_every_method_and_no_record_is_touched(tmp_path: Path) -> None:
    path = made(tmp_path, [PASSPHRASE, BOTH])
    with Vault.open(path, monotonic_s=StillClock()) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("shop", "canary-token"), now_ms=NOW_MS)
        before = records(path)
        vault.rewrap(KEK, NEW_KEK, NEW_KDF, share=SHARE)
        assert before == records(path)
        assert NEW_KDF == vault.kdf
    for kek, share, expected in (
        (NEW_KEK, None, None),
        (NEW_KEK, SHARE, None),
        (KEK, SHARE, Fault.WRONG_PASSPHRASE),
    ):
        with Vault.open(path) as vault:
            assert expected is fault(vault, kek, share)


def records(path: Path) -> list[tuple[bytes, bytes]]:
    with closing(sqlite3.connect(path)) as copy:
        return copy.execute("SELECT id, sealed FROM records ORDER BY id").fetchall()


@pytest.mark.parametrize(("share", "expected"), [(None, Fault.SHARE_MISSING), (OTHER_SHARE, Fault.SHARE_MISSING)])
def test_no_passphrase_changes_while_the_share_is_away(of_both: Vault, share: Secret | None, expected: Fault) -> None:
    with pytest.raises(VaultError) as refused:
        of_both.rewrap(KEK, NEW_KEK, NEW_KDF, share=share)

    assert expected is refused.value.fault
    assert None is fault(of_both, KEK, SHARE)


def test_a_method_is_added_and_the_former_one_removed(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_method(BOTH, Given(kek=KEK, share=SHARE))
        assert {share_name(SHARE)} == vault.shares
        vault.remove_method(PASSPHRASE)
        assert (BOTH,) == vault.methods
    with Vault.open(path) as vault:
        assert Fault.SHARE_MISSING is fault(vault, KEK, None)
        assert None is fault(vault, KEK, SHARE)


def test_the_last_method_stays(of_both: Vault) -> None:
    of_both.unlock(KEK, share=SHARE)
    with pytest.raises(VaultError, match="only unlock method") as refused:
        of_both.remove_method(BOTH)

    assert Fault.LAST_METHOD is refused.value.fault
    assert (BOTH,) == of_both.methods


def test_a_method_that_is_there_is_not_added_and_one_that_is_not_is_not_removed(of_both: Vault) -> None:
    of_both.unlock(KEK, share=SHARE)
    with pytest.raises(VaultError, match="already"):
        of_both.add_method(BOTH, Given(kek=KEK, share=SHARE))
    with pytest.raises(VaultError, match="is not opened with"):
        of_both.remove_method(KEYRING)


def test_a_method_with_a_passphrase_takes_the_one_that_the_vault_has(of_both: Vault) -> None:
    of_both.unlock(KEK, share=SHARE)
    with pytest.raises(WrongPassphrase):
        of_both.add_method(PASSPHRASE, Given(kek=WRONG_KEK, share=SHARE))

    assert (BOTH,) == of_both.methods


def test_two_methods_with_a_share_have_the_same_one(of_both: Vault) -> None:
    of_both.unlock(KEK, share=SHARE)
    for share in (OTHER_SHARE, None):
        with pytest.raises(VaultError) as refused:
            of_both.add_method(KEYRING, Given(share=share))
        assert Fault.SHARE_MISSING is refused.value.fault
    of_both.add_method(KEYRING, Given(share=SHARE))
    assert {KEYRING, BOTH} == set(of_both.methods)


def test_methods_change_in_an_open_vault_alone(of_both: Vault) -> None:
    with pytest.raises(VaultLocked):
        of_both.add_method(PASSPHRASE, Given(kek=KEK, share=SHARE))
    with pytest.raises(VaultLocked):
        of_both.remove_method(BOTH)


def test_a_method_that_was_put_back_quarantines(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with closing(sqlite3.connect(path)) as copy:
        (older,) = copy.execute("SELECT method, params, sealed FROM wraps").fetchall()
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_method(BOTH, Given(kek=KEK, share=SHARE))
        vault.remove_method(PASSPHRASE)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT INTO wraps VALUES (?, ?, ?)", older)
    with Vault.open(path) as vault, pytest.raises(VaultQuarantined) as refused:
        vault.unlock(KEK)
    assert QuarantineReason.WRAPS_CHANGED is refused.value.reason


@pytest.mark.parametrize(
    "params", [b"{}", b"[]", b'{"kdf":{},"share":"00"}', b'{"kdf":KDF,"share":1}', b'{"kdf":WEAK,"share":"00"}']
)
def test_parameters_that_are_none_of_a_share_open_no_file(tmp_path: Path, params: bytes) -> None:
    path = made(tmp_path, [BOTH])
    weak = b'{"algorithm":"argon2id","memory_kib":8,"iterations":1,"lanes":1,"salt":"c2FsdC1vZi0xNi1ieXRlcw=="}'
    strong = weak.replace(b":8,", b":8192,")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE wraps SET params = ?", (params.replace(b"KDF", strong).replace(b"WEAK", weak),))
    with pytest.raises(VaultError) as refused:
        Vault.open(path)
    assert Fault.NOT_A_VAULT is refused.value.fault


def test_methods_that_name_different_derivations_open_no_file(tmp_path: Path) -> None:
    path = made(tmp_path, [PASSPHRASE, BOTH])
    with closing(sqlite3.connect(path)) as file, file:
        (params,) = file.execute("SELECT params FROM wraps WHERE method = 'passphrase'").fetchone()
        file.execute("UPDATE wraps SET params = ? WHERE method = 'passphrase'", (params.replace(b"8192", b"9000"),))
    with pytest.raises(VaultError, match="different key derivations"):
        Vault.open(path)


@pytest.mark.parametrize(
    ("methods", "given", "expected"),
    [
        ([PASSPHRASE], KEK, []),
        ([BOTH], KEK, [KEYRING]),
        ([PASSPHRASE, BOTH], KEK, []),
        ([KEYRING, PASSPHRASE], None, [KEYRING]),
        ([PASSPHRASE], None, []),
    ],
)
def test_the_keyring_is_asked_only_where_it_is_of_use(
    methods: list[UnlockMethod], given: Secret | None, expected: list[UnlockMethod]
) -> None:
    assert bool(expected) is wants_share(methods, with_passphrase=given is not None)

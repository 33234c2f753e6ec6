"""An older policy, an older vault, an older approver list or passphrase put back is refused or leads to quarantine."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from broker.contract.kdf import KdfParams
from broker.contract.reasons import VaultState
from broker.core.secret import Secret
from broker.vault import Fault, Opened, QuarantineReason, Vault, VaultError, VaultQuarantined
from broker.vault.contents import Approver, encode_approvers
from broker.vault.index import RecordKind
from broker.vault.records import Edit
from tests.fakes.vaults import APPROVER_KEY, KEK, NOW_MS, bearer, new_vault, signed_policy

NEW_KEK = Secret(b"n" * 32)
NEW_KDF = KdfParams(memory_kib=8192, iterations=1, lanes=1, salt=b"another-salt-16b")


def put_back_after(path: Path, table: str, change: Callable[[Vault], object]) -> None:
    """Let an unlocked vault make a change, then put the rows of a table back as they were before."""
    with closing(sqlite3.connect(path)) as connection:
        rows = list(connection.execute(f"SELECT * FROM {table}"))  # noqa: S608 - a name of this test
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        change(vault)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", rows)  # noqa: S608 - likewise


def noticed_at_unlock(path: Path) -> QuarantineReason:
    with Vault.open(path) as vault, pytest.raises(VaultQuarantined) as noticed:
        vault.unlock(KEK)
    return noticed.value.reason


def test_an_older_policy_correctly_signed_is_refused(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.trust_policy(signed_policy(1))
        vault.trust_policy(signed_policy(2))
        for counter in (1, 2, 4):
            with pytest.raises(VaultError) as stale:
                vault.trust_policy(signed_policy(counter))
            assert Fault.STALE_COUNTER == stale.value.fault

        assert signed_policy(2) == vault.trusted_policy()


def test_an_older_record_of_the_trusted_policy_is_noticed(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.trust_policy(signed_policy(1))
    put_back_after(path, "records", lambda vault: vault.trust_policy(signed_policy(2)))

    assert QuarantineReason.RECORD_CHANGED == noticed_at_unlock(path)


def enrol_another(vault: Vault) -> None:
    current = vault._in_use()
    approvers = (*current.approvers, Approver(public_key=b"2" * 32, enrolled_at_ms=NOW_MS))
    vault._apply(Edit(puts=(current.records.put_only(RecordKind.APPROVERS, encode_approvers(approvers)),)))
    assert (APPROVER_KEY, b"2" * 32) == vault.approver_keys()


def test_an_older_approver_list_is_noticed(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    put_back_after(path, "records", enrol_another)

    assert QuarantineReason.RECORD_CHANGED == noticed_at_unlock(path)


def test_a_removed_credential_put_back_is_noticed(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("revoked", "canary-revoked"), now_ms=NOW_MS)
    put_back_after(path, "records", lambda vault: vault.remove_credential("revoked"))

    assert QuarantineReason.RECORD_UNKNOWN == noticed_at_unlock(path)


def test_an_older_passphrase_put_back_opens_nothing(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    put_back_after(path, "wraps", lambda vault: vault.rewrap(KEK, NEW_KEK, NEW_KDF))

    assert QuarantineReason.WRAPS_CHANGED == noticed_at_unlock(path)


def test_a_whole_older_vault_is_told_by_the_generation_that_the_log_remembers(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    copy = tmp_path / "copy.db"
    shutil.copy2(path, copy)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
        logged = vault.generation
    shutil.copy2(copy, path)

    def against_the_log(opened: Opened) -> QuarantineReason | None:
        return QuarantineReason.GENERATION_WENT_BACK if opened.generation < logged else None

    with Vault.open(path) as vault:
        with pytest.raises(VaultQuarantined) as noticed:
            vault.unlock(KEK, check=against_the_log)
        assert QuarantineReason.GENERATION_WENT_BACK == noticed.value.reason
        assert VaultState.QUARANTINED == vault.state
    with Vault.open(path) as vault:
        vault.readopt(KEK, generation_floor=logged)
        assert vault.generation > logged


def test_a_term_put_back_is_noticed(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        term = vault.term
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE vault SET term = ?", (term - 1,))

    assert QuarantineReason.TERM_WENT_BACK == noticed_at_unlock(path)

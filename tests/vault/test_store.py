import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from broker.core.credential import BasicSecret, HeaderSecret
from broker.core.secret import Secret
from broker.vault import Fault, QuarantineReason, Vault, VaultError, VaultQuarantined, statefile
from broker.vault.store import MAX_FILE_BYTES, MAX_RECORDS, Store
from tests.fakes.vaults import KEK, NOW_MS, bearer, credential, new_vault, signed_policy

CRASH = """
import os, sys
from pathlib import Path
from broker.vault import store
commit = store.Store._put_rows
def crash(self, wraps, records):
    commit(self, wraps, records)
    self._connection.execute("PRAGMA cache_spill=1")
    os._exit(7)
store.Store._put_rows = crash
from tests.fakes.vaults import KEK, NOW_MS, bearer, new_vault
from broker.vault import Vault
path = Path(sys.argv[1])
if sys.argv[2] == "create":
    new_vault(path.parent.parent)
vault = Vault.open(path)
vault.unlock(KEK)
vault.add_credential(bearer("lost", "canary-lost"), now_ms=NOW_MS)
"""


def everything_on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def put_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def refused(path: Path) -> VaultError:
    with pytest.raises(VaultError) as caught:
        Vault.open(path)
    return caught.value


def test_file_and_directory_are_private(tmp_path: Path) -> None:
    path = new_vault(tmp_path)

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(path.parent.stat().st_mode)


def test_the_file_shows_no_value_name_kind_or_binding_also_after_removal(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_credential(
            bearer("canary-name", "canary-token", "https://canary-host.example/canary-path"), now_ms=NOW_MS
        )
        pair = BasicSecret(username="canary-user", password=Secret("canary-word"))
        vault.add_credential(credential("canary-pair", pair, "https://canary-host.example"), now_ms=NOW_MS)
        header = HeaderSecret(header="X-Canary", template="canary {value}", value=Secret("canary-value"))
        vault.add_credential(credential("canary-head", header), now_ms=NOW_MS)
        vault.rotate_credential("canary-name", Secret("canary-fresh"), now_ms=NOW_MS)
        vault.trust_policy(signed_policy(1))
        for _ in range(2):
            seen = everything_on_disk(tmp_path).lower()
            for clear in (b"canary", b"example", b"bearer", b"basic", b"https", b"rules.toml", b"approver", b"a" * 32):
                assert clear not in seen, clear
            vault.remove_credential("canary-name" if vault.credential_version("canary-name") else "canary-pair")
            vault.lock()
            vault.unlock(KEK)


def test_removal_leaves_not_even_the_sealed_value(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-token"), now_ms=NOW_MS)
        sealed = list(vault._in_use().records.sealed.values())
        assert all(blob in everything_on_disk(tmp_path) for blob in sealed)
        kept = set(sealed[:2])  # approvers and audit keys were there before
        vault.remove_credential("a")

        assert not any(blob in everything_on_disk(tmp_path) for blob in sealed if blob not in kept)
        assert ["vault.db"] == [file.name for file in path.parent.iterdir()]


def test_sizes_are_told_to_64_bytes_only(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        for length in (20, 21, 22):
            vault.add_credential(bearer(f"c{length}", "x" * length), now_ms=NOW_MS)
        sizes = {len(blob) for blob in vault._in_use().records.sealed.values()}

        assert {(size - 28) % 64 for size in sizes} == {0}


def test_writes_are_durable_and_leave_no_second_copy(tmp_path: Path) -> None:
    store = Store.open(new_vault(tmp_path))
    try:
        asked = {
            name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete", "trusted_schema")
        }
    finally:
        store.close()

    assert {"journal_mode": "delete", "synchronous": 3, "secure_delete": 1, "trusted_schema": 0} == asked


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: path.chmod(0o640), "chmod 600"),
        (lambda path: path.parent.chmod(0o755), "chmod 700"),
        (lambda path: os.link(path, path.with_name("second")), "hard link"),
        (lambda path: path.rename(path.with_name("moved")).is_file() and path.symlink_to("moved"), "plain file"),
        (put_a_fifo, "plain file"),
        (lambda path: path.unlink() or path.mkdir(0o700), "plain file"),
        (lambda path: path.with_name("vault.db-journal").symlink_to("/nowhere"), "plain file"),
        (lambda path: os.truncate(path, MAX_FILE_BYTES + 1), "larger"),
    ],
)
def test_a_path_that_is_not_ours_alone_is_refused(tmp_path: Path, harm: Callable[[Path], object], words: str) -> None:
    path = new_vault(tmp_path)
    harm(path)

    assert words in str(refused(path))


def test_a_path_that_is_no_text_is_a_path_all_the_same(tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"a ?#%\xff")
    directory.mkdir(0o700)
    with Vault.open(new_vault(directory)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("one", "canary-one"), now_ms=NOW_MS)

    assert ["vault.db"] == [path.name for path in directory.rglob("*") if path.is_file()]


def test_a_directory_behind_a_symlink_is_refused(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    (tmp_path / "link").symlink_to(path.parent)

    assert Fault.UNSAFE_PATH == refused(tmp_path / "link" / "vault.db").fault
    with pytest.raises(VaultError, match="directory"):
        Store.create(tmp_path / "link" / "other.db", Store.open(path).read())


def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    facts = list(path.stat())
    facts[4] += 1  # the owner
    with pytest.raises(VaultError, match="another user"):
        statefile._refuse_unsafe_file(path, os.stat_result(facts))
    directory = Path("/")
    if os.geteuid() == 0:
        directory = tmp_path / "given away"
        directory.mkdir(0o700)
        os.chown(directory, 65534, -1)

    assert "another user" in str(refused(directory / "vault.db"))


def test_a_missing_vault_names_the_remedy(tmp_path: Path) -> None:
    assert "doorward init" in str(refused(tmp_path / "data" / "vault.db"))
    (tmp_path / "data").mkdir(0o700)
    assert (Fault.MISSING, True) == (
        refused(tmp_path / "data" / "vault.db").fault,
        "doorward init" in str(refused(tmp_path / "data" / "vault.db")),
    )


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be looked at" * 20])
def test_a_file_that_is_no_vault_is_refused(tmp_path: Path, content: bytes) -> None:
    path = new_vault(tmp_path)
    path.write_bytes(content)

    assert Fault.NOT_A_VAULT == refused(path).fault


def test_creation_leaves_a_foreign_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data" / "vault.db"
    path.parent.mkdir(0o700)
    path.write_bytes(b"someone's notes" * 100)
    path.chmod(0o600)
    with pytest.raises(VaultError):
        new_vault(tmp_path)

    assert b"someone's notes" * 100 == path.read_bytes()


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE vault SET format = 2", Fault.UNSUPPORTED),
        ("UPDATE vault SET aead = 'rot13'", Fault.UNSUPPORTED),
        ("UPDATE vault SET term = -1", Fault.NOT_A_VAULT),
        ("UPDATE vault SET term = 9223372036854775807", Fault.NOT_A_VAULT),
        ("UPDATE vault SET log_id = ''", Fault.NOT_A_VAULT),
        ("DELETE FROM vault", Fault.NOT_A_VAULT),
        ("DELETE FROM wraps", Fault.NOT_A_VAULT),
        ("UPDATE wraps SET params = '{}'", Fault.NOT_A_VAULT),
        ("UPDATE wraps SET params = x'7b7d'", Fault.NOT_A_VAULT),
        ("CREATE TABLE more (x)", Fault.NOT_A_VAULT),
        ("CREATE VIEW more AS SELECT * FROM records", Fault.NOT_A_VAULT),
        ("CREATE TRIGGER more AFTER INSERT ON records BEGIN DELETE FROM wraps; END", Fault.NOT_A_VAULT),
        ("DROP TABLE records", Fault.NOT_A_VAULT),
    ],
)
def test_a_file_that_no_vault_wrote_is_refused(tmp_path: Path, statement: str, fault: Fault) -> None:
    path = new_vault(tmp_path)
    try:
        sql(path, statement)
    except sqlite3.IntegrityError:
        return  # the format's own types refuse it

    assert fault == refused(path).fault


def test_more_rows_than_a_vault_holds_are_refused(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = [(n.to_bytes(16, "big"), 1, b"x") for n in range(MAX_RECORDS)]
        connection.executemany("INSERT INTO records (id, version, sealed) VALUES (?, ?, ?)", rows)

    assert Fault.NOT_A_VAULT == refused(path).fault


def test_a_file_in_another_journal_mode_is_brought_back(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    sql(path, "PRAGMA journal_mode=WAL")
    with Vault.open(path) as vault:
        vault.unlock(KEK)

    assert ["vault.db"] == [file.name for file in path.parent.iterdir()]


def test_a_locked_database_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")

        assert "locked" in str(refused(path))


@pytest.mark.parametrize(
    "meddle",
    [
        lambda path: sql(path, "UPDATE vault SET generation = generation + 1"),
        lambda path: sql(path, "UPDATE vault SET term = term + 1"),
        lambda path: path.rename(path.with_name("moved")),
        lambda path: os.link(path, path.with_name("second")),
    ],
)
def test_a_file_that_changes_underneath_is_noticed_at_the_next_write(
    tmp_path: Path, meddle: Callable[[Path], object]
) -> None:
    path = new_vault(tmp_path)
    vault = Vault.open(path)
    vault.unlock(KEK)
    meddle(path)
    with pytest.raises(VaultQuarantined) as noticed:
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)

    assert QuarantineReason.CHANGED_UNDERNEATH == noticed.value.reason == vault.quarantine_reason
    vault.close()


def test_a_write_that_fails_changes_nothing_and_locking_still_wipes(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    vault = Vault.open(path)
    vault.unlock(KEK)
    generation, term = vault.generation, vault.term
    vault._store._connection.execute("PRAGMA query_only=ON")
    with pytest.raises(VaultError) as failed:
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
    assert (Fault.UNWRITABLE, generation, ()) == (failed.value.fault, vault.generation, vault.credentials())
    with pytest.raises(VaultError):
        vault.lock()
    assert vault._opened is None
    assert vault.term > term

    vault._store._connection.execute("PRAGMA query_only=OFF")
    vault.unlock(KEK)
    vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
    vault.close()


def test_a_quarantine_that_can_not_be_written_holds_all_the_same(tmp_path: Path) -> None:
    vault = Vault.open(new_vault(tmp_path))
    vault.unlock(KEK)
    vault._store._connection.execute("PRAGMA query_only=ON")
    vault.quarantine(QuarantineReason.AUDIT_MISMATCH)
    with pytest.raises(VaultQuarantined):
        vault.credentials()
    vault.close()


@pytest.mark.parametrize("moment", ["create", "write"])
def test_a_crash_in_the_middle_of_a_write_leaves_what_was_before(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "data" / "vault.db" if moment == "create" else new_vault(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", CRASH, str(path), moment], check=False, cwd=Path(__file__).parents[2], timeout=60
    )

    assert 7 == ended.returncode
    if moment == "create":
        new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert () == vault.credentials()
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)


def test_a_closed_vault_says_so(tmp_path: Path) -> None:
    vault = Vault.open(new_vault(tmp_path))
    vault.close()
    vault.close()
    with pytest.raises(VaultError):
        vault.unlock(KEK)

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from broker.vault import QuarantineReason, Vault, VaultError, VaultQuarantined
from broker.vault.fields import FieldError, Fields
from tests.fakes.vaults import KEK, NOW_MS, WRONG_KEK, bearer, new_vault, signed_policy

Row = tuple[bytes, int, bytes]


def filled(tmp_path: Path) -> Path:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        for name in ("a", "b"):
            vault.add_credential(bearer(name, f"canary-{name}"), now_ms=NOW_MS)
        vault.trust_policy(signed_policy(1))
    return path


def execute(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def rows(path: Path) -> list[Row]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute("SELECT id, version, sealed FROM records ORDER BY id"))


def reason(path: Path) -> QuarantineReason:
    with Vault.open(path) as vault:
        with pytest.raises(VaultQuarantined) as noticed:
            vault.unlock(KEK)
        return noticed.value.reason


def swap(path: Path) -> None:
    (first, _, one), (second, _, two), *_ = rows(path)
    execute(path, "UPDATE records SET sealed = ? WHERE id = ?", two, first)
    execute(path, "UPDATE records SET sealed = ? WHERE id = ?", one, second)


def flip(path: Path) -> None:
    record_id, _, blob = rows(path)[0]
    execute(path, "UPDATE records SET sealed = ? WHERE id = ?", blob[:-1] + bytes([blob[-1] ^ 1]), record_id)


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (swap, QuarantineReason.RECORD_CHANGED),
        (flip, QuarantineReason.RECORD_CHANGED),
        (lambda path: execute(path, "UPDATE records SET version = version + 1"), QuarantineReason.RECORD_CHANGED),
        (
            lambda path: execute(path, "DELETE FROM records WHERE id = ?", rows(path)[0][0]),
            QuarantineReason.RECORD_MISSING,
        ),
        (lambda path: execute(path, "DELETE FROM records"), QuarantineReason.RECORD_MISSING),
        (
            lambda path: execute(path, "INSERT INTO records VALUES (?, 1, ?)", b"n" * 16, rows(path)[0][2]),
            QuarantineReason.RECORD_UNKNOWN,
        ),
        (
            lambda path: execute(path, "UPDATE records SET id = ? WHERE id = ?", b"n" * 16, rows(path)[0][0]),
            QuarantineReason.RECORD_UNKNOWN,
        ),
        (lambda path: execute(path, "UPDATE vault SET generation = generation - 1"), QuarantineReason.INDEX_BROKEN),
        (lambda path: execute(path, "UPDATE vault SET sealed_index = x'00'"), QuarantineReason.INDEX_BROKEN),
        (lambda path: execute(path, "UPDATE vault SET term = 1"), QuarantineReason.TERM_WENT_BACK),
        (
            lambda path: execute(path, "INSERT INTO wraps SELECT 'other', params, sealed FROM wraps"),
            QuarantineReason.WRAPS_CHANGED,
        ),
    ],
)
def test_what_was_altered_swapped_moved_removed_or_put_in_is_noticed(
    tmp_path: Path, harm: Callable[[Path], object], expected: QuarantineReason
) -> None:
    path = filled(tmp_path)
    harm(path)

    assert expected == reason(path)
    with Vault.open(path) as vault:
        assert expected == vault.quarantine_reason


def test_a_vault_moved_to_another_log_does_not_open(tmp_path: Path) -> None:
    path = filled(tmp_path)
    execute(path, "UPDATE vault SET log_id = 'another'")
    with Vault.open(path) as vault, pytest.raises(VaultError, match="does not open"):
        vault.unlock(KEK)


def test_an_altered_salt_or_wrapped_key_does_not_open(tmp_path: Path) -> None:
    path = filled(tmp_path)
    execute(path, "UPDATE wraps SET sealed = zeroblob(60)")
    with Vault.open(path) as vault, pytest.raises(VaultError, match="does not open"):
        vault.unlock(KEK)


def test_a_record_of_another_vault_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path, other = filled(tmp_path), filled(tmp_path / "other")
    execute(path, "UPDATE records SET sealed = ? WHERE id = ?", rows(other)[0][2], rows(path)[0][0])

    assert QuarantineReason.RECORD_CHANGED == reason(path)


def test_what_is_broken_can_not_be_adopted(tmp_path: Path) -> None:
    path = filled(tmp_path)
    flip(path)
    reason(path)
    with Vault.open(path) as vault:
        with pytest.raises(VaultQuarantined, match="backup"):
            vault.readopt(KEK)
        with pytest.raises(VaultError):
            vault.readopt(WRONG_KEK)


def test_a_term_that_went_back_can_be_adopted_and_grows_beyond_the_sealed_one(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        term = vault.term
    execute(path, "UPDATE vault SET term = 1")
    assert QuarantineReason.TERM_WENT_BACK == reason(path)
    with Vault.open(path) as vault:
        vault.readopt(KEK)
        assert vault.term > term


def test_an_unknown_quarantine_is_a_quarantine(tmp_path: Path) -> None:
    path = filled(tmp_path)
    execute(path, "UPDATE vault SET quarantine = 'of a later version'")
    with Vault.open(path) as vault, pytest.raises(VaultQuarantined):
        vault.unlock(KEK)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a":1}', b'{"a":1,"b":2,"c":3}', b'{"a":1,"a":2}'])
def test_sealed_content_has_exactly_its_fields(content: bytes) -> None:
    with pytest.raises(FieldError):
        Fields.parse(content, {"a", "b"})


def test_sealed_fields_have_their_types() -> None:
    fields = Fields.parse(b'{"t":"x","n":1,"b":true,"z":null,"l":[],"o":{}}', set("tnbzlo"))

    assert ("x", 1, True, [], {}) == (
        fields.text("t"), fields.integer("n"), fields.absent("z"), fields.items("l"), fields.table("o"),
    )  # fmt: skip
    for read, name in (
        (fields.text, "n"), (fields.integer, "t"), (fields.integer, "b"), (fields.octets, "t"), (fields.octets, "n"),
        (fields.table, "l"), (fields.items, "o"),
    ):  # fmt: skip
        with pytest.raises(FieldError, match=name):
            read(name)

"""The vault's file: one SQLite database of sealed records, written whole or not at all.

In clear stand the format, cipher, log id, term, quarantine, generation, unlock methods with their parameters, and
sizes. A write finds the term and generation that this process wrote last, or it fails: two writers are noticed.
Knows no keys and believes nothing that it reads; records.py does the believing.
"""

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

from broker.vault.faults import Fault, VaultError
from broker.vault.sealed import Aead, available
from broker.vault.statefile import FileIdentity, checked_beside, checked_file, still_there

FORMAT = 1
MAX_FILE_BYTES = 64 << 20
MAX_BLOB_BYTES = 8 << 20
MAX_RECORDS = 4096
MAX_WRAPS = 16
MAX_NUMBER = 1 << 53
_BUSY_S = 0.5  # nobody else has any business in the file

_TABLE_OF_ONE = (
    "CREATE TABLE vault (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, aead TEXT NOT NULL, "
    "log_id TEXT NOT NULL, term INTEGER NOT NULL, quarantine TEXT, generation INTEGER NOT NULL, "
    "sealed_index BLOB NOT NULL) STRICT"
)
_SCHEMA = (
    _TABLE_OF_ONE,
    "CREATE TABLE wraps (method TEXT PRIMARY KEY NOT NULL, params BLOB NOT NULL, sealed BLOB NOT NULL) STRICT",
    "CREATE TABLE records (id BLOB PRIMARY KEY NOT NULL, version INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT",
)
# EXTRA also syncs the directory after the journal is gone: a commit that was reported is not undone by a power cut,
# which would look like a rolled back vault.
_PRAGMAS = (
    ("journal_mode=DELETE", "delete"),
    ("synchronous=EXTRA", None),
    ("secure_delete=ON", 1),
    ("fullfsync=ON", None),
    ("temp_store=MEMORY", None),
    ("trusted_schema=OFF", None),
    ("cell_size_check=ON", None),
    ("mmap_size=0", None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrap:
    """The vault key, wrapped for one unlock method. `params` is canonical JSON."""

    method: str
    params: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRecord:
    id: bytes
    version: int
    sealed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The one row about the vault as a whole."""

    aead: Aead
    log_id: str
    term: int
    quarantine: str | None
    generation: int
    sealed_index: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything in the file, as it stands there."""

    head: Head
    wraps: tuple[Wrap, ...]
    records: tuple[SealedRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write: a new head, records to put and to remove, and wraps where they change."""

    head: Head
    put: tuple[SealedRecord, ...] = ()
    remove: Collection[bytes] = ()
    wraps: Mapping[str, Wrap] = field(default_factory=dict)
    drop: Collection[str] = ()  # unlock methods


class Store:
    """An open vault file. Not thread-safe by itself: Vault holds one lock over all writes."""

    def __init__(self, path: Path, connection: sqlite3.Connection, identity: FileIdentity) -> None:
        self._path = path
        self._connection = connection
        self._identity = identity
        self._written = (0, 0)  # term and generation that stand in the file, as far as this process knows

    @classmethod
    def create(cls, path: Path, contents: Contents) -> None:
        """Write a new file and close it. Refuses a file that holds anything; an interrupted creation left nothing."""
        identity = checked_file(path, create=True, max_bytes=MAX_FILE_BYTES)
        with closing(_connect(path)) as connection:
            store = cls(path, connection, identity)
            with store._transaction(Fault.UNWRITABLE):
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
                    raise VaultError(Fault.EXISTS, f"there is a vault already at {path}; it is left as it is")
                for statement in _SCHEMA:
                    connection.execute(statement)
                store._insert_head(contents.head)
                store._put_rows(contents.wraps, contents.records)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Check path, settings and schema. Raises VaultError."""
        identity = checked_file(path, create=False, max_bytes=MAX_FILE_BYTES)
        for suffix in ("-journal", "-wal", "-shm"):
            checked_beside(path.with_name(path.name + suffix))
        connection = _connect(path)
        store = cls(path, connection, identity)
        try:
            store._check_schema()
            store.resume()
        except BaseException:
            connection.close()
            raise
        return store

    def read(self) -> Contents:
        """All rows, from one snapshot. Raises VaultError on rows that no vault would hold."""
        with self._transaction(Fault.UNREADABLE, begin="BEGIN"):
            head = self._read_head()
            wraps = self._rows("SELECT method, params, sealed FROM wraps ORDER BY method", MAX_WRAPS)
            records = self._rows("SELECT id, version, sealed FROM records ORDER BY id", MAX_RECORDS)
        return Contents(
            head=head,
            wraps=tuple(Wrap(method=_text(m), params=_blob(p), sealed=_blob(s)) for m, p, s in wraps),
            records=tuple(SealedRecord(id=_blob(i), version=_number(v), sealed=_blob(s)) for i, v, s in records),
        )

    def resume(self) -> Contents:
        """Read, and go on from the term and generation that stand there."""
        contents = self.read()
        self._written = (contents.head.term, contents.head.generation)
        return contents

    def write(self, change: Change) -> None:
        """Apply a change durably, or not at all. Raises VaultError."""
        self._refuse_moved_file()
        with self._transaction(Fault.UNWRITABLE):
            self._update_head(change.head)
            self._connection.executemany("DELETE FROM records WHERE id = ?", [(record,) for record in change.remove])
            self._connection.executemany("DELETE FROM wraps WHERE method = ?", [(method,) for method in change.drop])
            self._put_rows(change.wraps.values(), change.put)
        self._written = (change.head.term, change.head.generation)

    def write_state(self, *, term: int, quarantine: str | None) -> None:
        """Write term and quarantine alone: possible without the key."""
        self._refuse_moved_file()
        with self._transaction(Fault.UNWRITABLE):
            changed = self._connection.execute(
                "UPDATE vault SET term = ?, quarantine = ? WHERE term = ? AND generation = ?",
                (term, quarantine, *self._written),
            )
            _refuse_foreign_write(changed)
        self._written = (term, self._written[1])

    def close(self) -> None:
        self._connection.close()

    def _check_schema(self) -> None:
        """Tables as we made them, and no trigger, view or index besides."""
        with self._transaction(Fault.NOT_A_VAULT, begin="BEGIN"):
            found = self._rows("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid", len(_SCHEMA) + 1)
        if [sql for (sql,) in found] != list(_SCHEMA):
            raise VaultError(
                Fault.NOT_A_VAULT,
                f"{self._path} holds no vault of this program; restore a backup, or remove it and run `doorward init`",
            )

    def _read_head(self) -> Head:
        rows = self._rows(
            "SELECT format, aead, log_id, term, quarantine, generation, sealed_index FROM vault", len(_SCHEMA)
        )
        if len(rows) != 1:
            raise VaultError(Fault.NOT_A_VAULT, f"{self._path} holds no vault; restore a backup")
        form, aead, log_id, term, quarantine, generation, sealed_index = rows[0]
        if _number(form) > FORMAT:
            raise VaultError(Fault.UNSUPPORTED, f"{self._path} was written by a newer version; update doorward")
        return Head(
            aead=_known_cipher(_text(aead)),
            log_id=_text(log_id),
            term=_number(term),
            quarantine=None if quarantine is None else _text(quarantine),
            generation=_number(generation),
            sealed_index=_blob(sealed_index),
        )

    def _insert_head(self, head: Head) -> None:
        self._connection.execute(
            "INSERT INTO vault (one, format, aead, log_id, term, quarantine, generation, sealed_index) "
            "VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
            (FORMAT, head.aead.value, head.log_id, head.term, head.quarantine, head.generation, head.sealed_index),
        )

    def _update_head(self, head: Head) -> None:
        changed = self._connection.execute(
            "UPDATE vault SET term = ?, quarantine = ?, generation = ?, sealed_index = ? "
            "WHERE term = ? AND generation = ?",
            (head.term, head.quarantine, head.generation, head.sealed_index, *self._written),
        )
        _refuse_foreign_write(changed)

    def _put_rows(self, wraps: Collection[Wrap], records: Collection[SealedRecord]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO wraps (method, params, sealed) VALUES (?, ?, ?)",
            [(wrap.method, wrap.params, wrap.sealed) for wrap in wraps],
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO records (id, version, sealed) VALUES (?, ?, ?)",
            [(record.id, record.version, record.sealed) for record in records],
        )

    def _rows(self, query: str, limit: int) -> list[tuple[object, ...]]:
        rows = self._connection.execute(query).fetchmany(limit + 1)
        if len(rows) > limit:
            raise VaultError(Fault.NOT_A_VAULT, f"{self._path} holds more rows than any vault; restore a backup")
        return rows

    def _refuse_moved_file(self) -> None:
        if not still_there(self._path, self._identity):
            raise VaultError(
                Fault.CHANGED_UNDERNEATH, f"{self._path} was moved, replaced or linked while open; restart the daemon"
            )

    @contextmanager
    def _transaction(self, fault: Fault, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        try:
            self._connection.execute(begin)
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
        except sqlite3.Error as cause:
            raise VaultError(fault, f"{self._path}: {cause}; see to the disk, or restore a backup") from cause


def _connect(path: Path) -> sqlite3.Connection:
    """Raises VaultError where the file is no database or refuses a setting."""
    address = f"file:{quote(os.fsencode(path.absolute()))}?mode=rw"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as cause:
        raise VaultError(Fault.UNREADABLE, f"{path} can't be opened: {cause}") from cause
    try:
        _apply_settings(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _apply_settings(connection: sqlite3.Connection, path: Path) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BLOB_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting, wanted in _PRAGMAS:
        try:
            answer = connection.execute(f"PRAGMA {setting}").fetchone()
        except sqlite3.Error as cause:
            raise VaultError(Fault.NOT_A_VAULT, f"{path} is no vault: {cause}") from cause
        if wanted is not None and answer != (wanted,):
            raise VaultError(Fault.UNSUPPORTED, f"SQLite refuses {setting} for {path}")


def _refuse_foreign_write(changed: sqlite3.Cursor) -> None:
    if changed.rowcount != 1:
        raise VaultError(Fault.CHANGED_UNDERNEATH, "another process wrote to the vault; stop it and restart the daemon")


def _known_cipher(spelling: str) -> Aead:
    if spelling not in set(Aead):
        raise VaultError(Fault.UNSUPPORTED, "the vault names a cipher that this version does not know")
    aead = Aead(spelling)
    if not available(aead):
        raise VaultError(Fault.UNSUPPORTED, f"the cipher library of this machine has no {aead}")
    return aead


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < MAX_NUMBER:
        raise VaultError(Fault.NOT_A_VAULT, "the vault holds a number out of range; restore a backup")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= 256:
        raise VaultError(Fault.NOT_A_VAULT, "the vault holds a text out of range; restore a backup")
    return value


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise VaultError(Fault.NOT_A_VAULT, "the vault holds a field of the wrong type; restore a backup")
    return value

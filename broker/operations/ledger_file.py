"""The ledger's file: opened without trusting its path, its content sealed, and its changes in doubt under one seal.

The seal covers which changes are not settled, the file's own id, and how often it was written. So an entry that was
changed, taken away or marked as done by another hand is noticed, and whoever remembers id and number of writes notices
another or an older file. Results that are done are not under it: forgetting one lets nothing be sent twice unasked.
"""

import hashlib
import hmac
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.contract.wire import JsonObject, WireError, canonical, dump, parse_object
from broker.core.ledger import AttemptState, LedgerMark

FORMAT = 3
RESULT_BYTES_MAX = 8 << 20
_SEAL = b"doorward/ledger/seal/v1\0"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
    correlation_id TEXT PRIMARY KEY, request_key BLOB, change_key BLOB, state TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, attempt BLOB NOT NULL, envelope BLOB, settlement BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS by_request ON attempts (request_key);
CREATE INDEX IF NOT EXISTS by_change ON attempts (change_key, state);
CREATE INDEX IF NOT EXISTS by_end ON attempts (state, ended_at_ms);
CREATE TABLE IF NOT EXISTS markers (
    correlation_id TEXT PRIMARY KEY, place BLOB NOT NULL, settled_at_ms INTEGER NOT NULL, proof BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS by_place ON markers (place, settled_at_ms);
CREATE TABLE IF NOT EXISTS mark (
    one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, generation INTEGER NOT NULL, seal BLOB
) STRICT;
INSERT OR IGNORE INTO mark VALUES (1, lower(hex(randomblob(16))), 0, NULL);
"""


class LedgerError(Exception):
    """The ledger can't be read or written. The message names the file's role and what to do."""


class LedgerChanged(LedgerError):  # noqa: N818 - it names what happened
    """Somebody else changed the ledger, or put another in its place: what was in doubt may be forgotten."""


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """What seals entries, and what makes fingerprints of ids and change keys."""

    aead: ChaCha20Poly1305
    fingerprint: bytes


def make_private(path: Path, name: str) -> None:
    """Make the file where it is missing, and refuse one that is a link, another user's, or open to others.

    `name` is what errors call it. Raises LedgerError.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise LedgerError(f"{name} can't be opened; is its directory yours and not a link?") from cause
    status = os.fstat(descriptor)
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != os.geteuid():
        raise LedgerError(f"{name} is not a plain file of this user's alone")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise LedgerError(f"{name} is open to others; run: chmod 600 on it")


def open_file(path: Path) -> sqlite3.Connection:
    """Raises LedgerError."""
    make_private(path, "the attempt ledger")
    try:
        database = sqlite3.connect(path, check_same_thread=False, timeout=5.0, isolation_level=None)
        # TRUNCATE: a commit is durable without the directory being synced, else a power cut could undo what was told.
        database.executescript("PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;")
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        if version > FORMAT:
            raise LedgerError(f"the attempt ledger has format {version}, this program knows up to {FORMAT}")
        database.executescript(_SCHEMA + f"PRAGMA user_version={FORMAT};")
    except sqlite3.Error as cause:
        raise LedgerError("the attempt ledger is not a database; move it away and run: doorward doctor") from cause
    return database


@contextmanager
def transaction(database: sqlite3.Connection, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """All of it or nothing, and nobody else's write in between."""
    database.execute(begin)
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")


def checked_mark(database: sqlite3.Connection, fingerprint_key: bytes) -> LedgerMark:
    """The mark, once the seal was found to be right. Raises LedgerChanged."""
    rows = database.execute("SELECT id, generation, seal FROM mark").fetchall()
    if len(rows) != 1:
        raise LedgerChanged("the attempt ledger lost its mark")
    found, generation, seal = rows[0]
    mark = LedgerMark(id=found, generation=generation)
    unsettled = _unsettled(database)
    fresh = seal is None and generation == 0 and not unsettled
    if not fresh and not hmac.compare_digest(seal or b"", _seal_of(fingerprint_key, mark, unsettled)):
        raise LedgerChanged("the attempt ledger was changed by another hand")
    return mark


def advance(database: sqlite3.Connection, fingerprint_key: bytes) -> LedgerMark:
    """Count one write and seal what is there now. Within a transaction."""
    found, generation = database.execute(
        "UPDATE mark SET generation = generation + 1 RETURNING id, generation"
    ).fetchone()
    mark = LedgerMark(id=found, generation=generation)
    database.execute("UPDATE mark SET seal = ?", (_seal_of(fingerprint_key, mark, _unsettled(database)),))
    return mark


def sealed(keys: Keys, correlation_id: str, field: str, value: JsonObject) -> bytes:
    nonce = os.urandom(12)
    return nonce + keys.aead.encrypt(nonce, dump(value), f"{correlation_id}/{field}".encode())


def unsealed(keys: Keys, correlation_id: str, field: str, octets: bytes) -> JsonObject:
    """Raises LedgerError."""
    try:
        plain = keys.aead.decrypt(octets[:12], octets[12:], f"{correlation_id}/{field}".encode())
    except (InvalidTag, ValueError) as cause:  # the second where it is too short to have a nonce
        raise LedgerError("an entry of the attempt ledger was changed; run: doorward doctor") from cause
    try:
        return parse_object(plain, max_bytes=RESULT_BYTES_MAX)
    except WireError as cause:
        raise LedgerError("an entry of the attempt ledger can't be read; run: doorward doctor") from cause


def _unsettled(database: sqlite3.Connection) -> list[list[str]]:
    """The changes that block a repeat, under way or in doubt: which of the two, the end of the daemon decides."""
    rows = database.execute(
        "SELECT correlation_id, hex(change_key) FROM attempts WHERE state IN (?, ?) AND change_key IS NOT NULL"
        " ORDER BY correlation_id",
        (AttemptState.RUNNING, AttemptState.IN_DOUBT),
    )
    return [[correlation_id, change_key] for correlation_id, change_key in rows]


def _seal_of(fingerprint_key: bytes, mark: LedgerMark, unsettled: list[list[str]]) -> bytes:
    content = canonical({"id": mark.id, "generation": mark.generation, "unsettled": unsettled})
    return hmac.new(fingerprint_key, _SEAL + content, hashlib.sha256).digest()

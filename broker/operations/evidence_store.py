"""Recorded collections on disk, sealed: an id is a name for one and no key to it.

Rows stand under keyed digests of the anchor that made them and of the operation, and the seal covers both and the id:
a row that was copied, swapped, renamed or altered proves nothing and is left out. Bounded by age, number and size; the
oldest go first. What the vault's key can't open does not exist.
"""

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.contract.reasons import IncompleteCode
from broker.contract.wire import JsonObject, WireError, dump, parse_object
from broker.core.evidence import KEPT_MS, EvidenceRecord
from broker.core.secret import Secret
from broker.operations.evidence_rows import MisshapenError, of_json, to_json
from broker.operations.ledger import LedgerSealedError
from broker.operations.ledger_file import Keys, LedgerError, make_private, transaction

LOG = logging.getLogger("doorward.evidence")
RECORD_BYTES_MAX = 8 << 20
TOTAL_BYTES_MAX = 64 << 20
PER_ANCHOR_MAX = 64
RECORDS_MAX = 1000
FORMAT = 1
T = TypeVar("T")

_SEAL = b"doorward/evidence/v1\0"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    id TEXT PRIMARY KEY, anchor BLOB NOT NULL, subject BLOB NOT NULL, recorded_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL, size_bytes INTEGER NOT NULL, sealed BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS by_subject ON records (anchor, subject);
"""


class EvidenceStoreFile:
    """Implements ports.EvidenceStore. Opened at start; `unlock` gives it its keys, `lock` takes them away."""

    def __init__(self, path: Path, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._mutex = threading.Lock()
        self._keys: Keys | None = None
        self._db = _opened(path)

    def unlock(self, *, seal_key: Secret, fingerprint_key: Secret) -> None:
        self._keys = Keys(ChaCha20Poly1305(seal_key.reveal()), fingerprint_key.reveal())

    def lock(self) -> None:
        self._keys = None

    def close(self) -> None:
        with self._mutex:
            self._db.close()

    async def record(self, record: EvidenceRecord) -> EvidenceRecord:
        """Keep it under a new id. Raises LedgerSealed, or LedgerError where it can't be written."""
        keys, now_ms = self._unlocked(), self._now_ms()
        kept = replace(
            record, id=f"ev_{secrets.token_hex(16)}", expires_at_ms=min(record.expires_at_ms, now_ms + KEPT_MS)
        )
        octets = dump(to_json(kept))
        if len(octets) > RECORD_BYTES_MAX:
            kept = _without_ids(kept)
            octets = dump(to_json(kept))
        anchor = _fingerprint(keys, "anchor", kept.anchor_id)
        subject = _fingerprint(keys, "subject", kept.anchor_id, f"{kept.service}.{kept.operation}")
        sealed = _sealed(keys, kept.id, subject, octets)

        def write() -> None:
            with transaction(self._db):
                self._db.execute(
                    "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (kept.id, anchor, subject, now_ms, kept.expires_at_ms, len(sealed), sealed),
                )
                self._forget(anchor, now_ms)

        await self._run(write)
        return kept

    async def find(self, anchor_id: str, operation: str) -> tuple[EvidenceRecord, ...]:
        keys, now_ms = self._unlocked(), self._now_ms()
        subject = _fingerprint(keys, "subject", anchor_id, operation)

        def read() -> list[tuple[str, bytes]]:
            return self._db.execute(
                "SELECT id, sealed FROM records WHERE subject = ? AND expires_at_ms > ? ORDER BY recorded_at_ms",
                (subject, now_ms),
            ).fetchall()

        rows = await self._run(read)
        opened = await asyncio.to_thread(lambda: [_opened_row(keys, name, subject, octets) for name, octets in rows])
        return tuple(
            record
            for record in opened
            if record is not None
            and (record.anchor_id, f"{record.service}.{record.operation}") == (anchor_id, operation)
        )

    def _forget(self, anchor: bytes, now_ms: int) -> None:
        """Drop what is expired and what is over the bounds, oldest first; what was written just now stays."""
        run = self._db.execute
        run("DELETE FROM records WHERE expires_at_ms <= ?", (now_ms,))
        for where, values, most in (("WHERE anchor = ?", (anchor,), PER_ANCHOR_MAX), ("", (), RECORDS_MAX)):
            newest = f"SELECT rowid FROM records {where} ORDER BY rowid DESC LIMIT {most}"  # noqa: S608 - ours
            clause = f"{where} AND" if where else "WHERE"
            run(f"DELETE FROM records {clause} rowid NOT IN ({newest})", (*values, *values))  # noqa: S608 - ours
        total = int(run("SELECT coalesce(sum(size_bytes), 0) FROM records").fetchone()[0])
        for rowid, size in run("SELECT rowid, size_bytes FROM records ORDER BY rowid").fetchall():
            if total <= TOTAL_BYTES_MAX:
                break
            run("DELETE FROM records WHERE rowid = ?", (rowid,))
            total -= size

    async def _run(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with self._mutex:
                try:
                    return work()
                except sqlite3.Error as cause:
                    raise LedgerError("the store of recorded collections can't be read or written") from cause

        return await asyncio.to_thread(guarded)

    def _unlocked(self) -> Keys:
        if self._keys is None:
            raise LedgerSealedError("recorded collections are sealed while the vault is locked")
        return self._keys


def _without_ids(record: EvidenceRecord) -> EvidenceRecord:
    """A collection that is too large to keep proves nothing, and says why."""
    reason: JsonObject = {
        "code": IncompleteCode.RESULT_LIMIT_REACHED.value,
        "message": "There are more ids than a record of a collection can hold.",
        "limit": RECORD_BYTES_MAX,
        "unit": "bytes",
        "by": "broker",
    }
    return replace(record, ids=(), complete=False, reasons=(*record.reasons, reason))


def _opened(path: Path) -> sqlite3.Connection:
    """Raises LedgerError."""
    make_private(path, "the store of collections")
    try:
        return _connected(path)
    except sqlite3.Error:
        LOG.warning("the store of recorded collections could not be read and was begun anew")
    with suppress(FileNotFoundError):
        path.unlink()
    try:
        return _connected(path)
    except sqlite3.Error as cause:
        raise LedgerError("the store of collections can't be made; run: doorward doctor") from cause


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, timeout=5.0, isolation_level=None)
    try:
        database.executescript("PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;")
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        if version not in {0, FORMAT}:  # nothing in it outlives a day: collecting again is no loss
            database.execute("DROP TABLE IF EXISTS records")
        database.executescript(_SCHEMA + f"PRAGMA user_version={FORMAT};")
    except BaseException:
        database.close()
        raise
    path.chmod(0o600)
    return database


def _fingerprint(keys: Keys, *parts: str) -> bytes:
    return hmac.new(keys.fingerprint, _SEAL + "\0".join(parts).encode(), hashlib.sha256).digest()


def _sealed(keys: Keys, name: str, subject: bytes, octets: bytes) -> bytes:
    nonce = os.urandom(12)
    return nonce + keys.aead.encrypt(nonce, octets, _SEAL + name.encode() + b"\0" + subject)


def _opened_row(keys: Keys, name: str, subject: bytes, octets: bytes) -> EvidenceRecord | None:
    try:
        plain = keys.aead.decrypt(octets[:12], octets[12:], _SEAL + name.encode() + b"\0" + subject)
        record = of_json(parse_object(plain, max_bytes=RECORD_BYTES_MAX))
    except (InvalidTag, WireError, MisshapenError, ValueError):
        LOG.warning("a recorded collection was altered and counts for nothing")
        return None
    return record if record.id == name else None

"""The attempt ledger on disk: one SQLite file that survives `kill -9`, content sealed, fingerprints keyed.

In clear stand correlation ids, states and times; what was asked and answered is sealed with a key from the vault, and
request ids and change keys are stored as keyed digests. Without the vault it tells how many operations are in doubt
and nothing more. Results are kept 24 h, attempts in doubt until they are settled. An outcome that could not be written
is written before anything else is looked up or begun.
"""

import asyncio
import hashlib
import hmac
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.contract.wire import JsonObject, WireError, canonical, dump, parse_object
from broker.core.ledger import Attempt, AttemptState, Doubt
from broker.core.secret import Secret

FORMAT = 1
KEPT_MS = 24 * 3600 * 1000
RESULT_BYTES_MAX = 8 << 20
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
    correlation_id TEXT PRIMARY KEY, request_key BLOB, change_key BLOB, state TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL, ended_at_ms INTEGER, attempt BLOB NOT NULL, envelope BLOB, settlement BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS by_request ON attempts (request_key);
CREATE INDEX IF NOT EXISTS by_change ON attempts (change_key, state);
CREATE INDEX IF NOT EXISTS by_end ON attempts (state, ended_at_ms);
"""


class LedgerError(Exception):
    """The ledger can't be read or written. The message names the file's role and what to do."""


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """What seals entries, and what makes fingerprints of ids and change keys."""

    aead: ChaCha20Poly1305
    fingerprint: bytes


class LedgerStore:
    """Opened at start; `unlock` gives it its keys, `lock` takes them away, but for attempts that are under way."""

    def __init__(self, path: Path, *, now_ms: Callable[[], int]) -> None:
        self.settling = asyncio.Lock()  # held by who settles, so that the log has one word on each change
        self._now_ms = now_ms
        self._mutex = threading.Lock()
        self._keys: Keys | None = None
        self._under_way: dict[str, Keys] = {}
        self._owed: dict[str, tuple[AttemptState, bytes]] = {}  # outcomes that could not be written yet
        self._db = _open(path)

    def unlock(self, *, seal_key: Secret, fingerprint_key: Secret) -> None:
        self._keys = Keys(ChaCha20Poly1305(seal_key.reveal()), fingerprint_key.reveal())

    def lock(self) -> None:
        """Take the keys away. Work in flight finishes with the ones that it began with."""
        self._keys = None

    @property
    def is_sealed(self) -> bool:
        return self._keys is None

    def close(self) -> None:
        with suppress(LedgerError):
            self._guarded(lambda: None)
        with self._mutex:
            self._db.close()

    def interrupted(self) -> list[str]:
        """At start: changes that were under way when the daemon died are in doubt from now on. A read just ended."""

        def take() -> list[str]:
            with self._db:
                rows = self._db.execute(
                    "SELECT correlation_id FROM attempts WHERE state = ? AND change_key IS NOT NULL"
                    " ORDER BY started_at_ms",
                    (AttemptState.RUNNING,),
                ).fetchall()
                self._db.execute(
                    "UPDATE attempts SET state = iif(change_key IS NULL, ?, ?), ended_at_ms = ? WHERE state = ?",
                    (AttemptState.DONE, AttemptState.IN_DOUBT, self._now_ms(), AttemptState.RUNNING),
                )
            return [row[0] for row in rows]

        return self._guarded(take)

    @property
    def doubtful(self) -> int:
        """How many changes are in doubt. Waits for the disk: ask in a thread."""
        count = "SELECT count(*) FROM attempts WHERE state = ?"
        return self._guarded(lambda: int(self._db.execute(count, (AttemptState.IN_DOUBT,)).fetchone()[0]))

    async def find(self, anchor_id: str, request_id: str) -> Attempt | None:
        key = self._fingerprint("request", anchor_id, request_id)
        return await self._run(lambda: self._one("request_key = ?", (key,)))

    async def by_id(self, correlation_id: str) -> Attempt | None:
        return await self._run(lambda: self._one("correlation_id = ?", (correlation_id,)))

    async def doubts(self, change_key: str) -> tuple[Doubt, ...]:
        key = self._fingerprint("change", change_key)
        found = await self._run(
            lambda: self._all("change_key = ? AND state = ?", (key, AttemptState.IN_DOUBT), limit=16)
        )
        return tuple(_doubt(attempt) for attempt in found)

    async def in_doubt(self, *, limit: int = 1000) -> list[Attempt]:
        return await self._run(lambda: self._all("state = ?", (AttemptState.IN_DOUBT,), limit=limit))

    async def begin(self, attempt: Attempt) -> None:
        """Write the attempt down, durably. Forgets results past their time."""
        row = (
            attempt.correlation_id,
            None if attempt.request_id is None else self._fingerprint("request", attempt.anchor_id, attempt.request_id),
            None if attempt.change_key is None else self._fingerprint("change", attempt.change_key),
            AttemptState.RUNNING.value,
            attempt.started_at_ms,
            _seal(self._unlocked(), attempt.correlation_id, "attempt", _attempt_json(attempt)),
        )

        def write() -> None:
            with self._db:
                self._db.execute(
                    "DELETE FROM attempts WHERE state IN (?, ?) AND ended_at_ms < ?",
                    (AttemptState.DONE, AttemptState.SETTLED, self._now_ms() - KEPT_MS),
                )
                self._db.execute(
                    "INSERT INTO attempts (correlation_id, request_key, change_key, state, started_at_ms, attempt)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    row,
                )

        self._under_way[attempt.correlation_id] = self._unlocked()
        try:
            await self._run(write)
        except LedgerError:
            del self._under_way[attempt.correlation_id]
            raise

    async def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject) -> None:
        keys = self._under_way.pop(correlation_id, None) or self._unlocked()
        sealed = _seal(keys, correlation_id, "envelope", envelope)
        state = AttemptState.IN_DOUBT if in_doubt else AttemptState.DONE
        self._owed.setdefault(correlation_id, (state, sealed))  # the first that was known of it is the truth
        await self._run(lambda: None)

    async def settle(self, correlation_id: str, settlement: JsonObject) -> bool:
        """Close what is in doubt and keep what closed it. False where it is not in doubt (any more)."""
        sealed = _seal(self._unlocked(), correlation_id, "settlement", settlement)

        def write() -> bool:
            with self._db:
                cursor = self._db.execute(
                    "UPDATE attempts SET state = ?, ended_at_ms = ?, settlement = ?"
                    " WHERE correlation_id = ? AND state = ?",
                    (AttemptState.SETTLED, self._now_ms(), sealed, correlation_id, AttemptState.IN_DOUBT),
                )
            return cursor.rowcount == 1

        return await self._run(write)

    async def settlement(self, correlation_id: str) -> JsonObject | None:
        """What closed an attempt that was in doubt."""

        def read() -> JsonObject | None:
            row = self._db.execute(
                "SELECT settlement FROM attempts WHERE correlation_id = ?", (correlation_id,)
            ).fetchone()
            sealed = None if row is None else row[0]
            return None if sealed is None else _unseal(self._unlocked(), correlation_id, "settlement", sealed)

        return await self._run(read)

    async def _run(self, work: Callable[[], T]) -> T:
        """SQLite waits for the disk: off the event loop, one at a time, finished even if the caller is cancelled."""
        return await asyncio.shield(asyncio.to_thread(self._guarded, work))

    def _guarded(self, work: Callable[[], T]) -> T:
        with self._mutex:
            try:
                self._write_owed()
                return work()
            except sqlite3.Error as cause:
                raise LedgerError("the attempt ledger can't be used; run: doorward doctor") from cause

    def _write_owed(self) -> None:
        for correlation_id, (state, sealed) in list(self._owed.items()):
            with self._db:
                self._db.execute(
                    "UPDATE attempts SET state = iif(change_key IS NULL, ?, ?), ended_at_ms = ?, envelope = ?"
                    " WHERE correlation_id = ?",  # a read leaves nothing in doubt
                    (AttemptState.DONE, state, self._now_ms(), sealed, correlation_id),
                )
            del self._owed[correlation_id]

    def _one(self, where: str, values: tuple[object, ...]) -> Attempt | None:
        found = self._all(where, values, limit=1)
        return found[0] if found else None

    def _all(self, where: str, values: tuple[object, ...], *, limit: int) -> list[Attempt]:
        rows = self._db.execute(
            "SELECT correlation_id, state, attempt, envelope FROM attempts "  # noqa: S608 - `where` is ours
            f"WHERE {where} ORDER BY started_at_ms LIMIT ?",
            (*values, limit),
        ).fetchall()
        return [self._attempt(*row) for row in rows]

    def _attempt(self, correlation_id: str, state: str, attempt: bytes, envelope: bytes | None) -> Attempt:
        told = _unseal(self._unlocked(), correlation_id, "attempt", attempt)
        answer = None if envelope is None else _unseal(self._unlocked(), correlation_id, "envelope", envelope)
        return Attempt(
            correlation_id=correlation_id,
            anchor_id=str(told["anchor_id"]),
            request_id=None if told["request_id"] is None else str(told["request_id"]),
            request_digest=str(told["request_digest"]),
            change_key=None if told["change_key"] is None else str(told["change_key"]),
            service=str(told["service"]),
            operation=str(told["operation"]),
            summary=str(told["summary"]),
            args=told["args"] if isinstance(told["args"], dict) else {},
            agent=str(told["agent"]),
            session_id=str(told["session_id"]),
            started_at_ms=told["started_at_ms"] if isinstance(told["started_at_ms"], int) else 0,
            state=AttemptState(state),
            envelope=answer,
        )

    def _fingerprint(self, *parts: str) -> bytes:
        return hmac.new(self._unlocked().fingerprint, "\0".join(parts).encode(), hashlib.sha256).digest()

    def _unlocked(self) -> Keys:
        if self._keys is None:
            raise LedgerError("the ledger is sealed while the vault is locked")
        return self._keys


def _seal(keys: Keys, correlation_id: str, field: str, value: JsonObject) -> bytes:
    nonce = os.urandom(12)
    return nonce + keys.aead.encrypt(nonce, dump(value), f"{correlation_id}/{field}".encode())


def _unseal(keys: Keys, correlation_id: str, field: str, sealed: bytes) -> JsonObject:
    try:
        plain = keys.aead.decrypt(sealed[:12], sealed[12:], f"{correlation_id}/{field}".encode())
    except InvalidTag as cause:
        raise LedgerError("an entry of the attempt ledger was changed; run: doorward doctor") from cause
    try:
        return parse_object(plain, max_bytes=RESULT_BYTES_MAX)
    except WireError as cause:
        raise LedgerError("an entry of the attempt ledger can't be read; run: doorward doctor") from cause


def _attempt_json(attempt: Attempt) -> JsonObject:
    told: JsonObject = {
        "anchor_id": attempt.anchor_id,
        "request_id": attempt.request_id,
        "request_digest": attempt.request_digest,
        "change_key": attempt.change_key,
        "service": attempt.service,
        "operation": attempt.operation,
        "summary": attempt.summary,
        "args": dict(attempt.args),
        "agent": attempt.agent,
        "session_id": attempt.session_id,
        "started_at_ms": attempt.started_at_ms,
    }
    canonical({key: value for key, value in told.items() if key != "args"})
    return told


def _doubt(attempt: Attempt) -> Doubt:
    return Doubt(
        correlation_id=attempt.correlation_id,
        session_id=attempt.session_id,
        agent=attempt.agent,
        operation=attempt.operation,
        summary=attempt.summary,
        sent_at_ms=attempt.started_at_ms,
    )


def _open(path: Path) -> sqlite3.Connection:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise LedgerError("the attempt ledger can't be opened; is its directory yours and not a link?") from cause
    status = os.fstat(descriptor)
    os.close(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != os.geteuid():
        raise LedgerError("the attempt ledger is not a plain file of this user's alone")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise LedgerError("the attempt ledger is open to others; run: chmod 600 on it")
    try:
        database = sqlite3.connect(path, check_same_thread=False, timeout=5.0)
        database.executescript("PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;")
        version = int(database.execute("PRAGMA user_version").fetchone()[0])
        if version > FORMAT:
            raise LedgerError(f"the attempt ledger has format {version}, this program knows up to {FORMAT}")
        database.executescript(_SCHEMA + f"PRAGMA user_version={FORMAT};")
    except sqlite3.Error as cause:
        raise LedgerError("the attempt ledger is not a database; move it away and run: doorward doctor") from cause
    return database

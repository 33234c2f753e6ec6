"""The attempt ledger on disk: one SQLite file that survives `kill -9`, content sealed, fingerprints keyed.

In clear stand correlation ids, states and times; what was asked and answered is sealed with a key from the vault, and
request ids and change keys are stored as keyed digests. Without the vault it tells how many operations are in doubt
and nothing more. Results are kept 24 h, attempts in doubt until they are settled. An outcome that could not be written
is written before anything else is looked up or begun. Where another hand was at the file nothing is begun, and no
change is said to be free of doubt, until a human takes the file as it is.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.contract.wire import JsonObject
from broker.core.ledger import Attempt, AttemptState, Doubt, LedgerMark
from broker.core.secret import Secret
from broker.core.ssh.outcome import StoreSeen
from broker.core.ssh.recall import has_ended, is_fenced
from broker.operations import marker_rows
from broker.operations.ledger_file import (
    Keys,
    LedgerChanged,
    LedgerError,
    advance,
    checked_mark,
    open_file,
    sealed,
    transaction,
    unsealed,
)
from broker.operations.ledger_rows import attempt_json, attempt_of_row, change_print, doubt_of, fingerprint, meeting
from broker.ports import LedgerSealed

__all__ = ["LedgerChanged", "LedgerError", "LedgerStore"]

LOG = logging.getLogger("doorward.ledger")
KEPT_MS = 24 * 3600 * 1000
DOUBTS_MAX = 16  # told of one change
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """What became of an attempt. `told` is None where it is to be forgotten; `has_ended`: its marker may go one day."""

    state: AttemptState
    told: bytes | None
    keys: Keys
    has_ended: bool = False


class LedgerSealedError(LedgerError, LedgerSealed):
    """As the pipeline knows it."""


class LedgerStore:
    """Opened at start; `unlock` gives it its keys, `lock` takes them away, but for attempts that are under way."""

    def __init__(self, path: Path, *, now_ms: Callable[[], int]) -> None:
        self.settling = asyncio.Lock()  # held by who settles, so that the log has one word on each change
        self.alarm: Callable[[str], None] = lambda _: None  # told in the event loop, and of each change but once
        self.distrusted: str | None = None
        self.mark: LedgerMark | None = None  # as it was last read or written
        self._now_ms = now_ms
        self._mutex = threading.Lock()
        self._keys: Keys | None = None
        self._under_way: dict[str, Keys] = {}
        self._owed: dict[str, Owed] = {}  # outcomes that could not be written yet
        self._db = open_file(path)

    def unlock(self, *, seal_key: Secret, fingerprint_key: Secret) -> None:
        self._keys = Keys(ChaCha20Poly1305(seal_key.reveal()), fingerprint_key.reveal())

    def hold_against(self, known: LedgerMark | None, *, told: int) -> str | None:
        """What is wrong with the file: by its seal, the mark that the vault knows, the last write that the log told.

        Waits for the disk. Raises LedgerError where it can't be read.
        """

        def look() -> LedgerMark:
            return checked_mark(self._db, self._unlocked().fingerprint)

        self.distrusted = None
        try:
            found = self._guarded(look)
        except LedgerChanged as error:
            return str(error)
        self.mark = found
        if known is not None and known.id != found.id:
            self.distrusted = "the attempt ledger is another one than before"
        elif found.generation < max(told, 0 if known is None else known.generation):
            self.distrusted = "the attempt ledger is an older one than before"
        return self.distrusted

    def adopt(self) -> LedgerMark:
        """Take the file as it is, at a human's word. Waits for the disk."""

        def write() -> LedgerMark:
            with transaction(self._db):
                return advance(self._db, self._unlocked().fingerprint)

        self.distrusted = None
        self.mark = self._guarded(write)
        return self.mark

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
            with transaction(self._db):
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
        """What holds the change up: doubts about itself, and about what may be the same (see are_one_change)."""
        keys = self._unlocked()
        where, values = meeting(keys, change_key)
        limit = DOUBTS_MAX + len(self._under_way)

        def look() -> list[Attempt]:
            with transaction(self._db, begin="BEGIN"):
                self._trust(keys)
                found = self._all(
                    f"{where} AND state IN (?, ?)",
                    (*values, AttemptState.IN_DOUBT, AttemptState.RUNNING),
                    limit=limit,
                )
            return [
                attempt
                for attempt in found
                if attempt.state is AttemptState.IN_DOUBT or attempt.correlation_id not in self._under_way
            ]

        return tuple(doubt_of(attempt) for attempt in await self._run(look))

    async def in_doubt(self, *, limit: int = 1000) -> list[Attempt]:
        return await self._run(lambda: self._all("state = ?", (AttemptState.IN_DOUBT,), limit=limit))

    async def begin(self, attempt: Attempt) -> int:
        """Write the attempt down, durably; the number of this write. Forgets results past their time."""
        keys = self._unlocked()
        row = (
            attempt.correlation_id,
            None if attempt.request_id is None else self._fingerprint("request", attempt.anchor_id, attempt.request_id),
            None if attempt.change_key is None else change_print(keys, attempt.change_key),
            AttemptState.RUNNING.value,
            attempt.started_at_ms,
            sealed(self._unlocked(), attempt.correlation_id, "attempt", attempt_json(attempt)),
        )

        def write() -> int:
            with self._writing(keys):
                self._db.execute(
                    "DELETE FROM attempts WHERE state IN (?, ?) AND ended_at_ms < ?",
                    (AttemptState.DONE, AttemptState.SETTLED, self._now_ms() - KEPT_MS),
                )
                self._db.execute(
                    "INSERT INTO attempts (correlation_id, request_key, change_key, state, started_at_ms, attempt)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    row,
                )
            return self._generation()

        self._under_way[attempt.correlation_id] = keys
        try:
            return await self._run(write)
        except LedgerError:
            del self._under_way[attempt.correlation_id]
            raise

    async def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject) -> None:
        keys = self._under_way.get(correlation_id) or self._unlocked()
        told = sealed(keys, correlation_id, "envelope", envelope)
        state = AttemptState.IN_DOUBT if in_doubt else AttemptState.DONE
        owed = Owed(state=state, told=told, keys=keys, has_ended=not in_doubt and has_ended(envelope))
        self._owed.setdefault(correlation_id, owed)  # the first that was known of it is the truth
        await self._end(correlation_id)

    async def abandon(self, correlation_id: str) -> None:
        """Forget an attempt that came to nothing."""
        keys = self._under_way.get(correlation_id) or self._unlocked()
        self._owed.setdefault(correlation_id, Owed(state=AttemptState.DONE, told=None, keys=keys))
        await self._end(correlation_id)

    async def settle(self, correlation_id: str, settlement: JsonObject) -> bool:
        """Close what is in doubt and keep what closed it. False where it is not in doubt (any more)."""
        keys = self._unlocked()
        told = sealed(keys, correlation_id, "settlement", settlement)

        def write() -> bool:
            with self._writing(keys):
                cursor = self._db.execute(
                    "UPDATE attempts SET state = ?, ended_at_ms = ?, settlement = ?"
                    " WHERE correlation_id = ? AND state = ?",
                    (AttemptState.SETTLED, self._now_ms(), told, correlation_id, AttemptState.IN_DOUBT),
                )
                if cursor.rowcount == 1 and not is_fenced(settlement):
                    marker_rows.note(self._db, keys, correlation_id, now_ms=self._now_ms())
            return cursor.rowcount == 1

        return await self._run(write)

    async def settle_by_repeat(
        self, correlation_id: str, settlement: JsonObject, record: Callable[[], Awaitable[object]]
    ) -> bool:
        """The same by an answer to that very request, sent again. Where the disk fails it stays in doubt."""
        try:
            async with self.settling:
                self._unlocked()
                now = await self.by_id(correlation_id)
                if now is None or now.state is not AttemptState.IN_DOUBT:
                    return False
                await record()
                return await self.settle(correlation_id, settlement)
        except LedgerSealedError:
            raise
        except LedgerError:  # the answer to the repeat is true all the same
            LOG.exception("what a repeat settled can't be written; it stays in doubt")
            return False

    async def settlement(self, correlation_id: str) -> JsonObject | None:
        """What closed an attempt that was in doubt."""

        def read() -> JsonObject | None:
            row = self._db.execute(
                "SELECT settlement FROM attempts WHERE correlation_id = ?", (correlation_id,)
            ).fetchone()
            told = None if row is None else row[0]
            return None if told is None else unsealed(self._unlocked(), correlation_id, "settlement", told)

        return await self._run(read)

    async def bound(self, correlation_id: str, store: StoreSeen) -> None:
        """Note the store of markers that a command claims its id in, durably, before it is sent there.

        One that is not written down here is asked about by nobody.
        """
        keys = self._under_way.get(correlation_id)
        if keys is None:
            return

        def write() -> None:
            with self._writing(keys):
                marker_rows.bind(self._db, keys, correlation_id, store)

        await self._run(write)

    async def old_markers(self, place: str, *, limit: int) -> tuple[str, ...]:
        """Operations over longer than results are kept, whose markers in this place tell nobody anything any more."""
        keys, before_ms = self._unlocked(), self._now_ms() - KEPT_MS
        return await self._run(lambda: marker_rows.due(self._db, keys, place, settled_before_ms=before_ms, limit=limit))

    async def forget_markers(self, correlation_ids: tuple[str, ...]) -> None:
        """They are gone from their host."""
        keys = self._unlocked()

        def write() -> None:
            with self._writing(keys):
                marker_rows.gone(self._db, correlation_ids)

        await self._run(write)

    async def _end(self, correlation_id: str) -> None:
        """It is under way until its end is written: in between, whoever looks for doubts would find one."""
        try:
            await self._pay()
        finally:
            self._under_way.pop(correlation_id, None)

    async def _pay(self) -> None:
        """What became of an attempt is true whether or not the disk takes it now: nobody is told otherwise."""
        try:
            await self._run(lambda: None)
        except LedgerError:
            LOG.exception("what became of an attempt can't be written yet")

    async def _run(self, work: Callable[[], T]) -> T:
        """SQLite waits for the disk: off the event loop, one at a time, finished even if the caller is cancelled."""
        try:
            return await asyncio.shield(asyncio.to_thread(self._guarded, work))
        except LedgerChanged as error:
            self.alarm(str(error))
            raise

    def _guarded(self, work: Callable[[], T]) -> T:
        with self._mutex:
            try:
                self._write_owed()
                return work()
            except LedgerChanged as changed:
                self.distrusted = str(changed)
                raise
            except sqlite3.Error as cause:
                raise LedgerError("the attempt ledger can't be used; run: doorward doctor") from cause

    def _write_owed(self) -> None:
        for correlation_id, owed in list(self._owed.items()):
            with self._writing(owed.keys, always=True):
                if owed.told is None:
                    self._db.execute("DELETE FROM attempts WHERE correlation_id = ?", (correlation_id,))
                self._db.execute(
                    "UPDATE attempts SET state = iif(change_key IS NULL, ?, ?), ended_at_ms = ?, envelope = ?"
                    " WHERE correlation_id = ?",  # a read leaves nothing in doubt
                    (AttemptState.DONE, owed.state, self._now_ms(), owed.told, correlation_id),
                )
                if owed.has_ended:
                    marker_rows.note(self._db, owed.keys, correlation_id, now_ms=self._now_ms())
            del self._owed[correlation_id]

    @contextmanager
    def _writing(self, keys: Keys, *, always: bool = False) -> Iterator[None]:
        """A write to a file that is as we left it.

        What became of an attempt is written down `always`; a file that was wrong stays so then.
        """
        with transaction(self._db):
            try:
                self._trust(keys)
            except LedgerChanged as changed:
                if not always:
                    raise
                self.distrusted = str(changed)
                yield
                return
            yield
            self.mark = advance(self._db, keys.fingerprint)

    def _trust(self, keys: Keys) -> None:
        if self.distrusted is not None:
            raise LedgerChanged(self.distrusted)
        checked_mark(self._db, keys.fingerprint)

    def _generation(self) -> int:
        return 0 if self.mark is None else self.mark.generation

    def _one(self, where: str, values: tuple[object, ...]) -> Attempt | None:
        found = self._all(where, values, limit=1)
        return found[0] if found else None

    def _all(self, where: str, values: tuple[object, ...], *, limit: int) -> list[Attempt]:
        rows = self._db.execute(
            "SELECT correlation_id, state, attempt, envelope FROM attempts "  # noqa: S608 - `where` is ours
            f"WHERE {where} ORDER BY started_at_ms LIMIT ?",
            (*values, limit),
        ).fetchall()
        return [attempt_of_row(self._unlocked(), *row) for row in rows]

    def _fingerprint(self, *parts: str) -> bytes:
        return fingerprint(self._unlocked(), *parts)

    def _unlocked(self) -> Keys:
        if self._keys is None:
            raise LedgerSealedError("the ledger is sealed while the vault is locked")
        return self._keys

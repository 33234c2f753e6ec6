"""Reading the audit log for humans: the projection's life from unlock to lock, and who answers what from where.

Built from the log alone, in the background, the newest file first; kept up to date by going on reading where the log
has grown. One thread does all of it, a piece at a time, so that neither memory nor the event loop pays for a long log.
At lock everything that was opened is dropped, also for an answer that was under way.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from broker.audit import AuditError
from broker.audit.checkpoint import in_figures
from broker.audit.history import History, Page, held_backwards, held_forwards, page_of_rows
from broker.audit.projection import EVENTS_KEPT, Projection
from broker.audit.reader import NOTES_KEPT, LogReading, segments_of
from broker.contract.wire import JsonObject, JsonValue
from broker.core.audit_query import AuditQuery
from broker.core.secret import Secret
from broker.server.faults import ControlError

LOG = logging.getLogger("doorward.daemon")
BREATH_S = 0.005  # between two pieces of a rebuild, for whoever else needs the processor
LOOK_AGAIN_S = (0.05, 0.25, 1.0)  # after something was posted: it is durable within these
SESSIONS_MOST = 1000
WAITING_MOST = 32  # questions that wait for their turn

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class _Open:
    """What exists while the vault is open."""

    directory: Path
    audit_sk: Secret
    projection: Projection = field(default_factory=Projection)
    notes: dict[int, bytes] = field(default_factory=dict)  # of checkpoints, by their numbers
    rebuilt: bool = False
    _tail: LogReading | None = None
    _pieces: Iterator[None] | None = None

    def piece(self) -> bool:
        """Do one piece of the rebuild; False when there are no more. Raises AuditError."""
        if self._pieces is None:
            self._pieces = self._rebuild()
        more = next(self._pieces, self) is not self
        self.rebuilt = not more
        return more

    def catch_up(self) -> None:
        """Take what was written since. Raises AuditError."""
        while self._tail is None and self.piece():
            pass
        if self._tail is not None:
            for batch in self._tail.committed():
                self.projection.append(batch)
            self._take_notes(self._tail)

    def _take_notes(self, reading: LogReading) -> None:
        self.notes |= dict(reading.notes)
        reading.notes.clear()
        for oldest in sorted(self.notes)[:-NOTES_KEPT]:
            del self.notes[oldest]

    @property
    def history(self) -> History:
        return History(self.directory, self.audit_sk)

    @property
    def from_seq(self) -> int:
        """The first record that is held; everything after it is."""
        return next((held.seq for held in self.projection.events()), 1 << 63)

    def _rebuild(self) -> Iterator[None]:
        *older, newest = segments_of(self.directory)
        tail = LogReading(self.directory, self.audit_sk, first=newest)
        for batch in tail.committed():
            self.projection.append(batch)
            yield
        self._tail = tail
        for path in reversed(older):
            if self.projection.full:
                return
            last: deque[tuple[int, bytes | str]] = deque(maxlen=EVENTS_KEPT)
            reading = LogReading(self.directory, self.audit_sk, first=path, alone=True)
            for batch in reading.committed():
                last.extend(batch)
                yield
            self._take_notes(reading)
            self.projection.prepend(list(last))
            yield


class AuditReading:
    """Answers from the opened log. `open` at unlock, `close` at lock, `shut` at the end of the daemon."""

    def __init__(self, *, directory: Path, head: Callable[[], int], tasks: asyncio.TaskGroup) -> None:
        self._directory = directory
        self._head = head
        self._tasks = tasks
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit-reader")
        self._open: _Open | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._written = asyncio.Event()
        self._waiting = 0

    def open(self, audit_sk: Secret) -> None:
        """Begin anew, in the background."""
        self.close()
        held = self._open = _Open(directory=self._directory, audit_sk=audit_sk)
        self._keeper = self._tasks.create_task(self._keep(held))

    def close(self) -> None:
        """Drop everything. What a piece of work in the thread still holds goes when that piece ends."""
        held, self._open = self._open, None
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        if held is not None:
            self._thread.submit(held.projection.clear)

    def shut(self) -> None:
        self.close()
        self._thread.shutdown(wait=False)

    def written(self) -> None:
        """Something was given to the writer."""
        self._written.set()

    async def events(self, query: AuditQuery) -> JsonObject:
        asked = query if query.before_seq is None else _before(query, min(query.before_seq, self._head() + 1))
        head = self._head()  # before the question: what is told is no less than this
        page = await self._ask(lambda held: _events(held, asked))
        return {"events": page.items, "next_seq": page.next_seq, "head": head}

    async def activity(self, query: AuditQuery) -> JsonObject:
        head = self._head()  # likewise
        page, from_seq, rebuilt = await self._ask(lambda held: _activity(held, query))
        return {"rows": page.items, "next_seq": page.next_seq, **_told(from_seq, head, rebuilt=rebuilt)}

    async def sessions(self, query: AuditQuery) -> JsonObject:
        head = self._head()
        found, from_seq, rebuilt = await self._ask(lambda held: _sessions(held, query))
        return {"sessions": found, **_told(from_seq, head, rebuilt=rebuilt)}

    async def checkpoints(self, query: AuditQuery) -> JsonObject:
        head = self._head()
        found, next_seq, whole = await self._ask(lambda held: _checkpoints(held, query))
        return {"checkpoints": found, "next_seq": next_seq, "whole": whole, "head": head}

    async def _ask(self, question: Callable[[_Open], T]) -> T:
        held = self._open
        if held is None:
            raise _sealed()
        if self._waiting >= WAITING_MOST:
            raise ControlError("limit", "Too many questions wait for the audit log. Ask again later.")

        def answer() -> T:
            held.catch_up()
            return question(held)

        self._waiting += 1
        try:
            told = await asyncio.get_running_loop().run_in_executor(self._thread, answer)
        except AuditError as cause:
            raise ControlError("damaged", f"The audit log can't be read: {cause}.") from None
        finally:
            self._waiting -= 1
        if held is not self._open:  # locked meanwhile: what was opened is nobody's any more
            raise _sealed()
        return told

    async def _keep(self, held: _Open) -> None:
        """Rebuild, then go on with the log. A log that can't be read is told to whoever asks."""
        loop = asyncio.get_running_loop()
        try:
            more = True
            while more:
                more = await loop.run_in_executor(self._thread, held.piece)
                await asyncio.sleep(BREATH_S)
            while True:
                await self._written.wait()
                self._written.clear()
                for pause_s in LOOK_AGAIN_S:
                    await asyncio.sleep(pause_s)
                    await loop.run_in_executor(self._thread, held.catch_up)
        except AuditError as cause:
            LOG.warning("the audit log can't be read", extra={"why": str(cause)})


def _told(from_seq: int, head: int, *, rebuilt: bool) -> dict[str, JsonValue]:
    return {"from_seq": min(from_seq, head + 1), "rebuilt": rebuilt, "head": head}


def _events(held: _Open, query: AuditQuery) -> Page:
    if query.before_seq is None:
        if (query.after_seq or 0) + 1 >= held.from_seq:
            return held_forwards(held.projection, query)
        return held.history.forwards(query)
    page = held_backwards(held.projection, query) if query.before_seq > held.from_seq else None
    if page is None or (not page.items and page.next_seq is not None):
        from_seq = query.before_seq if page is None else page.next_seq
        return held.history.backwards(_before(query, from_seq or 0))
    return page


def _activity(held: _Open, query: AuditQuery) -> tuple[Page, int, bool]:
    from_seq = held.from_seq
    if query.before_seq is not None and query.before_seq <= from_seq:
        return held.history.older(query), from_seq, held.rebuilt
    page = page_of_rows(query, held.projection.rows_back(), then=from_seq if query.after_seq is None else None)
    return page, from_seq, held.rebuilt


def _sessions(held: _Open, query: AuditQuery) -> tuple[list[JsonValue], int, bool]:
    found: list[JsonValue] = [
        one.to_json()
        for one in held.projection.attendances()
        if query.session in {None, one.id} and query.agent in {None, one.agent}
    ]
    return found[: min(query.limit, SESSIONS_MOST)], held.from_seq, held.rebuilt


def _checkpoints(held: _Open, query: AuditQuery) -> tuple[list[JsonValue], int | None, bool]:
    """The notes in the files that were read, the newest first; when, is told by the last event before each.

    Also whether those are all files, so that there are no others.
    """
    before = (1 << 63) if query.before_seq is None else query.before_seq
    numbers = [seq for seq in sorted(held.notes, reverse=True) if seq < before]
    shown = numbers[: query.limit]
    times, events = {}, held.projection.events_back()
    for seq in shown:
        event = next((one for one in events if one.seq < seq), None)
        times[seq] = None if event is None else event.event.get("at_ms")
    found: list[JsonValue] = [in_figures(seq, held.notes[seq], times[seq]) for seq in shown]
    whole = held.rebuilt and not held.projection.full and len(held.notes) < NOTES_KEPT
    return found, shown[-1] if len(numbers) > len(shown) else None, whole


def _before(query: AuditQuery, seq: int) -> AuditQuery:
    return replace(query, before_seq=seq)


def _sealed() -> ControlError:
    return ControlError("vault_locked", "The audit log is sealed while the vault is locked.")

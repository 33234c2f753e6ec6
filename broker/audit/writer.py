"""The audit writer: one thread, one queue, group commits, and a receipt for each event once it is durable.

The next group forms while the last one is being synced; there is no timer. A blocking caller that finds
nobody at work does the work itself, which saves two wake-ups; the order of records is the order of the calls.
The first failed write or sync poisons the writer for good: nothing is retried, everything waiting and everything
later is refused with the reason. A caller that is cancelled loses its receipt, never the record.
A log that is not as it was left is suspended: nothing is recorded until a human takes it over.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from broker.audit.appender import Appender
from broker.audit.disk import Disk, LocalDisk
from broker.audit.endorse import Sign
from broker.audit.epoch import MakeSeedHome
from broker.audit.faults import AuditError, Suspension
from broker.audit.limits import WriterLimits
from broker.audit.opening import LockedLog, OpenedLog
from broker.audit.payload import EndReason, Recovery
from broker.audit.pin import AuditPaths
from broker.audit.seal import MAX_PLAINTEXT_BYTES, EpochReason
from broker.audit.waiting import Answer, Backlog, Order, Task, groups, settle
from broker.contract.wire import WireError
from broker.core.events import AuditEvent, Receipt

_JOIN_S = 30.0
_NO_HEAD = (-1, b"")


class AuditWriter:
    """Open it once per process; `close` it at the end. All methods may be called from any thread.

    `root` signs with the vault's root key. It is called in the writer's own thread, for as long as the call lasts;
    where it raises, or signs with another key, the call is refused and the writer stays well.
    """

    def __init__(self, log: LockedLog, found: OpenedLog | Suspension, *, disk: Disk, limits: WriterLimits) -> None:
        self.log_id = log.log_id
        self.recovered: str | None = None
        self.recovery: Recovery | None = None
        self._log = log
        self._disk = disk
        self._limits = limits
        self._appender: Appender | None = None
        self._head = _NO_HEAD
        self.behind_ms = 0
        """How long the last group took to become durable."""
        self._suspended: Suspension | None = None
        self._poison: str | None = None
        self._backlog = Backlog(limits)
        self._take(found)
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        paths: AuditPaths,
        *,
        clock: Callable[[], int],
        disk: Disk | None = None,
        limits: WriterLimits | None = None,
        seeds: MakeSeedHome | None = None,
    ) -> Self:
        """Lock the log, check its end, cut a torn tail, begin an epoch. Seeds live in `paths.seeds` or as `seeds` says.

        Raises AuditError. A log that is not as it was left raises nothing: the writer is `suspended`. A lost seed
        doesn't either: the writer is not `endorsed`.
        """
        real, bounds = disk or LocalDisk(), limits or WriterLimits()
        log = LockedLog(paths, clock=clock, disk=real, limits=bounds, seeds=seeds)
        try:
            return cls(log, log.take_up(), disk=real, limits=bounds)
        except BaseException:
            log.release()
            raise

    # -- what callers see

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last durable record; (-1, "") while suspended."""
        seq, digest = self._head
        return seq, digest.hex()

    @property
    def poisoned(self) -> str | None:
        """Why nothing can be recorded any more."""
        return self._poison

    @property
    def suspended(self) -> Suspension | None:
        """What is wrong with the log, while nothing is recorded; `readopt` ends it."""
        return self._suspended

    @property
    def endorsed(self) -> bool:
        """False while suspended, and where the seed was lost: nobody vouches for the log until the root does."""
        return self._appender is not None and self._appender.endorsed

    def room(self) -> bool:
        """Whether an action may begin: not below the free-space floor, nor poisoned, suspended or unendorsed."""
        try:
            enough = self._disk.free_bytes(self._log.descriptor) >= self._limits.min_free_bytes
        except OSError:
            return False
        return enough and self._poison is None and self.endorsed

    async def append(self, event: AuditEvent) -> Receipt:
        """Return once the event, and all queued before it, are durable. Raises AuditError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._queue(Task(event, _encode(event), future=future), loop)
        return _receipt(await future)

    def append_blocking(self, event: AuditEvent) -> Receipt:
        """The same for callers outside an event loop. Raises AuditError."""
        task = Task(event, _encode(event))
        mine = self._backlog.claim(task)
        if mine is not None:
            try:
                for group in groups(mine, self._limits) if len(mine) > 1 else (mine,):
                    self._serve(group)
            finally:
                self._backlog.release()
        else:
            task.wait_for_it()
            self._backlog.put(task)
        return _receipt(task.wait())

    def post(self, event: AuditEvent) -> None:
        """Queue an event whose durability the next append waits for. Raises AuditError when poisoned."""
        task = Task(event, _encode(event), asked=False)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._backlog.put(task)
        else:
            self._queue(task, loop)

    async def new_epoch(self, reason: EpochReason, root: Sign | None = None, *, adopt: bool = False) -> None:
        """A checkpoint, then a new epoch: at lock and unlock. Raises AuditError.

        With the root the checkpoint has its line, and it endorses the new epoch where nobody endorsed the last one,
        or where it shall `adopt` what somebody else may have written.
        """
        await self._in_loop(_turning(reason, root, adopt=adopt))

    def new_epoch_blocking(self, reason: EpochReason, root: Sign | None = None, *, adopt: bool = False) -> None:
        self._blocking(_turning(reason, root, adopt=adopt))

    async def checkpoint(self, root: Sign | None = None) -> bytes:
        """Write a checkpoint now and return its note, with the root's line too where it is lent. Raises AuditError."""
        return _note(await self._in_loop(lambda appender: appender.checkpoint(root=root)))

    def checkpoint_blocking(self, root: Sign | None = None) -> bytes:
        return _note(self._blocking(lambda appender: appender.checkpoint(root=root)))

    async def readopt(self, root: Sign, *, next_file: bool = False) -> None:
        """Take over, on a human's word, a log that is suspended, or that nobody else vouches for. Raises AuditError.

        With `next_file` it goes on behind the file that is open now: something before its end is broken.
        """
        await asyncio.to_thread(self.readopt_blocking, root, next_file=next_file)

    def readopt_blocking(self, root: Sign, *, next_file: bool = False) -> None:
        if self._suspended is None:
            adopting = _turning(EpochReason.UNLOCK, root, adopt=True)
            self._blocking((lambda appender: appender.next_segment(root=root)) if next_file else adopting)
            return
        if not self._backlog.claim_refused():
            raise AuditError("the audit log is being taken over or closed by somebody else; look again")
        try:
            found = self._log.take_over(root)
            if isinstance(found, Suspension):
                raise AuditError(f"the audit log can't be taken over: {found.note}", verdict=found.verdict)
            self._take(found)
        finally:
            self._backlog.release()

    def close(self) -> None:
        """Write what is queued, a checkpoint and an END; let the next writer in. May be called again."""
        first = self._backlog.close()
        self._thread.join(_JOIN_S)
        if first and not self._thread.is_alive():
            if self._appender is not None:
                self._appender.close()
            self._log.release()

    def _queue(self, task: Task, loop: asyncio.AbstractEventLoop) -> None:
        """The writer is woken once the loop goes on: what else is recorded until then shares a group with it."""
        self._backlog.put(task, rouses=False)
        loop.call_soon(self._backlog.rouse)

    # -- orders

    async def _in_loop(self, order: Order) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._backlog.put(Task(None, b"", order=order, future=future))
        return await future

    def _blocking(self, order: Order) -> Answer:
        task = Task(None, b"", order=order)
        task.wait_for_it()
        self._backlog.put(task)
        return task.wait()

    # -- the work, for whoever has the right to it

    def _run(self) -> None:
        while (tasks := self._backlog.take()) is not None:
            for group in groups(tasks, self._limits):
                self._serve(group)
            self._backlog.release()
        self._finish()

    def _serve(self, group: Sequence[Task]) -> None:
        began_s = time.monotonic()
        self._perform(group)
        self.behind_ms = round(1000 * (time.monotonic() - began_s))
        if len(group) > 1 or group[0].is_awaited:
            settle(group)
        if self._poison is None and self._appender is not None:
            try:
                self._appender.tidy()
            except OSError as fault:
                self._poison_with(fault)

    def _perform(self, group: Sequence[Task]) -> None:
        """Make one group durable; give each task its answer or its fault."""
        appender, refusal = self._appender, AuditError("")
        if self._poison is None and appender is not None:
            try:
                self._commit(appender, group)
            except AuditError as fault:  # before anything was written
                refusal = fault
            except OSError as fault:
                self._poison_with(fault)
            except Exception as fault:  # noqa: BLE001 - a fault here must poison the writer, not end its thread unseen
                self._poison_with(OSError(f"{type(fault).__name__} while writing"))
            else:
                return
        if self._poison is not None:
            refusal = AuditError(self._poison)
        for task in group:
            task.fault = None if task.answer is not None else refusal  # what has its receipt is durable

    def _commit(self, appender: Appender, group: Sequence[Task]) -> None:
        order = group[0].order
        if order is not None:
            group[0].answer = order(appender)
            self._advance(appender)
            return
        done = 0
        while done < len(group):
            room = appender.make_room()
            batch = group[done : done + room]
            seq = appender.seq
            digests = appender.write_events([task.plain for task in batch])
            self._advance(appender)
            for task, digest in zip(batch, digests, strict=True):
                if task.event is not None and task.asked:
                    task.answer = _proof(task.event, seq, digest)
                seq += 1
            done += len(batch)

    def _take(self, found: OpenedLog | Suspension) -> None:
        if isinstance(found, Suspension):
            self._suspended = found
            self._backlog.refuse(AuditError(_in_words(found), verdict=found.verdict))
            return
        self._appender, self.recovered, self.recovery = found.appender, found.recovered, found.recovery
        self._advance(found.appender)
        self._suspended = None
        self._backlog.refuse(None)

    def _advance(self, appender: Appender) -> None:
        self._head = (appender.seq - 1, appender.head)

    def _poison_with(self, fault: OSError) -> None:
        reason = fault.strerror or str(fault)
        if fault.filename is not None:
            reason = f"{fault.filename}: {reason}"
        self._poison = f"the audit log can't be written ({reason}); see to the disk, then start the daemon again"
        self._backlog.refuse(AuditError(self._poison))
        if self._appender is not None:
            self._appender.last_words(fault)

    def _finish(self) -> None:
        if self._poison is not None or self._appender is None:
            return
        try:
            self._appender.stop(EndReason.STOP)
            self._advance(self._appender)
        except OSError as fault:
            self._poison_with(fault)


def _turning(reason: EpochReason, root: Sign | None, *, adopt: bool) -> Order:
    return lambda appender: appender.new_epoch(reason, root=root, adopt=adopt)


def _proof(event: AuditEvent, seq: int, digest: bytes) -> Receipt:
    return Receipt(seq=seq, head=digest.hex(), event=event.name, correlation_id=event.correlation_id)


def _encode(event: AuditEvent) -> bytes:
    try:
        plain = event.encode()
    except WireError as cause:
        raise AuditError(f"event {event.name} can't be recorded: {cause}") from cause
    if len(plain) > MAX_PLAINTEXT_BYTES:
        raise AuditError(f"event {event.name} is too large to be recorded ({len(plain)} bytes)")
    return plain


def _receipt(answer: Answer) -> Receipt:
    if not isinstance(answer, Receipt):
        raise AuditError("the audit writer gave no receipt")
    return answer


def _note(answer: Answer) -> bytes:
    if not isinstance(answer, bytes):
        raise AuditError("the audit writer gave no checkpoint")
    return answer


def _in_words(suspended: Suspension) -> str:
    return f"the audit log is not written to ({suspended.verdict}: {suspended.note}) until a human takes it over"

"""The audit writer: one thread, one queue, group commits, and a receipt for each event once it is durable.

The next group forms while the last one is being synced; there is no timer. A blocking caller that finds nothing
queued does the thread's work itself, which saves two wake-ups; the order of records is the order of the calls.
The first failed write or sync poisons the writer for good: nothing is retried, everything waiting and everything
later is refused with the reason. A caller that is cancelled loses its receipt, never the record.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Self

from broker.audit.disk import Disk, LocalDisk
from broker.audit.faults import AuditError
from broker.audit.limits import WriterLimits
from broker.audit.opening import OpenedLog, open_log
from broker.audit.payload import EndReason
from broker.audit.pin import AuditPaths
from broker.audit.seal import MAX_PLAINTEXT_BYTES, EpochReason
from broker.contract.wire import WireError
from broker.core.events import AuditEvent, Receipt

_JOIN_S = 30.0


class _Waiter:
    """Somebody who waits in another thread. A bare lock: the cheapest wake-up there is."""

    __slots__ = ("_lock", "fault", "receipt")

    def __init__(self) -> None:
        self.receipt: Receipt | None = None
        self.fault: AuditError | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> Receipt | None:
        self._lock.acquire()
        if self.fault is not None:
            raise AuditError(str(self.fault)) from self.fault
        return self.receipt

    def settle(self, receipt: Receipt | None, fault: AuditError | None) -> None:
        self.receipt, self.fault = receipt, fault
        self._lock.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoopWaiter:
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Receipt | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One thing for the thread to do: an event, a new epoch, or the end."""

    event: AuditEvent | None = None
    plain: bytes = b""
    epoch: EpochReason | None = None
    waiter: _Waiter | _LoopWaiter | None = None


_Settled = tuple[_Task, Receipt | None, AuditError | None]


class AuditWriter:
    """Open it once per process; `close` it at the end. All methods may be called from any thread."""

    def __init__(self, opened: OpenedLog, *, disk: Disk, limits: WriterLimits) -> None:
        self.log_id = opened.log_id
        self.recovered = opened.recovered
        self._appender = opened.appender
        self._lock = opened.lock
        self._disk = disk
        self._limits = limits
        self._head = (opened.appender.seq - 1, opened.appender.head.hex())
        self._poison: str | None = None
        self._closing = False
        self._gate = threading.Lock()  # orders queueing, working and closing
        self._work = threading.Lock()  # whoever holds it may use the appender
        self._outstanding = 0  # tasks queued or being worked on
        self._waiting_bytes = 0
        self._queue: SimpleQueue[_Task] = SimpleQueue()
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
    ) -> Self:
        """Lock the log, check its end, cut a torn tail, begin an epoch. Raises AuditError."""
        real, bounds = disk or LocalDisk(), limits or WriterLimits()
        return cls(open_log(paths, clock=clock, disk=real, limits=bounds), disk=real, limits=bounds)

    # -- what callers see

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last durable record."""
        return self._head

    @property
    def poisoned(self) -> str | None:
        """Why nothing can be recorded any more."""
        return self._poison

    def room(self) -> bool:
        """False below the free-space floor, and once poisoned: then no action may begin."""
        try:
            return self._poison is None and self._disk.free_bytes(self._lock) >= self._limits.min_free_bytes
        except OSError:
            return False

    async def append(self, event: AuditEvent) -> Receipt:
        """Return once the event, and all queued before it, are durable. Raises AuditError."""
        return _present(await self._in_loop(event=event, plain=_encode(event)))

    def append_blocking(self, event: AuditEvent) -> Receipt:
        """The same for callers outside an event loop. Raises AuditError."""
        waiter = _Waiter()
        task = _Task(event=event, plain=_encode(event), waiter=waiter)
        if self._take_work():
            try:
                self._serve([task])
            finally:
                self._work.release()
                self._done(1, 0)
        else:
            self._put(task)
        return _present(waiter.wait())

    def post(self, event: AuditEvent) -> None:
        """Queue an event whose durability the next append waits for. Raises AuditError when poisoned."""
        self._put(_Task(event=event, plain=_encode(event)))

    async def new_epoch(self, reason: EpochReason) -> None:
        """A checkpoint, then a new epoch: at lock and unlock. Raises AuditError."""
        await self._in_loop(epoch=reason)

    def new_epoch_blocking(self, reason: EpochReason) -> None:
        waiter = _Waiter()
        self._put(_Task(epoch=reason, waiter=waiter))
        waiter.wait()

    def close(self) -> None:
        """Write what is queued, a checkpoint and an END; let the next writer in. May be called again."""
        with self._gate:
            first, self._closing = not self._closing, True
            if first:
                self._queue.put(_Task())
        self._thread.join(_JOIN_S)
        if first and not self._thread.is_alive():
            self._appender.close()
            os.close(self._lock)

    # -- queueing

    async def _in_loop(
        self, *, event: AuditEvent | None = None, plain: bytes = b"", epoch: EpochReason | None = None
    ) -> Receipt | None:
        loop = asyncio.get_running_loop()
        waiter = _LoopWaiter(loop=loop, future=loop.create_future())
        self._put(_Task(event=event, plain=plain, epoch=epoch, waiter=waiter))
        return await waiter.future

    def _put(self, task: _Task) -> None:
        with self._gate:
            if self._poison is not None:
                raise AuditError(self._poison)
            if self._closing:
                raise AuditError("the audit writer is closed; start the daemon again")
            full = self._queue.qsize() >= self._limits.queue_events
            if full or self._waiting_bytes + len(task.plain) > self._limits.queue_bytes:
                raise AuditError("too many audit events wait to be written; ask again later")
            self._outstanding += 1
            self._waiting_bytes += len(task.plain)
            self._queue.put(task)

    def _take_work(self) -> bool:
        """Claim the appender for this thread, where nothing is queued that would have to go first."""
        with self._gate:
            idle = self._outstanding == 0 and not self._closing and self._poison is None
            if idle and self._work.acquire(blocking=False):
                self._outstanding += 1
                return True
            return False

    def _done(self, tasks: int, size_bytes: int) -> None:
        with self._gate:
            self._outstanding -= tasks
            self._waiting_bytes -= size_bytes

    # -- the thread

    def _run(self) -> None:
        ended = False
        while not ended:
            tasks = self._drain()
            ended = self._is_end(tasks[-1])
            work = tasks[:-1] if ended else tasks
            with self._work:
                for group in _groups(work, self._limits):
                    self._serve(group)
            self._done(len(work), sum(len(task.plain) for task in work))
        with self._work:
            self._finish()

    def _drain(self) -> list[_Task]:
        """All that waits, at least one, no more than the queue may hold; an end is always the last."""
        tasks = [self._queue.get()]
        while not self._is_end(tasks[-1]) and len(tasks) < self._limits.group_events and not self._queue.empty():
            tasks.append(self._queue.get())
        return tasks

    @staticmethod
    def _is_end(task: _Task) -> bool:
        return task.event is None and task.epoch is None

    def _serve(self, group: list[_Task]) -> None:
        _settle(self._perform(group))
        if self._poison is None:
            try:
                self._appender.tidy()
            except OSError as fault:
                self._poison_with(fault)

    def _perform(self, group: list[_Task]) -> list[_Settled]:
        """Make one group durable; give each task its receipt or its fault."""
        if self._poison is None:
            try:
                return self._commit(group)
            except OSError as fault:
                self._poison_with(fault)
            except Exception as fault:  # noqa: BLE001 - a fault here must poison the writer, not end its thread unseen
                self._poison_with(OSError(f"{type(fault).__name__} while writing"))
        refusal = AuditError(self._poison or "")
        return [(task, None, refusal) for task in group]

    def _commit(self, group: list[_Task]) -> list[_Settled]:
        epoch = group[0].epoch
        if epoch is not None:
            self._appender.new_epoch(epoch)
            self._advance()
            return [(group[0], None, None)]
        settled: list[_Settled] = []
        while len(settled) < len(group):
            batch = group[len(settled) : len(settled) + self._capacity()]
            places = self._appender.write_events([task.plain for task in batch])
            self._advance()
            settled += [
                (task, None if task.waiter is None else _receipt(task.event, seq, digest), None)
                for task, (seq, digest) in zip(batch, places, strict=True)
            ]
        return settled

    def _capacity(self) -> int:
        """How many events the epoch still takes, beginning another one where it takes none."""
        appender = self._appender
        if appender.segment_is_full():
            appender.next_segment()
        elif (reason := appender.epoch_is_over()) is not None:
            appender.new_epoch(reason)
        return appender.events_left()

    def _advance(self) -> None:
        self._head = (self._appender.seq - 1, self._appender.head.hex())

    def _poison_with(self, fault: OSError) -> None:
        reason = fault.strerror or str(fault)
        with self._gate:
            self._poison = f"the audit log can't be written ({reason}); see to the disk, then start the daemon again"
        self._appender.last_words(fault)

    def _finish(self) -> None:
        if self._poison is not None:
            return
        try:
            self._appender.stop(EndReason.STOP)
            self._advance()
        except OSError as fault:
            self._poison_with(fault)


def _groups(tasks: list[_Task], limits: WriterLimits) -> Iterator[list[_Task]]:
    """Runs of events that fit one commit; a new epoch stands alone. The order stays."""
    group: list[_Task] = []
    size = 0
    for task in tasks:
        if group and (task.epoch is not None or size + len(task.plain) > limits.group_bytes):
            yield group
            group, size = [], 0
        group.append(task)
        size += len(task.plain)
        if task.epoch is not None:
            yield group
            group, size = [], 0
    if group:
        yield group


def _receipt(event: AuditEvent | None, seq: int, digest: bytes) -> Receipt | None:
    if event is None:
        return None
    return Receipt(seq=seq, head=digest.hex(), event=event.name, correlation_id=event.correlation_id)


def _encode(event: AuditEvent) -> bytes:
    try:
        plain = event.encode()
    except WireError as cause:
        raise AuditError(f"event {event.name} can't be recorded: {cause}") from cause
    if len(plain) > MAX_PLAINTEXT_BYTES:
        raise AuditError(f"event {event.name} is too large to be recorded ({len(plain)} bytes)")
    return plain


def _present(receipt: Receipt | None) -> Receipt:
    if receipt is None:
        raise AuditError("the audit writer gave no receipt")
    return receipt


def _settle(settled: list[_Settled]) -> None:
    """Wake everybody; one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
    for task, receipt, fault in settled:
        match task.waiter:
            case _Waiter() as waiter:
                waiter.settle(receipt, fault)
            case _LoopWaiter(loop=loop):
                by_loop.setdefault(loop, []).append((task, receipt, fault))
            case None:
                pass
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_in_loop, mine)
        except RuntimeError:
            continue  # the loop was closed: nobody waits there any more


def _settle_in_loop(settled: list[_Settled]) -> None:
    for task, receipt, fault in settled:
        waiter = task.waiter
        if not isinstance(waiter, _LoopWaiter) or waiter.future.done():
            continue  # cancelled: the record stands all the same
        if fault is not None:
            waiter.future.set_exception(AuditError(str(fault)))
        else:
            waiter.future.set_result(receipt)

"""What waits for the audit writer: tasks in order, the callers who want to hear of them, and whose turn it is to work.

A caller in an event loop is woken through its loop, with one call for a whole group; one in a thread by a bare lock.
The queue is bounded in events and in bytes. One thread at a time has the right to use the log.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from broker.audit.appender import Appender
from broker.audit.faults import AuditError
from broker.audit.limits import WriterLimits
from broker.core.events import AuditEvent, Receipt

Answer: TypeAlias = Receipt | bytes | None
Order: TypeAlias = Callable[[Appender], bytes | None]  # raises OSError and AuditError


class Task:
    """One thing for the writer to do: record an event, or carry out an order alone. Bare, for each event has one.

    A caller in a thread waits for `answered`, one in a loop for `future`; where nobody asked there is no answer.
    """

    __slots__ = ("answer", "answered", "asked", "event", "fault", "future", "order", "plain")

    def __init__(
        self,
        event: AuditEvent | None,
        plain: bytes,
        *,
        order: Order | None = None,
        future: asyncio.Future[Answer] | None = None,
        asked: bool = True,
    ) -> None:
        self.event = event
        self.plain = plain
        self.order = order
        self.future = future
        self.asked = asked
        self.answered: threading.Lock | None = None
        self.answer: Answer = None
        self.fault: AuditError | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody has to be woken."""
        return self.future is not None or self.answered is not None

    def wait_for_it(self) -> None:
        """Before it is queued: `wait` shall wait until somebody else has done it."""
        self.answered = threading.Lock()  # the cheapest wake-up there is
        self.answered.acquire()

    def wait(self) -> Answer:
        """Raises AuditError."""
        if self.answered is not None:
            self.answered.acquire()
        if self.fault is not None:
            raise AuditError(str(self.fault), verdict=self.fault.verdict) from self.fault
        return self.answer


class Backlog:
    """The queue, and the right to work, which whoever `claim`s or `take`s has until `release`."""

    def __init__(self, limits: WriterLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._wake = threading.Lock()
        self._wake.acquire()
        self._asleep = False  # the writer's thread waits for `_wake`
        self._busy = False
        self._closed = False
        self._refusal: AuditError | None = None
        self._tasks: list[Task] = []
        self._bytes = 0

    def refuse(self, refusal: AuditError | None) -> None:
        """From now on nothing more is taken in, for this reason; or again everything."""
        with self._lock:
            self._refusal = refusal

    def put(self, task: Task, *, rouses: bool = True) -> None:
        """Raises AuditError. Without `rouses` somebody has to `rouse` the writer soon, or put another task."""
        with self._lock:
            self._refuse_if_due()
            size = self._bytes + len(task.plain)
            if len(self._tasks) >= self._limits.queue_events or size > self._limits.queue_bytes:
                raise AuditError("too many audit events wait to be written; ask again later")
            self._tasks.append(task)
            self._bytes = size
            if rouses and self._asleep and not self._busy:
                self._rouse()

    def rouse(self) -> None:
        """See to it that what waits is done."""
        with self._lock:
            if self._tasks and self._asleep and not self._busy:
                self._rouse()

    def claim(self, task: Task) -> list[Task] | None:
        """The right to work for a caller that would have to wait, with all that must go first and its own task last.

        None where somebody is at work. It saves two wake-ups, and whoever queued the others has their bytes at hand.
        """
        with self._lock:
            if self._busy or self._closed or self._refusal is not None:
                return None
            self._busy = True
            tasks, self._tasks, self._bytes = self._tasks, [], 0
        tasks.append(task)
        return tasks

    def claim_refused(self) -> bool:
        """The same, of a log that takes nothing in."""
        with self._lock:
            free = not (self._busy or self._closed)
            self._busy = self._busy or free
            return free

    def release(self) -> None:
        with self._lock:
            self._busy = False
            if self._asleep and (self._tasks or self._closed):
                self._rouse()

    def take(self) -> list[Task] | None:
        """The right to work, with all that waits; waits itself until there is something. None at the end."""
        while True:
            with self._lock:
                if not self._busy and (self._tasks or self._closed):
                    self._busy = True
                    tasks, self._tasks, self._bytes = self._tasks, [], 0
                    return tasks or None
                self._asleep = True
            self._wake.acquire()

    def close(self) -> bool:
        """What waits is still done, then `take` says that this is the end. False where it was closed before."""
        with self._lock:
            first, self._closed = not self._closed, True
            if self._asleep and not self._busy:
                self._rouse()
            return first

    def _refuse_if_due(self) -> None:
        if self._refusal is not None:
            raise AuditError(str(self._refusal), verdict=self._refusal.verdict)
        if self._closed:
            raise AuditError("the audit writer is closed; start the daemon again")

    def _rouse(self) -> None:
        self._asleep = False
        self._wake.release()


def groups(tasks: Sequence[Task], limits: WriterLimits) -> Iterator[Sequence[Task]]:
    """Runs of events that fit one commit; an order stands alone. The order stays."""
    start = size = 0
    for index, task in enumerate(tasks):
        full = index - start >= limits.group_events or size + len(task.plain) > limits.group_bytes
        if index > start and (full or task.order is not None or tasks[start].order is not None):
            yield tasks[start:index]
            start, size = index, 0
        size += len(task.plain)
    yield tasks[start:]


def settle(tasks: Sequence[Task]) -> None:
    """Wake everybody; one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Task]] = {}
    for task in tasks:
        if task.answered is not None:
            task.answered.release()
        elif task.future is not None:
            by_loop.setdefault(task.future.get_loop(), []).append(task)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_in_loop, mine)
        except RuntimeError:
            continue  # the loop was closed: nobody waits there any more


def _settle_in_loop(tasks: Sequence[Task]) -> None:
    for task in tasks:
        future = task.future
        if future is None or future.done():
            continue  # cancelled: the record stands all the same
        if task.fault is not None:
            future.set_exception(AuditError(str(task.fault), verdict=task.fault.verdict))
        else:
            future.set_result(task.answer)

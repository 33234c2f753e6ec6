"""What waits for the audit writer: tasks in its queue, and the callers who want to hear of them.

A caller in an event loop is woken through its loop, with one call for a whole group; one in a thread by a bare lock.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from broker.audit.appender import Appender
from broker.audit.faults import AuditError
from broker.audit.limits import WriterLimits
from broker.core.events import AuditEvent, Receipt

Answer: TypeAlias = Receipt | bytes | None
Order: TypeAlias = Callable[[Appender], bytes | None]  # raises OSError and AuditError


class ThreadWaiter:
    """Somebody who waits in another thread. A bare lock: the cheapest wake-up there is."""

    __slots__ = ("_lock", "answer", "fault")

    def __init__(self) -> None:
        self.answer: Answer = None
        self.fault: AuditError | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> Answer:
        self._lock.acquire()
        if self.fault is not None:
            raise AuditError(str(self.fault)) from self.fault
        return self.answer

    def settle(self, answer: Answer, fault: AuditError | None) -> None:
        self.answer, self.fault = answer, fault
        self._lock.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWaiter:
    """Somebody who waits in an event loop."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing for the writer to do: an event, an order that is carried out alone, or, with neither, the end."""

    event: AuditEvent | None = None
    plain: bytes = b""
    order: Order | None = None
    waiter: ThreadWaiter | LoopWaiter | None = None

    @property
    def is_end(self) -> bool:
        return self.event is None and self.order is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of a task."""

    task: Task
    answer: Answer = None
    fault: AuditError | None = None


def groups(tasks: Sequence[Task], limits: WriterLimits) -> Iterator[list[Task]]:
    """Runs of events that fit one commit; an order stands alone. The order stays."""
    group: list[Task] = []
    size = 0
    for task in tasks:
        if group and (task.order is not None or size + len(task.plain) > limits.group_bytes):
            yield group
            group, size = [], 0
        group.append(task)
        size += len(task.plain)
        if task.order is not None:
            yield group
            group, size = [], 0
    if group:
        yield group


def settle(settled: Sequence[Settled]) -> None:
    """Wake everybody; one call into each event loop, however many wait there."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
    for each in settled:
        match each.task.waiter:
            case ThreadWaiter() as waiter:
                waiter.settle(each.answer, each.fault)
            case LoopWaiter(loop=loop):
                by_loop.setdefault(loop, []).append(each)
            case None:
                pass
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_in_loop, mine)
        except RuntimeError:
            continue  # the loop was closed: nobody waits there any more


def _settle_in_loop(settled: Sequence[Settled]) -> None:
    for each in settled:
        waiter = each.task.waiter
        if not isinstance(waiter, LoopWaiter) or waiter.future.done():
            continue  # cancelled: the record stands all the same
        if each.fault is not None:
            waiter.future.set_exception(AuditError(str(each.fault)))
        else:
            waiter.future.set_result(each.answer)

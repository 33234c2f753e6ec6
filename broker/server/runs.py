"""Actions under way: who may ask for which result, what a poll is told, and repeats that find the first run.

A run goes on when its client hangs up; its result is kept for a day within bounds, for the anchor that asked alone.
A run that fails ends with an honest envelope, and alone.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from broker.contract.wire import JsonObject, dump
from broker.server import faults

KEPT_RESULTS = 2000
KEPT_BYTES = 32 << 20
KEPT_S = 24 * 3600.0
RUNS_MAX = 10_000
WAITING_BYTES_MAX = 128 << 20


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One action from request to result."""

    correlation_id: str
    anchor_id: str
    weight: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)  # pulsed: set and cleared at once
    notice: JsonObject | None = None  # what a poll is told once a card is up
    pending: JsonObject | None = None
    sent: bool = False
    is_write: bool = False  # known once it is sent
    envelope: JsonObject | None = None
    spelled: bytes | None = None  # the envelope, for who waited for it
    waiting: int = 0
    size: int = 0
    ended_at_s: float = 0.0
    claim: tuple[str, str] | None = None
    digest: str = ""
    parent: "Run | None" = None  # a reconcile waits for its read-back
    task: "asyncio.Task[None] | None" = None

    @property
    def answer(self) -> JsonObject | None:
        """The envelope once it ended, whatever it ended with."""
        if self.envelope is None and self.ended.is_set():
            return self.broken()
        return self.envelope

    def taken(self, answer: JsonObject) -> bytes | None:
        """The answer's spelling, where it is at hand: it is told once and not kept."""
        spelled, self.spelled = self.spelled, None
        return spelled if answer is self.envelope else None

    def broken(self) -> JsonObject:
        """What is known where a fault of ours ended it."""
        return faults.broken(self.correlation_id, sent=self.sent, is_write=self.is_write)


class Overloaded(Exception):  # noqa: N818 - it names the state that the agent is told of
    """More runs under way than this daemon takes."""


class Stopping(Exception):  # noqa: N818 - likewise
    """The daemon takes nothing new any more."""


class RunTable:
    """All runs of this daemon. Tasks live in the TaskGroup that the composition root hands in."""

    def __init__(self, *, tasks: asyncio.TaskGroup, monotonic_s: Callable[[], float]) -> None:
        self._tasks = tasks
        self._monotonic_s = monotonic_s
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._claims: dict[tuple[str, str], Run] = {}
        self._active: set[Run] = set()
        self._weight = 0
        self._per_anchor: Counter[str] = Counter()
        self._bytes = 0
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    def start(
        self,
        correlation_id: str,
        anchor_id: str,
        work: Callable[[], Awaitable[JsonObject]],
        *,
        parent: str | None = None,
        weight: int = 0,
    ) -> Run:
        """Begin a run that outlives its client. What it waits for, its parent waits for.

        `weight` is how many bytes of the request it keeps. Raises Overloaded or Stopping.
        """
        above = self._runs.get(parent or "")
        if self._stopping and above is None:  # what began before may still do its part
            raise Stopping
        if len(self._active) >= RUNS_MAX or self._weight + weight > WAITING_BYTES_MAX:
            raise Overloaded
        run = self._runs[correlation_id] = Run(
            correlation_id=correlation_id, anchor_id=anchor_id, weight=weight, parent=above
        )
        self._active.add(run)
        self._weight += weight
        self._per_anchor[anchor_id] += 1
        self._idle.clear()
        run.task = self._tasks.create_task(self._finish(run, work))
        return run

    async def wait(self, run: Run, wait_s: float, *, for_work: bool = True) -> JsonObject:
        """The result. Where a human has not answered within `wait_s`, the pending envelope.

        What was sent is waited for to its end, but not by who only asks how far it is (`for_work` false).
        """
        deadline_s = self._monotonic_s() + wait_s
        run.waiting += 1
        try:
            return await self._waited(run, deadline_s, for_work=for_work)
        finally:
            run.waiting -= 1

    async def _waited(self, run: Run, deadline_s: float, *, for_work: bool) -> JsonObject:
        while (answer := run.answer) is None:
            left_s = deadline_s - self._monotonic_s()
            if left_s <= 0 and run.pending is not None:
                return run.pending
            if left_s <= 0 and run.sent and not for_work:
                return faults.still_running(run.correlation_id, "It was sent and has no answer yet. Ask again.")
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s if left_s > 0 else None):
                    await (run.ended if for_work and left_s > 0 else run.moved).wait()
        return answer

    async def withdrawable(self, run: Run) -> None:
        """Return once it waits for a human, was sent, or ended: what comes before takes moments."""
        while run.answer is None and run.pending is None and not run.sent:
            await run.moved.wait()

    def find(self, correlation_id: str, anchor_id: str) -> Run | None:
        """A run, for the anchor that asked for it and nobody else."""
        run = self._runs.get(correlation_id)
        return run if run is not None and run.anchor_id == anchor_id else None

    def broken(self, correlation_id: str) -> JsonObject:
        """What is known of a run that a fault of ours ended."""
        run = self._runs.get(correlation_id)
        return faults.broken(correlation_id, sent=False, is_write=True) if run is None else run.broken()

    def was_sent(self, correlation_id: str) -> bool:
        """Whether the run came so far that the far side may have seen it."""
        run = self._runs.get(correlation_id)
        return run is not None and run.sent

    def stop_taking(self) -> None:
        """From now on nothing new begins."""
        self._stopping = True

    async def idle(self) -> None:
        await self._idle.wait()

    def abandon(self) -> int:
        """Cancel what is still under way; a restart finds it in doubt. Returns how many there were."""
        for run in self._active:
            if run.task is not None:
                run.task.cancel()
        return len(self._active)

    @property
    def active(self) -> int:
        return len(self._active)

    def active_of(self, anchor_id: str) -> int:
        """How many runs of one anchor are under way."""
        return self._per_anchor[anchor_id]

    # The pipeline's side (ports.Runs).
    def claim(self, anchor_id: str, request_id: str, digest: str, correlation_id: str) -> tuple[str, str] | None:
        key = (anchor_id, request_id)
        holder = self._claims.get(key)
        if holder is not None:
            return (holder.correlation_id, holder.digest)
        run = self._runs.get(correlation_id)
        if run is not None:
            run.claim, run.digest = key, digest
            self._claims[key] = run
        return None

    def waits(self, correlation_id: str, pending: JsonObject) -> None:
        """Keep what a poll is told from the moment that a human is really asked; see `asked`."""
        for run in self._with_wholes(correlation_id):
            run.notice = {**pending, "correlation_id": run.correlation_id}

    def asked(self, correlation_id: str) -> None:
        """The desk's side: a card is up for this run, or it joined one."""
        for run in self._with_wholes(correlation_id):
            run.pending = run.notice
            _pulse(run.moved)

    def dispatched(self, correlation_id: str, *, is_write: bool) -> None:
        for run in self._with_wholes(correlation_id):
            run.sent = True
            run.is_write = is_write
            run.pending = None
            _pulse(run.moved)

    def _with_wholes(self, correlation_id: str) -> Iterator[Run]:
        """The run, and all that it is a part of."""
        run = self._runs.get(correlation_id)
        while run is not None:
            yield run
            run = run.parent

    async def result(self, correlation_id: str) -> JsonObject | None:
        run = self._runs.get(correlation_id)
        if run is None:
            return None
        await run.ended.wait()
        return run.envelope

    async def _finish(self, run: Run, work: Callable[[], Awaitable[JsonObject]]) -> None:
        try:
            envelope = await work()
            spelled = dump(envelope)
            run.size, run.spelled = len(spelled), spelled if run.waiting else None
            run.envelope = envelope
        except Exception:  # noqa: BLE001 - a run that fails must not take the other tasks of the daemon with it
            faults.LOG.exception("a run failed", extra={"correlation_id": run.correlation_id})
            run.envelope = run.broken()
        finally:
            self._ended(run)

    def _ended(self, run: Run) -> None:
        run.ended_at_s = self._monotonic_s()
        run.ended.set()
        _pulse(run.moved)
        run.task = None
        self._bytes += run.size
        self._weight -= run.weight
        self._active.discard(run)
        self._per_anchor[run.anchor_id] -= 1
        if self._per_anchor[run.anchor_id] <= 0:
            del self._per_anchor[run.anchor_id]
        if run.claim is not None:
            self._claims.pop(run.claim, None)
        if not self._active:
            self._idle.set()
        self._forget()

    def _forget(self) -> None:
        """Drop the oldest results past the bounds; runs under way are never dropped."""
        horizon = self._monotonic_s() - KEPT_S
        ended: list[str] = []
        kept = len(self._runs) - len(self._active)
        for key, run in self._runs.items():
            within = kept - len(ended) <= KEPT_RESULTS and self._bytes <= KEPT_BYTES
            if within and (not run.ended.is_set() or run.ended_at_s > horizon):
                break
            if run.ended.is_set():
                self._bytes -= run.size
                ended.append(key)
        for key in ended:
            del self._runs[key]


def _pulse(event: asyncio.Event) -> None:
    event.set()
    event.clear()

"""The feed of control.sock: what changed, in order, with resume; never what stands in a card or a record.

A listener that does not keep up is dropped and resumes; one that was away too long is told to fetch anew. Nobody holds
so many that others hear nothing: an approver's process always finds a place.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Hashable
from contextlib import suppress

from broker.contract.wire import JsonObject, dump

KEPT = 1000
QUEUE_MAX = 500
LISTENERS_MAX = 64
LISTENERS_PER_PROCESS = 8
PING_S = 15.0


class TooManyListenersError(Exception):
    """The feed has as many listeners as it takes."""


class EventHub:
    """Publishes small events to every listener."""

    def __init__(self) -> None:
        self._last = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._queues: dict[asyncio.Queue[bytes | None], tuple[Hashable, bool]] = {}  # whose, and if an approver's

    def publish(self, name: str, data: JsonObject) -> None:
        self._last += 1
        frame = f"id: {self._last}\nevent: {name}\ndata: ".encode() + dump(data) + b"\n\n"
        self._kept.append((self._last, frame))
        for queue in list(self._queues):
            try:
                queue.put_nowait(frame)
            except asyncio.QueueFull:
                self._drop(queue)

    @property
    def listeners(self) -> int:
        return len(self._queues)

    async def listen(
        self, last_event_id: int | None, *, process: Hashable = None, is_approver: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Frames from the one after `last_event_id` on, with a comment line while nothing happens."""
        self._make_room(process, is_approver=is_approver)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=QUEUE_MAX)
        backlog = self._since(last_event_id)
        self._queues[queue] = (process, is_approver)
        try:
            yield b": doorward\n\n"
            for frame in backlog:
                yield frame
            while True:
                try:
                    async with asyncio.timeout(PING_S):
                        frame_or_end = await queue.get()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if frame_or_end is None:
                    return
                yield frame_or_end
        finally:
            self._queues.pop(queue, None)

    def close(self) -> None:
        """End all listeners, at the stop of the daemon."""
        for queue in list(self._queues):
            with suppress(asyncio.QueueFull):
                queue.put_nowait(None)

    def _make_room(self, process: Hashable, *, is_approver: bool) -> None:
        """Raise TooManyListenersError where there is none; an approver takes the place of who is none."""
        if sum(owner == process for owner, _ in self._queues.values()) >= LISTENERS_PER_PROCESS:
            raise TooManyListenersError
        if len(self._queues) < LISTENERS_MAX:
            return
        others = (queue for queue, (_, approver) in self._queues.items() if not approver)
        leaving = next(others, None) if is_approver else None
        if leaving is None:
            raise TooManyListenersError
        self._drop(leaving)

    def _drop(self, queue: "asyncio.Queue[bytes | None]") -> None:
        del self._queues[queue]
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)

    def _since(self, last_event_id: int | None) -> list[bytes]:
        if last_event_id is None:
            return []
        oldest = self._kept[0][0] if self._kept else self._last + 1
        if last_event_id > self._last or last_event_id < oldest - 1:
            return [f"id: {self._last}\nevent: reset\ndata: {{}}\n\n".encode()]
        return [frame for number, frame in self._kept if number > last_event_id]

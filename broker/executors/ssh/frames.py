"""Output as it comes, for whoever listens: in order, with a bound on what is held, and never in the command's way.

A slow listener makes the far side wait; one that has gone is forgotten, and the command is heard to its end all the
same. What is handed on is unscrubbed: the listener is ours.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.ports import FrameSink

HIGH_BYTES = 262_144
LOW_BYTES = 65_536
DRAIN_S = 5.0


class Readable(Protocol):
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Outlet:
    """Between the channel, which does not wait, and the sink, which may."""

    def __init__(self, sink: FrameSink) -> None:
        self._sink = sink
        self._frames: deque[tuple[str, bytes]] = deque()
        self._held_bytes = 0
        self._news = asyncio.Event()
        self._drained = asyncio.Event()
        self._deaf = False
        self._source: Readable | None = None
        self._resumed: Callable[[], None] = lambda: None
        self._paused = False

    @property
    def is_full(self) -> bool:
        return self._paused

    @property
    def has_delivered(self) -> bool:
        """Whether all that was offered so far has been taken."""
        return not self._deaf and not self._held_bytes

    def attach(self, source: Readable, resumed: Callable[[], None]) -> None:
        """Where the output comes from; `resumed` is told whenever it may flow again."""
        self._source = source
        self._resumed = resumed
        self._balance()

    def offer(self, stream: str, octets: bytes) -> None:
        if self._deaf:
            return
        self._frames.append((stream, octets))
        self._held_bytes += len(octets)
        self._drained.clear()
        self._news.set()
        self._balance()

    async def pump(self) -> None:
        """Hand frames on until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self._pass_on()
            self._drained.set()

    async def drain(self) -> None:
        """Wait until the sink has all, for a while."""
        if self._held_bytes and not self._deaf:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._drained.wait()

    async def _pass_on(self) -> None:
        while self._frames:
            stream, octets = self._frames.popleft()
            try:
                await self._sink(stream, octets)
            except Exception:  # noqa: BLE001 - whatever befell the listener, the command is to be heard to its end
                self._deaf = True
                self._frames.clear()
                self._held_bytes = 0
            else:
                self._held_bytes -= len(octets)
            self._balance()

    def _balance(self) -> None:
        if self._source is None:
            return
        if not self._paused and self._held_bytes > HIGH_BYTES:
            self._paused = True
            self._source.pause_reading()
        elif self._paused and self._held_bytes < LOW_BYTES:
            self._paused = False
            self._resumed()
            self._source.resume_reading()

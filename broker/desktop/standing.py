"""Keeps one bus at hand: connects, lets the parts attend to it, and comes back after it was gone, ever more slowly.

Whatever goes wrong here ends with a pause and another try; it never reaches the daemon.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from broker.desktop.connection import BusConnection
from broker.desktop.faults import DesktopError, Trouble

LOG = logging.getLogger("doorward.desktop")
PAUSE_S = 1.0
PAUSE_MOST_S = 60.0
LASTED_S = 60.0  # a connection that was good for so long is worth a quick return


class Part(Protocol):
    """Something that listens to a bus. `attend` runs until it is cancelled, or returns where there is nothing to do."""

    def attend(self, bus: BusConnection) -> Coroutine[object, object, None]: ...

    def without(self, trouble: Trouble) -> None:
        """The bus is not there, and why."""
        ...


class Standing:
    """`path` None: there is no such bus, and nothing is tried."""

    def __init__(
        self,
        path: str | None,
        parts: Sequence[Part],
        *,
        monotonic_s: Callable[[], float],
        descriptors: bool = False,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._path = path
        self._parts = parts
        self._monotonic_s = monotonic_s
        self._descriptors = descriptors
        self._pause_s = pause_s
        self._forged_before = 0
        self._connection: BusConnection | None = None

    @property
    def forged(self) -> int:
        """Signals that were ignored for their sender, since the start."""
        return self._forged_before + (0 if self._connection is None else self._connection.forged)

    async def run(self) -> None:
        """Until cancelled; at once where there is no bus."""
        if self._path is None:
            self._without(Trouble.ABSENT)
            return
        pause_s = self._pause_s
        while True:
            began_s = self._monotonic_s()
            try:
                await self._visit(self._path)
                trouble = Trouble.GONE
            except* DesktopError as errors:
                trouble = _first(errors)
            except* Exception as errors:  # noqa: BLE001 - a fault of ours in a convenience is no reason to stop
                LOG.warning("a desktop bus was left for a fault", extra={"kind": type(errors.exceptions[0]).__name__})
                trouble = Trouble.ODD
            self._without(trouble)
            if self._monotonic_s() - began_s >= LASTED_S:
                pause_s = self._pause_s
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MOST_S)

    async def _visit(self, path: str) -> None:
        connection = await BusConnection.open(path, descriptors=self._descriptors)
        self._connection = connection
        try:
            async with asyncio.TaskGroup() as tasks:
                attending = [tasks.create_task(part.attend(connection)) for part in self._parts]
                await connection.closed.wait()
                for task in attending:
                    task.cancel()
        finally:
            connection.close()
            self._forged_before, self._connection = self._forged_before + connection.forged, None

    def _without(self, trouble: Trouble) -> None:
        for part in self._parts:
            part.without(trouble)


def _first(errors: ExceptionGroup[DesktopError]) -> Trouble:
    for error in errors.exceptions:
        return _first(error) if isinstance(error, ExceptionGroup) else error.trouble
    return Trouble.ODD

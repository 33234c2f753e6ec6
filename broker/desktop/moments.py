"""Moments at which the vault is locked: one request at a time, worked on apart from the bus that told of it.

A lock that has begun is finished though the bus ends meanwhile. Locking what is locked already changes nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.contract.reasons import LockReason

LOG = logging.getLogger("doorward.desktop")


class Moments:
    """`lock` is called with why, by `work` alone."""

    def __init__(self, lock: Callable[[LockReason], Awaitable[object]]) -> None:
        self._lock = lock
        self._due: dict[LockReason, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()

    def come(self, moment: LockReason) -> asyncio.Future[None]:
        """It is now. The future is done when the vault was locked for it, or could not be."""
        done = self._due.get(moment)
        if done is None:
            done = self._due[moment] = asyncio.get_running_loop().create_future()
        self._wake.set()
        return done

    async def work(self) -> None:
        """Until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for moment in list(self._due):
                done = self._due.pop(moment)
                try:
                    await self._lock(moment)
                except Exception as cause:  # noqa: BLE001 - it locks in memory whatever fails; the next moment counts too
                    LOG.warning("a lock of the vault ended with a fault", extra={"kind": type(cause).__name__})
                finally:
                    if not done.done():
                        done.set_result(None)

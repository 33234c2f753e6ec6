"""Markers that commands left on hosts: in which store each claims its id, and the end of those that are of no use.

A marker goes a day after its operation was settled, over a connection that is there already, once an hour a host at
most. What is not settled is never asked about, and a host leaves a fence where it is. Nobody waits for it, and nothing
fails by it: what was not taken away now is asked about later.
"""

import asyncio
import logging

from broker.contract.wire import JsonObject
from broker.core.events import AuditEvent, EventName
from broker.core.gate import Permit
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.lookup import MAX_COLLECTED
from broker.core.ssh.outcome import StoreSeen
from broker.executors.by_channel import Collect
from broker.operations.ledger import LedgerStore
from broker.ports import AuditLog, Clock

LOG = logging.getLogger("doorward.markers")
EVERY_S = 3600.0


class HostMarkers:
    """Implements by_channel.Markers."""

    def __init__(self, *, ledger: LedgerStore, audit: AuditLog, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._ledger = ledger
        self._audit = audit
        self._clock = clock
        self._tasks = tasks
        self._next_s: dict[str, float] = {}  # by place

    async def bound(self, correlation_id: str, store: StoreSeen) -> None:
        await self._ledger.bound(correlation_id, store)

    def used(self, permit: Permit, collect: Collect) -> None:
        if not isinstance(permit.frozen, FrozenSsh):
            return
        place, now_s = permit.frozen.host.url, self._clock.monotonic_s()
        if now_s < self._next_s.get(place, now_s):
            return
        self._next_s = {at: due_s for at, due_s in self._next_s.items() if due_s > now_s} | {place: now_s + EVERY_S}
        work = self._collect(permit, permit.frozen, collect)
        try:
            self._tasks.create_task(work)
        except RuntimeError:  # the daemon stops
            work.close()

    async def _collect(self, permit: Permit, frozen: FrozenSsh, collect: Collect) -> None:
        place = frozen.host.url
        try:
            settled = await self._ledger.old_markers(place, limit=MAX_COLLECTED)
            if not settled or not self._audit.room():
                return
            about: JsonObject = {
                "host": frozen.host.name,
                "place": place,
                "asked": len(settled),
                "over": permit.correlation_id,
            }
            await self._audit.append(self._event(EventName.MARKERS_ASKED, about))
            gone = await collect(permit, settled)
            if gone is None:
                return
            await self._ledger.forget_markers(settled)
            self._audit.post(self._event(EventName.MARKERS_COLLECTED, {**about, "gone": gone}))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no reason for the daemon to end
            LOG.warning("old markers on a host were not collected: %s", type(error).__name__)

    def _event(self, name: EventName, fields: JsonObject) -> AuditEvent:
        return AuditEvent(name=name, at_ms=self._clock.now_ms(), fields=fields)

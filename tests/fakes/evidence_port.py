"""Collections on record in memory, and what a human's answer begins, kept for the test to look at."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from broker.core.evidence import EvidenceRecord
from broker.core.identity import Caller
from broker.core.resolve import HttpAsk
from broker.ports import Clock, Recollection

Walk: TypeAlias = Callable[[Recollection], None]


class MemoryEvidence:
    """Implements ports.EvidenceStore."""

    def __init__(self, *, clock: Clock) -> None:
        self.records: list[EvidenceRecord] = []
        self.fault: Exception | None = None  # raised by every look
        self.record_fault: Exception | None = None  # raised where one is to be kept
        self._clock = clock

    async def record(self, record: EvidenceRecord) -> EvidenceRecord:
        if self.record_fault is not None:
            raise self.record_fault
        kept = replace(record, id=f"ev_{len(self.records) + 1:032x}")
        self.records.append(kept)
        await asyncio.sleep(0)
        return kept

    async def find(self, anchor_id: str, operation: str) -> tuple[EvidenceRecord, ...]:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        return tuple(
            record
            for record in self.records
            if (record.anchor_id, f"{record.service}.{record.operation}") == (anchor_id, operation)
            and record.expires_at_ms > self._clock.now_ms()
        )


class MemoryFollowUps:
    """Implements ports.FollowUps. `walk` is what a collection does; `begun` what was begun instead of a request."""

    def __init__(self) -> None:
        self.can_collect = True
        self.walk: Walk = lambda _: None
        self.collected: list[Recollection] = []
        self.begun: list[tuple[HttpAsk, Caller, str | None, str]] = []
        self.is_full = False
        self.read: list[tuple[str, Caller]] = []
        self.look: Callable[[str], Awaitable[object]] = _nothing_seen

    async def collect(self, wanted: Recollection) -> None:
        await asyncio.sleep(0)
        self.collected.append(wanted)
        self.walk(wanted)

    async def read_back(self, correlation_id: str, *, caller: Caller) -> None:
        await asyncio.sleep(0)
        self.read.append((correlation_id, caller))
        await self.look(correlation_id)

    def begin(self, ask: HttpAsk, *, caller: Caller, says: str | None, previous: str) -> str | None:
        self.begun.append((ask, caller, says, previous))
        return None if self.is_full else f"op_{len(self.begun):044x}"


async def _nothing_seen(_: str) -> None:
    return

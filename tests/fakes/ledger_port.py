"""A ledger in memory. Envelopes are kept as bytes, so that what comes back is what a file would give back."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from broker.contract.wire import JsonObject, dump, parse_object
from broker.core.ledger import Attempt, AttemptState, Doubt, are_one_change

Happening: TypeAlias = Callable[[], None]


class MemoryLedger:
    """Implements ports.Ledger."""

    def __init__(self) -> None:
        self.fault: Exception | None = None  # raised by the next call of begin or finish
        self.meanwhile: Happening = lambda: None  # what happens while the ledger is read
        self._attempts: dict[str, Attempt] = {}
        self._envelopes: dict[str, bytes] = {}

    async def find(self, anchor_id: str, request_id: str) -> Attempt | None:
        await self._read()
        for attempt in self.attempts:
            if (attempt.anchor_id, attempt.request_id) == (anchor_id, request_id):
                return attempt
        return None

    async def doubts(self, change_key: str) -> tuple[Doubt, ...]:
        await self._read()
        return tuple(
            Doubt(
                correlation_id=attempt.correlation_id,
                session_id=attempt.session_id,
                agent=attempt.agent,
                operation=attempt.operation,
                summary=attempt.summary,
                sent_at_ms=attempt.started_at_ms,
                request_digest=attempt.request_digest,
                idempotency_key=attempt.idempotency_key,
            )
            for attempt in self.attempts
            if attempt.state is AttemptState.IN_DOUBT
            and attempt.change_key is not None
            and are_one_change(attempt.change_key, change_key)
        )

    async def begin(self, attempt: Attempt) -> int:
        self._fail()
        if attempt.correlation_id in self._attempts:
            raise ValueError("this attempt was begun before")
        self._attempts[attempt.correlation_id] = attempt
        await asyncio.sleep(0)
        return len(self._attempts)

    async def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject) -> None:
        self._fail()
        self._put(correlation_id, AttemptState.IN_DOUBT if in_doubt else AttemptState.DONE)
        self._envelopes[correlation_id] = dump(envelope)
        await asyncio.sleep(0)

    async def abandon(self, correlation_id: str) -> None:
        self._fail()
        del self._attempts[correlation_id]
        await asyncio.sleep(0)

    async def settle_by_repeat(
        self, correlation_id: str, settlement: JsonObject, record: Callable[[], Awaitable[object]]
    ) -> bool:
        self._fail()
        if self._attempts[correlation_id].state is not AttemptState.IN_DOUBT:
            return False
        await record()
        self._put(correlation_id, AttemptState.SETTLED)
        self._envelopes[correlation_id] = dump(settlement)
        return True

    def interrupt(self) -> None:
        """What a daemon finds at its start that died in the middle of everything."""
        for attempt in self.attempts:
            if attempt.state is AttemptState.RUNNING:
                self._put(attempt.correlation_id, AttemptState.IN_DOUBT)

    def settle(self, correlation_id: str) -> None:
        self._put(correlation_id, AttemptState.SETTLED)

    def state(self, correlation_id: str) -> AttemptState | None:
        attempt = self._attempts.get(correlation_id)
        return None if attempt is None else attempt.state

    @property
    def attempts(self) -> list[Attempt]:
        kept = self._envelopes
        return [
            replace(attempt, envelope=parse_object(kept[key], max_bytes=1 << 24) if key in kept else None)
            for key, attempt in self._attempts.items()
        ]

    def _put(self, correlation_id: str, state: AttemptState) -> None:
        self._attempts[correlation_id] = replace(self._attempts[correlation_id], state=state)

    async def _read(self) -> None:
        await asyncio.sleep(0)
        self.meanwhile()

    def _fail(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

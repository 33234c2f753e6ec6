"""Runs under way in memory: claims of request ids, what a poll is told, and results that others wait for."""

import asyncio
from dataclasses import dataclass, field

from broker.contract.wire import JsonObject


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    envelope: JsonObject | None = None
    pending: JsonObject | None = None
    sent: bool = False
    claim: tuple[str, str] | None = None


class MemoryRuns:
    """Implements ports.Runs."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self._claims: dict[tuple[str, str], tuple[str, str]] = {}

    def start(self, correlation_id: str) -> None:
        self.runs[correlation_id] = Run()

    def end(self, correlation_id: str, envelope: JsonObject | None) -> None:
        """The run is over; without an envelope where a fault of the broker's own ended it."""
        run = self.runs[correlation_id]
        run.envelope = envelope
        if run.claim is not None:
            del self._claims[run.claim]
        run.ended.set()

    def claim(self, anchor_id: str, request_id: str, digest: str, correlation_id: str) -> tuple[str, str] | None:
        key = (anchor_id, request_id)
        holder = self._claims.get(key)
        if holder is None:
            self._claims[key] = (correlation_id, digest)
            self.runs[correlation_id].claim = key
        return holder

    def waits(self, correlation_id: str, pending: JsonObject) -> None:
        self.runs[correlation_id].pending = pending

    def dispatched(self, correlation_id: str, *, is_write: bool) -> None:  # noqa: ARG002
        run = self.runs[correlation_id]
        run.sent, run.pending = True, None

    async def result(self, correlation_id: str) -> JsonObject | None:
        run = self.runs.get(correlation_id)
        if run is None:
            return None
        await run.ended.wait()
        return run.envelope

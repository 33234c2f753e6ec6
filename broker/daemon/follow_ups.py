"""What a human's answer to a card begins: a collection, or a request for less, each a run of its own in the table."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from broker.contract.reasons import Category
from broker.contract.wire import JsonObject
from broker.core.collect.budget import Wish
from broker.core.collect.request import CollectAsk
from broker.core.identity import Caller
from broker.core.resolve import HttpAsk
from broker.ports import Clock, Recollection
from broker.server.agent_routes import new_correlation_id
from broker.server.runs import Overloaded, Run, RunTable, Stopping
from broker.steps import Received

Perform: TypeAlias = Callable[[Received], Awaitable[JsonObject]]

Settle: TypeAlias = Callable[[str, str, Caller], Awaitable[JsonObject]]

ENDED_S = 900.0  # a walk, and the card that may come before it


class FollowUpRuns:
    """Implements ports.FollowUps. `perform` and `settle` are set once there is something to perform with."""

    def __init__(self, *, runs: RunTable, clock: Clock) -> None:
        self.perform: Perform | None = None
        self.settle: Settle | None = None
        self._runs = runs
        self._clock = clock

    @property
    def can_collect(self) -> bool:
        return self.perform is not None

    async def read_back(self, correlation_id: str, *, caller: Caller) -> None:
        settle, name = self.settle, new_correlation_id(self._clock.now_ms())
        if settle is None:
            return
        try:
            run = self._runs.start(name, caller.anchor.id, lambda: settle(name, correlation_id, caller))
        except (Overloaded, Stopping):
            return
        with suppress(TimeoutError):  # it goes on; the card is shown with what is in doubt still
            async with asyncio.timeout(ENDED_S):
                await run.ended.wait()

    async def collect(self, wanted: Recollection) -> None:
        """Returns when the walk has ended, or could not begin: the record of it, or none, is what counts."""
        ask = CollectAsk(
            service=wanted.service,
            operation=wanted.operation,
            args=wanted.args,
            wish=Wish(seconds=wanted.seconds),
            cursor=wanted.cursor,
        )
        told = await self._collected(ask, wanted)
        if wanted.cursor is not None and told is not None and told["category"] == Category.INVALID_REQUEST.value:
            await self._collected(replace(ask, cursor=None), wanted)  # the place is lost: from the beginning

    async def _collected(self, ask: CollectAsk, wanted: Recollection) -> JsonObject | None:
        run = self._start(ask, caller=wanted.caller, says=None, previous=wanted.previous_correlation_id)
        if run is None:
            return None
        try:
            async with asyncio.timeout(ENDED_S):
                await run.ended.wait()
        except TimeoutError:  # it goes on; the card is shown with what is on record now
            return None
        return run.answer

    def begin(self, ask: HttpAsk, *, caller: Caller, says: str | None, previous: str) -> str | None:
        run = self._start(ask, caller=caller, says=says, previous=previous)
        return None if run is None else run.correlation_id

    def _start(self, ask: HttpAsk | CollectAsk, *, caller: Caller, says: str | None, previous: str) -> Run | None:
        perform, correlation_id = self.perform, new_correlation_id(self._clock.now_ms())
        if perform is None:
            return None
        received = Received(
            correlation_id=correlation_id,
            caller=caller,
            ask=ask,
            body_digest="",
            says=says,
            previous_correlation_id=previous,
        )
        try:
            return self._runs.start(correlation_id, caller.anchor.id, lambda: perform(received))
        except (Overloaded, Stopping):
            return None

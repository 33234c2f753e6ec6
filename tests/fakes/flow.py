"""The pipeline over small real ports. Whatever it answers is held against the schema and the order of the steps."""

import asyncio
import json
import re
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any

import jsonschema_rs

from broker.contract.schemas import schema
from broker.contract.wire import JsonObject, dump
from broker.core.approval import Happening
from broker.core.asks import Asked
from broker.core.identity import Caller
from broker.core.ledger import AttemptState
from broker.core.refusals import Refusal
from broker.core.reply import Result
from broker.pipeline import Pipeline
from broker.ports import ApprovalDesk
from broker.proof import Proofs
from broker.steps import Received
from broker.walk import Walker
from tests.fakes import market
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.desk_port import Card, MemoryDesk
from tests.fakes.diagnostics_port import MemoryDiagnostics
from tests.fakes.evidence_port import MemoryEvidence, MemoryFollowUps
from tests.fakes.executor_port import ScriptedExecutor
from tests.fakes.ledger_port import MemoryLedger
from tests.fakes.policy_port import HeldPolicy
from tests.fakes.runs_port import MemoryRuns
from tests.fakes.sessions_port import MemorySessions
from tests.fakes.vault_ports import MemoryVault
from tests.fakes.walks_port import MemoryWalks

LIMIT_S = 60.0
_ENDINGS = {"remote.answered", "deadline.expired", "transport.failed"}
_ORDER = re.compile(
    r"action\.requested "
    r"(?:policy\.decided "
    r"(?:approval\.requested approval\.decided )*"  # again after a human chose to collect
    r"(?:(?:dispatch\.started (?:remote\.answered|deadline\.expired|transport\.failed) )*"
    r"dispatch\.started (?:remote\.answered|deadline\.expired|transport\.failed) "
    r"(?:evidence\.recorded )?(?:reconcile\.settled )*)?"
    r")?action\.result "
)


@cache
def result_schema() -> Any:
    return jsonschema_rs.validator_for(schema("result"), offline=True)


class Flow:
    """One daemon's worth of parts."""

    def __init__(self, *, desk: ApprovalDesk | None = None) -> None:
        self.clock = SetClock()
        self.audit = MemoryAudit()
        self.diagnostics = MemoryDiagnostics()
        self.policies = HeldPolicy(market.POLICY)
        self.vault = MemoryVault()
        self.vault.put("market", market.TOKEN, market.BASE_URL)
        self.sessions = MemorySessions(policies=self.policies, clock=self.clock)
        self.desk = MemoryDesk(audit=self.audit, clock=self.clock)
        self.executor = ScriptedExecutor()
        self.ledger = MemoryLedger()
        self.runs = MemoryRuns()
        self.evidence = MemoryEvidence(clock=self.clock)
        self.follow_ups = MemoryFollowUps()
        self.walks = MemoryWalks()
        self.caller = market.agent()
        self.pipeline = Pipeline(
            policies=self.policies,
            vault=self.vault,
            sessions=self.sessions,
            desk=desk or self.desk,
            executor=self.executor,
            audit=self.audit,
            diagnostics=self.diagnostics,
            ledger=self.ledger,
            runs=self.runs,
            proofs=Proofs(store=self.evidence, follow_ups=self.follow_ups, vault=self.vault, clock=self.clock),
            walker=Walker(
                executor=self.executor,
                sessions=self.sessions,
                vault=self.vault,
                walks=self.walks,
                evidence=self.evidence,
                clock=self.clock,
                pause=self._pause,
            ),
            clock=self.clock,
        )
        self._count = 0

    def received(
        self,
        ask: Asked | Refusal,
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        says: str | None = None,
        previous: str | None = None,
        evidence: tuple[str, ...] = (),
    ) -> Received:
        self._count += 1
        return Received(
            correlation_id=f"op_{self._count:044x}",
            caller=caller or self.caller,
            ask=ask,
            body_digest="sha256:" + "0" * 64,
            request_id=request_id,
            says=says,
            previous_correlation_id=previous,
            evidence=evidence,
        )

    async def _pause(self, seconds: float) -> None:
        """Time passes at once here."""
        self.clock.advance(seconds=round(seconds))
        await asyncio.sleep(0)

    async def perform(self, received: Received) -> JsonObject:
        """One request, to its end."""
        correlation_id = received.correlation_id
        self.runs.start(correlation_id)
        envelope: JsonObject | None = None
        try:
            async with asyncio.timeout(LIMIT_S):
                outcome = await self.pipeline.perform(received)
            envelope = outcome.envelope
        finally:
            self.runs.end(correlation_id, envelope)
        faults = [fault.message for fault in result_schema().iter_errors(as_json(envelope))]
        assert [] == faults
        self.check_trail(correlation_id, recorded=isinstance(outcome, Result))
        return envelope

    async def ask(
        self,
        ask: Asked | Refusal,
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        says: str | None = None,
    ) -> JsonObject:
        """A request that needs no human, or that is refused before one is asked."""
        return await self.perform(self.received(ask, caller=caller, request_id=request_id, says=says))

    async def ask_and_answer(
        self,
        ask: Asked,
        happening: Happening = Happening.APPROVED,
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        scope: str = "once",
        reason: str | None = None,
    ) -> JsonObject:
        """A request whose one card ends as told."""
        async with self.asking(ask, caller=caller, request_id=request_id) as (card, answer):
            self.desk.settle(card, happening, scope=scope, reason=reason)
        return answer.result()

    def asking(
        self, ask: Asked, *, caller: Caller | None = None, request_id: str | None = None, says: str | None = None
    ) -> "Asking":
        """A request whose card waits while the block runs; the block has to settle it."""
        return Asking(self, self.received(ask, caller=caller, request_id=request_id, says=says))

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not true():  # noqa: ASYNC110 - it waits for whatever a test names
                await asyncio.sleep(0)

    async def doubt(self, ask: Asked = market.TIP, *, caller: Caller | None = None) -> str:
        """Bring a change into doubt; returns the attempt's id."""
        self.executor.answers.append(market.LOST)
        received = self.received(ask, caller=caller)
        await self.perform(received)
        assert AttemptState.IN_DOUBT is self.ledger.state(received.correlation_id)
        return received.correlation_id

    async def doubt_after_yes(self, ask: Asked, *, caller: Caller | None = None) -> str:
        """The same for a change that a human is asked about."""
        self.executor.answers.append(market.LOST)
        await self.ask_and_answer(ask, caller=caller)
        assert AttemptState.IN_DOUBT is self.ledger.state(self.last)
        return self.last

    def check_trail(self, correlation_id: str, *, recorded: bool) -> None:
        """One event per state, in the order of the steps; without a receipt there is no end."""
        names = self.audit.names(correlation_id)
        told = "".join(f"{name} " for name in names)
        if recorded:
            assert _ORDER.fullmatch(told), told
        else:
            assert "action.result" not in names, told
            assert len([name for name in names if name in _ENDINGS]) <= names.count("dispatch.started") <= 1, told

    @property
    def last(self) -> str:
        """The id of the request that was made last."""
        return f"op_{self._count:044x}"

    @property
    def leased(self) -> int:
        return sum(self.vault.leases.values())


class Asking:
    """A request under way, from its card to its answer."""

    def __init__(self, flow: Flow, received: Received) -> None:
        self._flow = flow
        self._received = received
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> tuple[Card, asyncio.Task[JsonObject]]:
        flow, before = self._flow, len(self._flow.desk.cards)
        await self._tasks.__aenter__()
        task = self._tasks.create_task(flow.perform(self._received))
        await flow.until(lambda: len(flow.desk.cards) > before or task.done())
        assert not task.done(), task.result()
        return flow.desk.cards[-1], task

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._tasks.__aexit__(kind, error, trace)


def as_json(envelope: JsonObject) -> Any:
    """The envelope as a client reads it."""
    return json.loads(dump(envelope))


def gist(envelope: JsonObject) -> tuple[str, str, str, str]:
    """The four words that an agent acts on."""
    return tuple(str(envelope[name]) for name in ("category", "code", "retry", "remote_effect"))  # type: ignore[return-value]  # four names, four words

"""The pipeline over the real desk, run table and ledger file: what the small ports promise, these keep."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.approvals.answers import Answer
from broker.approvals.desk import Desk
from broker.contract.wire import JsonObject, JsonValue, dump
from broker.core.resolve import HttpAsk
from broker.core.secret import Secret
from broker.operations.ledger import LedgerStore
from broker.pipeline import Pipeline
from broker.proof import Proofs
from broker.server.runs import RunTable
from broker.steps import Received
from broker.walk import Walker
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist, result_schema
from tests.fakes.walks_port import MemoryWalks


class RealFlow:
    """As Flow, over parts of the daemon; only vault, sessions, log and far side are in memory."""

    def __init__(self, directory: Path, tasks: asyncio.TaskGroup) -> None:
        self.around = Flow()
        around = self.around
        self.desk = Desk(
            audit=around.audit,
            clock=around.clock,
            log_id="log-1",
            verify=lambda _, signature: "key-1" if signature == b"yes" else None,
            present=lambda: True,
            changed=lambda _, __: None,
            mute=lambda _, __: None,
        )
        self.ledger = LedgerStore(directory / "ledger.db", now_ms=around.clock.now_ms)
        self.ledger.unlock(seal_key=Secret(b"s" * 32), fingerprint_key=Secret(b"f" * 32))
        self.runs = RunTable(tasks=tasks, monotonic_s=around.clock.monotonic_s)
        self.pipeline = Pipeline(
            policies=around.policies,
            vault=around.vault,
            sessions=around.sessions,
            desk=self.desk,
            executor=around.executor,
            audit=around.audit,
            diagnostics=around.diagnostics,
            ledger=self.ledger,
            runs=self.runs,
            walker=Walker(
                executor=around.executor,
                sessions=around.sessions,
                vault=around.vault,
                walks=MemoryWalks(),
                evidence=around.evidence,
                clock=around.clock,
            ),
            proofs=Proofs(store=around.evidence, follow_ups=around.follow_ups, vault=around.vault, clock=around.clock),
            clock=around.clock,
        )

    def start(self, ask: HttpAsk, *, request_id: str | None = None) -> str:
        received = self.around.received(ask, request_id=request_id)
        self.runs.start(received.correlation_id, received.caller.anchor.id, lambda: self._perform(received))
        return received.correlation_id

    async def _perform(self, received: Received) -> JsonObject:
        return (await self.pipeline.perform(received)).envelope

    async def end(self, correlation_id: str) -> JsonObject:
        run = self.runs.find(correlation_id, self.around.caller.anchor.id)
        assert run is not None
        async with asyncio.timeout(60):
            envelope = await self.runs.wait(run, 60)
        assert [] == list(result_schema().iter_errors(as_json(envelope)))
        self.around.check_trail(correlation_id, recorded=True)
        return envelope

    async def ask(self, ask: HttpAsk, *, request_id: str | None = None) -> JsonObject:
        return await self.end(self.start(ask, request_id=request_id))

    async def card(self) -> str:
        """The one card that waits."""
        await self.around.until(lambda: self.desk.pending == 1)
        return str(self.desk.listing("pending")[0]["id"])

    async def approve(self, *, scope: str = "once") -> None:
        card_id = await self.card()
        waiting, served = self.desk.served(card_id, "viewer")
        self.around.clock.advance(seconds=2)
        card = as_json(waiting.card)
        offer = card["yes"]["session"] if scope == "session" else {"max_uses": None, "max_age_s": None}
        statement: dict[str, JsonValue] = {
            "approval_id": card_id,
            "request_digest": card["exact"]["request_digest"],
            "card_digest": waiting.digest,
            "decision": "approve",
            "choice": None,
            "scope": scope,
            "max_uses": offer["max_uses"],
            "max_age_s": offer["max_age_s"],
            "reason": None,
            "policy_digest": market.DIGEST,
            "log_id": "log-1",
            "vault_term": card["vault_term"],
            "nonce": served.nonce,
            "decided_at_ms": self.around.clock.now_ms(),
        }
        answer = Answer(
            decision="approve", scope=scope, confirm=card["typed_word"], statement=statement, signature=b"yes"
        )  # fmt: skip
        await self.desk.answer(card_id, answer, "viewer")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


@asynccontextmanager
async def real_flow(directory: Path) -> AsyncIterator[RealFlow]:
    async with asyncio.TaskGroup() as tasks:
        flow = RealFlow(directory, tasks)
        yield flow
    flow.ledger.close()


async def test_a_signed_yes_sends_exactly_what_was_shown(directory: Path) -> None:
    async with real_flow(directory) as flow:
        started = flow.start(market.CREATE)
        await flow.approve()
        envelope = await flow.end(started)
        decided = next(
            event for event in flow.around.audit.trail(started) if event.name.value == "approval.decided"
        )  # fmt: skip

    assert gist(envelope)[:2] == ("success", "ok")
    assert as_json(envelope)["gate"]["call"] == "granted"
    assert as_json(decided.fields)["statement"]["request_digest"] == flow.around.executor.permits[0].frozen.digest


async def test_a_no_needs_no_signature_and_sends_nothing(directory: Path) -> None:
    async with real_flow(directory) as flow:
        started = flow.start(market.LISTING)
        await flow.desk.answer(await flow.card(), Answer(decision="deny", reason="not now"), "viewer")
        envelope = await flow.end(started)

    assert gist(envelope)[:2] == ("session_denied", "declined")
    assert as_json(envelope)["gate"]["session"] == "denied"
    assert [] == flow.around.executor.permits


async def test_a_yes_for_the_session_is_used_until_it_is_used_up(directory: Path) -> None:
    async with real_flow(directory) as flow:
        started = flow.start(market.LISTING)
        await flow.approve(scope="session")
        await flow.end(started)
        for _ in range(2):
            await flow.ask(market.LISTING)
        assert 0 == flow.desk.pending
        last = flow.start(market.LISTING)
        await flow.desk.answer(await flow.card(), Answer(decision="deny"), "viewer")
        await flow.end(last)

    assert 3 == len(flow.around.executor.permits)


async def test_a_withdrawn_request_is_not_sent(directory: Path) -> None:
    async with real_flow(directory) as flow:
        started = flow.start(market.CREATE)
        await flow.card()
        assert flow.desk.withdraw(started)
        envelope = await flow.end(started)

    assert gist(envelope) == ("approval_timeout", "withdrawn", "never", "none")
    assert [] == flow.around.executor.permits


async def test_the_same_id_is_told_the_same_bytes_from_memory_and_from_disk(directory: Path) -> None:
    async with real_flow(directory) as flow:
        first, second = flow.start(market.TIP, request_id="r1"), flow.start(market.TIP, request_id="r1")
        told = {dump(await flow.end(first)), dump(await flow.end(second))}
        told.add(dump(await flow.ask(market.TIP, request_id="r1")))
    async with real_flow(directory) as restarted:
        told.add(dump(await restarted.ask(market.TIP, request_id="r1")))

    assert 1 == len(told)
    assert (1, 0) == (len(flow.around.executor.permits), len(restarted.around.executor.permits))


async def test_two_at_one_card_are_sent_once_and_both_are_remembered(directory: Path) -> None:
    async with real_flow(directory) as flow:
        leader = flow.start(market.CREATE)
        await flow.card()
        follower = flow.start(market.CREATE, request_id="r2")
        await flow.around.until(lambda: flow.desk.listing("pending")[0]["joined"] == 2)
        await flow.approve()
        told = {dump(await flow.end(leader)), dump(await flow.end(follower))}
        told.add(dump(await flow.ask(market.CREATE, request_id="r2")))

    assert (1, 1) == (len(told), len(flow.around.executor.permits))


async def test_a_change_in_doubt_stays_so_over_a_restart_and_its_repeat_is_refused(directory: Path) -> None:
    async with real_flow(directory) as flow:
        flow.around.executor.answers.append(market.LOST)
        lost = await flow.ask(market.TIP)
    async with real_flow(directory) as restarted:
        envelope = await restarted.ask(market.ask("tips.give", cents=70))

    assert gist(envelope) == ("reconcile_required", "in_doubt", "reconcile_first", "unknown")
    assert lost["correlation_id"] == envelope["previous_correlation_id"]
    assert [] == restarted.around.executor.permits


async def test_a_lock_in_flight_still_leaves_the_outcome_on_disk(directory: Path) -> None:
    async with real_flow(directory) as flow:
        flow.around.executor.during = flow.ledger.lock
        first = await flow.ask(market.TIP, request_id="r1")
    async with real_flow(directory) as restarted:
        again = await restarted.ask(market.TIP, request_id="r1")

    assert dump(first) == dump(again)

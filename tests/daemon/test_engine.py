"""The engine: whatever goes wrong, the agent is told what is known of the far side, and the daemon lives."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from typing_extensions import override

from broker.contract.schemas import schema
from broker.core.evidence import EvidenceRecord
from broker.core.identity import Caller
from broker.core.ledger import AttemptState
from broker.core.policy.model import Policy
from broker.core.resolve import HttpAsk
from broker.daemon.credential_wants import CredentialWants
from broker.daemon.engine import PipelineEngine
from broker.operations.reconcile import Reconciler
from broker.pipeline import Pipeline
from broker.proof import Proofs
from broker.server.runs import RunTable
from broker.steps import Received
from broker.walk import Walker
from tests.fakes import market, proofs
from tests.fakes.attempts import OP, attempt, opened
from tests.fakes.diagnostics_port import MemoryDiagnostics
from tests.fakes.evidence_port import MemoryEvidence, MemoryFollowUps
from tests.fakes.executor_port import ScriptedExecutor
from tests.fakes.flow import as_json
from tests.fakes.policy_port import HeldPolicy
from tests.fakes.questions import DeskRoom
from tests.fakes.sessions_port import MemorySessions
from tests.fakes.vault_ports import MemoryVault
from tests.fakes.walks_port import MemoryWalks

MINE: dict[str, Any] = {"service": "market", "operation": "market.orders.create", "args": {"name": "leek"}}


def reconcilable() -> Policy:
    """The market's policy, with a match that finds orders in a bare list."""
    shop = market.POLICY.services["market"]
    create = shop.operations["orders.create"]
    assert create.reconcile is not None
    create = replace(create, reconcile=replace(create.reconcile, match="json[?name == $name]"))
    changed = replace(shop, operations={**shop.operations, "orders.create": create})
    return replace(market.POLICY, services={**market.POLICY.services, "market": changed})


class Shop(DeskRoom):
    """An engine over a real ledger, real runs and a real desk."""

    def __init__(self, directory: Path, tasks: asyncio.TaskGroup) -> None:
        super().__init__()
        self.clock.passed_ms = 10_000_000
        self.policies = HeldPolicy(reconcilable())
        self.vault = MemoryVault()
        self.vault.put("market", market.TOKEN, market.BASE_URL)
        self.sessions = MemorySessions(policies=self.policies, clock=self.clock)
        self.executor = ScriptedExecutor()
        self.ledger = opened(directory / "ledger.db", self.clock)
        self.runs = RunTable(tasks=tasks, monotonic_s=self.clock.monotonic_s)
        self.caller = market.agent()
        self.evidence = MemoryEvidence(clock=self.clock)
        sessions: Any = self.sessions
        pipeline = Pipeline(
            policies=self.policies,
            vault=self.vault,
            sessions=self.sessions,
            desk=self.desk,
            executor=self.executor,
            audit=self.audit,
            diagnostics=MemoryDiagnostics(),
            ledger=self.ledger,
            runs=self.runs,
            walker=Walker(
                executor=self.executor,
                sessions=self.sessions,
                vault=self.vault,
                walks=MemoryWalks(),
                evidence=self.evidence,
                clock=self.clock,
            ),
            proofs=Proofs(
                store=self.evidence,
                follow_ups=MemoryFollowUps(),
                vault=self.vault,
                clock=self.clock,
            ),
            clock=self.clock,
        )
        self.engine = PipelineEngine(
            pipeline=pipeline,
            reconciler=Reconciler(ledger=self.ledger, policies=self.policies, audit=self.audit, clock=self.clock),
            ledger=self.ledger,
            runs=self.runs,
            desk=self.desk,
            sessions=sessions,
            policies=self.policies,
            vault=self.vault,
            clock=self.clock,
            broker=market.agent(5000, name="unidentified"),
            wants=CredentialWants(
                wants=self.desk.wants,
                policies=self.policies,
                vault=self.vault,
                sessions=sessions,
                runs=self.runs,
                audit=self.audit,
                clock=self.clock,
            ),
        )

    @override
    def waits(self, correlation_id: str) -> None:
        self.runs.asked(correlation_id)

    async def act(self, ask: HttpAsk, number: int = 1, **more: Any) -> Any:
        """A request as agent.sock would hand it on, to its end."""
        correlation_id = f"op_{number:044x}"
        action = Received(correlation_id=correlation_id, caller=self.caller, ask=ask, body_digest="sha256:0", **more)
        run = self.runs.start(correlation_id, self.caller.anchor.id, lambda: self.engine.perform(action))
        return await self.runs.wait(run, 60)

    async def reconcile(self, target: str = OP, caller: Caller | None = None) -> Any:
        who = caller or self.caller
        run = self.runs.start(
            "op_" + "e" * 44, who.anchor.id, lambda: self.engine.reconcile("op_" + "e" * 44, target, who)
        )
        return await self.runs.wait(run, 60)

    async def doubtful(self) -> None:
        await self.ledger.begin(attempt(**MINE, anchor_id=self.caller.anchor.id))
        await self.ledger.finish(OP, in_doubt=True, envelope={"category": "outcome_unknown", "code": "write_timeout"})


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with asyncio.TaskGroup() as tasks:
        made = Shop(tmp_path, tasks)
        yield made
        made.runs.abandon()
    made.ledger.close()


def gist(envelope: Any) -> tuple[str, ...]:
    return tuple(str(envelope[name]) for name in ("category", "code", "retry", "remote_effect"))


async def test_an_action_goes_through_the_pipeline(shop: Shop) -> None:
    assert ("success", "ok") == gist(await shop.act(market.TIP, request_id="r1"))[:2]
    recorded = await shop.engine.recorded("op_" + "0" * 43 + "1", shop.caller)
    assert recorded is not None
    assert await shop.engine.recorded("op_" + "0" * 43 + "1", market.agent(4712)) is None


async def test_a_fault_before_sending_is_told_as_that(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    shop.policies.policy = None  # type: ignore[assignment]  # what breaks the pipeline

    assert ("broker_unavailable", "internal", "after_human", "none") == gist(await shop.act(market.TIP))
    assert "a request could not be finished" in caplog.text


async def test_a_fault_after_sending_leaves_the_change_in_doubt(shop: Shop) -> None:
    shop.executor.answers.append(ValueError("canary"))

    assert ("broker_unavailable", "internal", "reconcile_first", "unknown") == gist(await shop.act(market.TIP))
    left = await shop.ledger.by_id("op_" + "0" * 43 + "1")
    assert left is not None
    assert AttemptState.IN_DOUBT is left.state
    assert ("reconcile_required", "in_doubt") == gist(await shop.act(market.TIP, 2))[:2]


async def test_a_fault_after_a_read_was_sent_leaves_nothing_in_doubt(shop: Shop) -> None:
    shop.executor.answers.append(ValueError("canary"))

    assert ("broker_unavailable", "internal", "after_human", "none") == gist(await shop.act(market.READ))
    assert 0 == shop.ledger.doubtful


async def test_a_lock_in_the_middle_is_told_as_a_lock_and_recorded_as_one(shop: Shop) -> None:
    shop.ledger.lock()
    original = shop.ledger.doubts

    async def locked(key: str) -> Any:
        shop.vault.lock()
        return await original(key)

    shop.ledger.doubts = locked  # type: ignore[method-assign,assignment]  # the lock comes while the ledger is asked
    assert ("vault_locked", "locked", "after_human", "none") == gist(await shop.act(market.TIP))
    assert "vault_locked" == shop.audit.events[-1].fields["category"]


async def test_a_ledger_that_fails_is_told_and_nothing_is_sent(shop: Shop) -> None:
    there, shop.ledger._db = shop.ledger._db, (closed := sqlite3.connect(":memory:"))
    closed.close()

    assert ("broker_unavailable", "internal", "after_human", "none") == gist(await shop.act(market.TIP))
    assert [] == shop.executor.permits
    shop.ledger._db = there
    assert await shop.ledger.find(shop.caller.anchor.id, "r1") is None


async def test_a_reconcile_over_a_changed_entry_ends_alone(shop: Shop) -> None:
    """A file that somebody wrote to must not be able to end the daemon."""
    await shop.doubtful()
    shop.ledger._db.execute("UPDATE attempts SET attempt = CAST(zeroblob(60) AS BLOB)")
    shop.ledger._db.commit()

    told = await shop.reconcile()
    assert ("broker_unavailable", "internal", "reconcile_first", "unknown") == gist(told)
    assert (OP, f"doorward reconcile {OP}") == (told["previous_correlation_id"], told["next"]["command"])
    assert ("success", "ok") == gist(await shop.act(market.READ, 2))[:2]


async def test_a_reconcile_reads_back_and_settles(shop: Shop) -> None:
    await shop.doubtful()
    shop.executor.answers.append(market.answered(200, b'[{"name":"leek"}]'))
    async with asyncio.TaskGroup() as tasks:
        reconciling = tasks.create_task(shop.reconcile())
        card = await shop.card()
        whole = shop.runs.find("op_" + "e" * 44, shop.caller.anchor.id)
        assert whole is not None
        assert whole.pending is not None, "what the read-back waits for, the reconcile waits for"
        assert "op_" + "e" * 44 == whole.pending["correlation_id"]
        shop.desk.served(card.id, ("a", "control", "session"))
        shop.arm()
        await shop.desk.answer(card.id, shop.yes(card.id), ("a", "control", "session"))

    assert ("success", "reconciled", "never", "applied") == gist(reconciling.result())


async def test_another_process_reconciles_what_is_in_doubt_and_nothing_else(shop: Shop) -> None:
    await shop.ledger.begin(attempt(**MINE, anchor_id=shop.caller.anchor.id))
    told = await shop.reconcile(caller=market.agent(4712))

    assert ("invalid_request", "unknown_correlation_id") == gist(told)[:2]
    assert OP == told["previous_correlation_id"]
    assert ["action.requested", "action.result"] == shop.audit.names("op_" + "e" * 44)
    await shop.ledger.finish(OP, in_doubt=True, envelope={"category": "outcome_unknown", "code": "write_timeout"})
    shop.policies.policy = replace(market.POLICY, rules=())
    again = await shop.reconcile(caller=market.agent(4712))
    assert ("outcome_unknown", "write_timeout", "after_human", "unknown") == gist(again)  # its own gates hold it back
    assert 1 == shop.ledger.doubtful


async def test_a_locked_vault_reconciles_nothing(shop: Shop) -> None:
    await shop.doubtful()
    shop.vault.lock()
    assert ("vault_locked", "locked") == gist(await shop.reconcile())[:2]
    shop.vault.unlock()
    shop.sessions.frozen = True
    assert ("broker_unavailable", "frozen") == gist(await shop.reconcile())[:2]


async def test_what_a_human_began_is_done_though_they_hang_up(shop: Shop) -> None:
    await shop.doubtful()
    async with asyncio.TaskGroup() as tasks:
        reconciling = tasks.create_task(shop.engine.reconcile_for_human(OP))
        card = await shop.card()
        reconciling.cancel()
        await asyncio.sleep(0)
        shop.desk.served(card.id, ("a", "control", "session"))
        shop.arm()
        shop.executor.answers.append(market.answered(200, b'[{"name":"leek"}]'))
        await shop.desk.answer(card.id, shop.yes(card.id), ("a", "control", "session"))
    await shop.runs.idle()

    left = await shop.ledger.by_id(OP)
    assert left is not None
    assert AttemptState.SETTLED is left.state


async def test_a_humans_reconcile_answers_with_an_envelope(shop: Shop) -> None:
    told = await shop.engine.reconcile_for_human("op_" + "7" * 44)

    assert ("invalid_request", "unknown_correlation_id") == gist(told)[:2]


@pytest.mark.parametrize(
    ("ask", "decision", "card", "code"),
    [
        (market.READ, "allow", False, None),
        (market.LISTING, "ask", True, None),
        (market.CREATE, "ask", True, None),
        (market.FORBIDDEN, "deny", False, "rule_denied"),
        (HttpAsk(service="nowhere", method="GET", path="/"), "invalid", False, "unknown_service"),
        (HttpAsk(service="cellar", method="GET", path="/x"), "deny", False, "rule_denied"),
    ],
)
async def test_explaining_says_what_would_happen_and_does_nothing(
    shop: Shop, ask: HttpAsk, decision: str, card: Any, code: str | None
) -> None:
    told: Any = await shop.engine.explain(shop.caller, ask)

    assert (decision, card, code) == (told["decision"], told["card"], told["code"])
    assert not shop.executor.permits
    assert not shop.audit.events
    assert not shop.desk.listing()


def collection(shop: Shop, anchor_id: str) -> EvidenceRecord:
    now_ms = shop.clock.now_ms()
    return EvidenceRecord(
        id="ev_canary",
        anchor_id=anchor_id,
        service="market",
        operation="accounts.list",
        args={"project": "acme"},
        credential="market",
        credential_version=1,
        policy_digest=shop.policies.current().digest,
        id_place="name",
        ids=("ci-2", "row-canary"),
        count=2,
        total=2,
        collected_at_ms=now_ms,
        expires_at_ms=now_ms + 60_000,
        complete=True,
    )


@pytest.mark.parametrize(
    ("whose", "ask", "decision", "state", "unproven"),
    [
        ("nobody", proofs.DELETE, "ask", "none_recorded", 3),
        ("another", proofs.DELETE, "ask", "none_recorded", 3),
        ("mine", proofs.DELETE, "ask", "target_not_covered", 2),
        ("nobody", proofs.CREATE, "deny", "none_recorded", 1),
        ("mine", proofs.CREATE, "ask", "complete", 0),
    ],
)
async def test_explaining_says_how_each_need_stands_and_names_no_record(
    shop: Shop, whose: str, ask: HttpAsk, decision: str, state: str, unproven: int
) -> None:
    shop.policies.policy = proofs.policy()
    if whose != "nobody":
        shop.evidence.records.append(collection(shop, shop.caller.anchor.id if whose == "mine" else "another"))
    told: Any = await shop.engine.explain(shop.caller, ask)

    [need] = told["evidence"]
    is_met = state == "complete"
    assert (decision, state, unproven) == (told["decision"], need["state"], need["unproven"])
    assert "market.accounts.list" == need["operation"]
    assert (None if is_met else "doorward collect market.accounts.list project=acme") == need["command"]
    assert "canary" not in str(told)
    checked = jsonschema_rs.validator_for(schema("explanation"), offline=True)
    assert [] == [fault.message for fault in checked.iter_errors(as_json(told))]


async def test_explaining_knows_of_locks_and_doubts(shop: Shop) -> None:
    await shop.act(market.TIP)
    shop.executor.answers.append(market.LOST)
    await shop.act(market.TIP, 2)
    in_doubt: Any = await shop.engine.explain(shop.caller, market.TIP)
    shop.vault.lock()
    locked: Any = await shop.engine.explain(shop.caller, market.TIP)
    shop.vault.unlock()
    shop.sessions.frozen = True
    frozen: Any = await shop.engine.explain(shop.caller, market.TIP)

    assert ["in_doubt", "locked", "frozen"] == [told["code"] for told in (in_doubt, locked, frozen)]


async def test_a_waiting_request_is_withdrawn_at_the_desk(shop: Shop) -> None:
    async with asyncio.TaskGroup() as tasks:
        acting = tasks.create_task(shop.act(market.CREATE))
        card = await shop.card()
        assert shop.engine.withdraw(card.question.correlation_id)

    assert ("approval_timeout", "withdrawn") == gist(acting.result())[:2]
    assert not shop.engine.withdraw("op_none")

"""T26, of reconciling: its states have one event each too, whatever the read-back comes to."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.contract.result import GateReport
from broker.core.ledger import Attempt
from broker.operations.ledger import LedgerStore
from broker.operations.reconcile import Errand, Reconciler
from tests.fakes import market
from tests.fakes.attempts import ENVELOPE, OP, OTHER, attempt, opened
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.policies import policy_of
from tests.fakes.policy_port import HeldPolicy

BEGIN, END = "begin", "end"
GRAPH = {
    BEGIN: {"reconcile.started", "action.result"},
    "reconcile.started": {"reconcile.settled", "action.result"},
    "reconcile.settled": {"action.result"},
    "action.result": {END},
}
SHOP = """
[services.market]
kind = "http"
base_url = "https://market.example"

[services.market.operations."orders.list"]
request = { method = "GET", path = "/orders" }
effect = "read"

[services.market.operations."orders.list".completeness]
complete_when = "json.more == `false`"
examples.match = [{ status = 200, json = { more = false } }]
examples.no_match = [{ status = 200, json = { more = true } }]

[services.market.operations."orders.create"]
request = { method = "POST", path = "/orders", body = ["name", "count"] }
effect = "write"

[services.market.operations."orders.create".reconcile]
operation = "orders.list"
args = {}
match = "json.orders[?name == $name]"
"""
MINE = {"name": "canary-argument"}
UNKNOWN = {**ENVELOPE, "category": "outcome_unknown", "code": "first_byte_timeout"}
Before = Callable[[LedgerStore], Awaitable[None]]


def read_back(category: str = "success", *orders: Any, complete: bool = True) -> dict[str, Any]:
    return {
        "category": category,
        "code": {"approval_timeout": "approval_expired", "vault_locked": "locked"}.get(category, "ok"),
        "retry": "never",
        "message": "canary",
        "gate": GateReport().to_json(),
        "retry_after_s": None,
        "next": {"action": "none", "command": None},
        "completeness": {"complete": complete},
        "http": {"status": 200, "body_json": {"orders": list(orders), "more": not complete}},
    }


async def doubt(store: LedgerStore) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=True, envelope=UNKNOWN)


async def doubt_of_what_nothing_reads_back(store: LedgerStore) -> None:
    await store.begin(attempt(operation="market.POST"))
    await store.finish(OP, in_doubt=True, envelope=UNKNOWN)


async def settled(store: LedgerStore) -> None:
    await doubt(store)
    await store.settle(OP, {**ENVELOPE, "remote_effect": "applied"})


async def done(store: LedgerStore) -> None:
    await store.begin(attempt())
    await store.finish(OP, in_doubt=False, envelope=ENVELOPE)


async def running(store: LedgerStore) -> None:
    await store.begin(attempt())


WALKS: dict[str, tuple[Before, dict[str, Any]]] = {
    "found": (doubt, read_back("success", MINE)),
    "absent": (doubt, read_back()),
    "not known to be whole": (doubt, read_back("partial", complete=False)),
    "two of them": (doubt, read_back("success", MINE, MINE)),
    "failed": (doubt, read_back("outcome_unknown")),
    "not let through": (doubt, read_back("approval_timeout")),
    "locked": (doubt, read_back("vault_locked")),
    "nothing can": (doubt_of_what_nothing_reads_back, read_back()),
    "settled already": (settled, read_back()),
    "never in doubt": (done, read_back()),
    "under way": (running, read_back()),
}


async def walked(tmp_path: Path, name: str) -> tuple[list[str], Attempt]:
    before, answer = WALKS[name]
    clock, audit, store = SetClock(), MemoryAudit(), opened(tmp_path / "ledger.db", SetClock())
    clock.passed_ms = 10_000_000
    await before(store)
    found = await store.by_id(OP)
    assert found is not None
    reconciler = Reconciler(ledger=store, policies=HeldPolicy(policy_of(SHOP)), audit=audit, clock=clock)

    async def read_again(_: object, __: str) -> dict[str, Any]:
        return answer

    errand = Errand(correlation_id=OTHER, caller=market.agent(), attempt=found, gate=GateReport())
    await reconciler.settle(errand, read_again)
    left = await store.by_id(OP)
    assert left is not None
    store.close()
    return audit.names(OTHER), left


def edges(names: list[str]) -> set[tuple[str, str]]:
    return set(zip([BEGIN, *names], [*names, END], strict=True))


@pytest.mark.parametrize("name", WALKS)
async def test_each_reconcile_has_one_event_per_state_and_one_end(tmp_path: Path, name: str) -> None:
    names, left = await walked(tmp_path, name)

    assert edges(names) <= {(one, other) for one, others in GRAPH.items() for other in others}
    assert {1} == set(Counter(names).values())
    assert "action.result" == names[-1]
    if "reconcile.settled" in names:
        assert "settled" == left.state.value


async def test_the_walks_cover_the_graph(tmp_path: Path) -> None:
    found: set[tuple[str, str]] = set()
    for number, name in enumerate(WALKS):
        place = tmp_path / str(number)
        place.mkdir(0o700)
        found |= edges((await walked(place, name))[0])

    assert {(one, other) for one, others in GRAPH.items() for other in others} == found

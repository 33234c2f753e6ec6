"""T11: every face and every errand goes through the one pipeline, and no executor is called without its permit."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import broker
from broker.contract.result import GateReport
from broker.core._seal import Seal
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.resolve import resolve
from broker.executors.by_channel import ByChannel
from broker.executors.https.client import HttpsExecutor
from broker.executors.ssh import SshExecutor
from broker.ports import Delivery, Executor
from tests.fakes import market
from tests.fakes.flow import Flow

ROOT = Path(broker.__file__).parent


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


LISTENING = {
    "delivery",
    "answer",
    "frames",
    "session",
    "bound",
}  # who is told of the answer and the way there, whose it is


@pytest.mark.parametrize("executor", [Executor, HttpsExecutor, SshExecutor, ByChannel])
def test_an_executor_takes_a_permit_and_nothing_else_that_says_what_is_sent(executor: type) -> None:
    hints = get_type_hints(executor.execute)  # type: ignore[attr-defined]  # each has one

    assert {"permit", "return"} == set(hints) - LISTENING
    assert Permit is hints["permit"]


def test_who_listens_says_nothing_of_what_is_sent() -> None:
    assert {"session_id", "frames", "answer", "host_key"} >= {field.name for field in fields(Delivery)}


def test_a_permit_is_made_by_the_gate_alone() -> None:
    frozen = resolve(market.POLICY, market.CREATE)
    assert isinstance(frozen, FrozenRequest)
    with pytest.raises(TypeError, match="from the gate alone"):
        Permit(
            frozen=frozen, correlation_id="op_1", credential_version=1, vault_term=1, gate=GateReport(), seal=Seal()
        )  # fmt: skip


AFTER_THE_GATE = {"walk.py", "polls.py", "proof.py", "hops.py"}  # pages, looks at work, before a change, redirects


def test_only_what_the_pipeline_hands_a_permit_to_calls_an_executor() -> None:
    calling = {
        path
        for path, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "execute"
        and "executor" in ast.unparse(node.func.value)
    }

    assert AFTER_THE_GATE == calling


def test_only_the_place_that_builds_everything_knows_an_executor() -> None:
    knowing = {
        path.split("/")[0]
        for path, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("broker.executors")
    }

    assert {"daemon", "executors"} == knowing


def test_recheck_alone_gives_out_permits_and_the_pipeline_alone_asks_it() -> None:
    asking = {
        path
        for path, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"recheck", "Permit"}
    }

    assert {"core/gate.py", "steps.py"} == asking


async def test_each_call_has_a_permit_of_its_own() -> None:
    flow = Flow()
    for _ in range(3):
        await flow.ask(market.READ)
    permits = flow.executor.permits

    assert 3 == len({permit.correlation_id for permit in permits})
    assert flow.last == permits[-1].correlation_id


def test_a_permit_for_a_further_read_is_asked_for_where_one_is_held_already() -> None:
    asking = {
        path
        for path, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reading"
    }

    assert AFTER_THE_GATE == asking

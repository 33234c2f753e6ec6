"""What a dry run says of the evidence: the ruling of step 5 itself, with nothing sent, kept or asked."""

from typing import Any

import pytest

from broker.core.asks import resolved
from broker.core.evidence_report import foreseen_part
from broker.core.frozen import FrozenRequest
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Allow, Ask
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk
from broker.proof import Foreseen
from tests.fakes import market
from tests.fakes.proofs import CREATE, DELETE, ProvenFlow


async def foreseen(flow: ProvenFlow, ask: HttpAsk) -> Foreseen:
    policy = flow.policies.current()
    frozen = resolved(policy, ask)
    assert isinstance(frozen, FrozenRequest)
    decision = evaluate(policy, flow.caller, frozen)
    assert isinstance(decision, Allow | Ask)
    return await flow.pipeline.foreseen(policy, flow.caller, frozen, decision)


def told(seen: Foreseen) -> list[Any]:
    return [dict(part) if isinstance(part, dict) else part for part in foreseen_part(seen.proof, service="market")]


async def test_a_need_that_is_met_is_told_as_complete() -> None:
    flow = ProvenFlow()
    await flow.collected()
    seen = await foreseen(flow, DELETE)

    assert isinstance(seen.ruling, Ask)
    (need,) = told(seen)
    assert ("market.accounts.list", "present", "complete", 3, 0, None) == tuple(
        need[key] for key in ("operation", "claim", "state", "targets", "unproven", "command")
    )


@pytest.mark.parametrize(("ask", "ruling"), [(DELETE, Ask), (CREATE, Refusal)])
async def test_a_gap_is_told_with_what_would_close_it(ask: HttpAsk, ruling: type) -> None:
    flow = ProvenFlow()
    seen = await foreseen(flow, ask)

    assert isinstance(seen.ruling, ruling)
    (need,) = told(seen)
    assert ("none_recorded", "doorward collect market.accounts.list project=acme") == (need["state"], need["command"])


async def test_nothing_is_sent_kept_or_asked_by_it() -> None:
    flow = ProvenFlow()
    await foreseen(flow, DELETE)

    assert ([], [], [], []) == (flow.executor.permits, flow.desk.cards, flow.ledger.attempts, flow.audit.events)


async def test_without_needs_there_is_nothing_to_tell() -> None:
    flow = ProvenFlow()
    flow.policies.policy = market.POLICY
    seen = await foreseen(flow, market.CREATE)

    assert [] == told(seen)

"""How long a collection stays on record: as long as a rule leans on such a one, an hour at least and a day at most."""

from dataclasses import replace

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.policy.declarations import EvidenceNeed
from broker.core.policy.model import Rule
from tests.fakes import market, proofs
from tests.fakes.flow import Flow
from tests.fakes.walked import collecting, policy_with
from tests.flow.test_collect import STABLE, THREE

HOUR_MS = 3_600_000


def need(operation: str, max_age_s: int) -> EvidenceNeed:
    return replace(proofs.NEEDS, operation=operation, max_age_s=max_age_s)


def wanting(number: int, operation: str, max_age_s: int) -> Rule:
    return proofs.rule(f"need-{number}", "tips.give", ApprovalRule.NONE, evidence=need(operation, max_age_s))


@pytest.mark.parametrize(
    ("needs", "hours"),
    [
        ([], 1),
        ([("things.list", 900)], 1),
        ([("things.list", 7200)], 2),
        ([("things.list", 7200), ("things.list", 86_400), ("things.list", 60)], 24),
        ([("prices.list", 86_400)], 1),
        ([("things.list", 90_000)], 24),
    ],
)
async def test_a_collection_is_kept_as_long_as_the_longest_need_says(needs: list[tuple[str, int]], hours: int) -> None:
    flow = Flow()
    flow.policies.policy = policy_with(STABLE, *(wanting(number, *one) for number, one in enumerate(needs)))
    flow.executor.answers += THREE
    await flow.ask(collecting())

    [record] = flow.evidence.records
    assert hours * HOUR_MS == record.expires_at_ms - record.collected_at_ms


async def test_a_collection_that_was_made_hours_ago_still_proves_where_a_rule_says_so() -> None:
    listed = EvidenceNeed(
        operation="things.list", args={}, claim=proofs.NEEDS.claim, covers="{cents}", id="id", max_age_s=14_400
    )
    flow = Flow()
    rule = proofs.rule("tip-known", "tips.give", ApprovalRule.NONE, evidence=listed)
    flow.policies.policy = policy_with(STABLE, rule)
    flow.executor.answers += THREE
    await flow.ask(collecting())
    tip = market.ask("tips.give", cents=3)

    flow.clock.advance(seconds=3 * 3600)
    assert "success" == (await flow.ask(tip))["category"]
    flow.clock.advance(seconds=2 * 3600)
    assert "evidence_required" == (await flow.ask(tip))["category"]

"""What no part offers, and a race may still bring: nothing is sent for it, and nothing breaks."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.evidence_gate import Proof
from broker.core.frozen import FrozenRequest
from broker.core.http_secrets import Claims, QuerySecret
from broker.core.policy.model import Rule
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.core.secret import Secret
from broker.proof import Proofs
from broker.steps import claims_of, shield_of
from tests.fakes import market, proofs
from tests.fakes.flow import Flow, gist
from tests.fakes.proofs import DELETE, LOOK, NEEDS, ProvenFlow, rule

UNTOLD: Rule = rule("delete-known", "accounts.delete", evidence=replace(NEEDS, args={"project": "{zone}"}))


def test_a_credential_that_is_gone_claims_nothing_and_is_noticed_elsewhere() -> None:
    flow = Flow()
    frozen = resolve(market.POLICY, market.READ)
    assert isinstance(frozen, FrozenRequest)

    assert Claims(headers=frozenset({"authorization"})) == claims_of(flow.vault, "market")
    assert Claims() == claims_of(flow.vault, "sold")
    flow.vault.credentials.clear()
    assert Claims() == shield_of(frozen, flow.vault, None, market.LOST).claims


async def test_collecting_what_can_not_be_said_collects_nothing_and_asks_again() -> None:
    flow = ProvenFlow(UNTOLD)

    async with flow.asking(DELETE) as (card, answer):
        flow.desk.choose(card, "collect")
        await flow.until(lambda: len(flow.desk.cards) == 2)
        flow.desk.choose(flow.desk.cards[-1], "limit")

    assert [] == flow.follow_ups.collected
    assert [] == flow.follow_ups.begun
    assert ("approval_timeout", "superseded", "after_human", "none") == gist(answer.result())
    assert [] == flow.executor.permits


async def test_a_look_that_can_not_be_made_is_a_fault_of_ours_and_sends_nothing() -> None:
    flow = ProvenFlow()
    frozen = resolve(proofs.policy(), proofs.DROP)
    assert isinstance(frozen, FrozenRequest)
    lost = (proofs.RULES[2], replace(LOOK, operation="accounts.sold"))
    named: Any = SimpleNamespace(policy=proofs.policy(), frozen=frozen, proof=Proof(prechecks=(lost,)))
    permit: Any = None
    looking = Proofs(store=flow.evidence, follow_ups=flow.follow_ups, vault=flow.vault, clock=flow.clock)

    with pytest.raises(TypeError):
        await looking.moved(named, permit, flow.executor, None)
    assert [] == flow.executor.permits


def test_an_upload_to_a_declared_path_is_no_larger_than_a_document_may_be() -> None:
    small = replace(market.POLICY, limits=replace(market.POLICY.limits, body_bytes=10))
    ask = HttpAsk(service="market", method="POST", path="/tips", body=b'{"cents": 50}', is_upload=True)
    refused = resolve(small, ask)

    assert isinstance(refused, Invalid)
    assert "body_too_large" == refused.code


async def test_what_the_credential_says_in_the_query_the_agent_may_not_say() -> None:
    flow = Flow()
    value = Secret("canary-value-0123456789")
    flow.vault.put("market", "", market.BASE_URL, secret=QuerySecret(parameter="api_key", value=value))
    ask = HttpAsk(service="market", method="GET", path="/anything", query=(("API_KEY", "mine"),))

    assert ("invalid_request", "reserved_header", "never", "none") == gist(await flow.ask(ask))
    assert [] == flow.executor.permits

from dataclasses import replace

import pytest

from broker.contract.reasons import VaultState
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject, canonical
from broker.core import records
from broker.core.classify.order import classify
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Standing, recheck, under_key
from broker.core.ledger import Doubt
from broker.core.outcome import Fault, Phase, Scrubbed
from broker.core.policy.evaluate import evaluate
from broker.core.resolve import HttpAsk, resolve
from broker.core.scrub import scrub
from tests.fakes import market


def frozen(ask: HttpAsk) -> FrozenRequest:
    request = resolve(market.POLICY, ask)
    assert isinstance(request, FrozenRequest)
    return request


CREATE = frozen(market.CREATE)


def permit() -> Permit:
    standing = Standing(
        vault=VaultState.READY,
        vault_term=1,
        policy_digest=market.DIGEST,
        credential_version=2,
        session_alive=True,
        frozen_daemon=False,
        request_digest=CREATE.digest,
    )
    ruling = recheck(asked=standing, now=standing, frozen=CREATE, correlation_id="op_1", gate=GateReport())
    assert isinstance(ruling, Permit)
    return ruling


def outcome() -> Scrubbed:
    return scrub(classify(CREATE, market.LOST, now_ms=0), None)


def test_a_request_is_recorded_with_the_kernels_facts_about_who_asks() -> None:
    caller = market.agent()
    told = records.requested(caller, body_digest="sha256:00", request_id="r1")

    assert ("sha256:00", "r1", caller.anchor.id) == (told["body"], told["request_id"], told["anchor"])
    assert ("claude-code", "tree", 4711, "/opt/agent") == (told["agent"], told["span"], told["pid"], told["exe"])


@pytest.mark.parametrize(
    ("ask", "word", "rule"),
    [
        (market.READ, "none", "free"),
        (market.LISTING, "session", "look"),
        (market.CREATE, "per_call", "buy"),
        (market.FORBIDDEN, "deny", "never"),
    ],
)
def test_a_decision_is_recorded_with_the_request_it_is_about(ask: HttpAsk, word: str, rule: str) -> None:
    request = frozen(ask)
    told = records.decided(
        evaluate(market.POLICY, market.agent(), request), request, policy_digest=market.DIGEST
    )  # fmt: skip

    assert (word, [rule], market.DIGEST) == (told["decision"], told["rules"], told["policy"])
    assert (request.digest, request.to_json()) == (told["digest"], told["request"])


def test_an_intent_names_what_was_permitted_and_what_was_in_doubt() -> None:
    doubt = Doubt(correlation_id="op_0", session_id="s", agent="a", operation="o", summary="s", sent_at_ms=0)
    told = records.intent(permit(), policy_digest=market.DIGEST, doubts=(doubt,), ledger=7)

    assert (CREATE.digest, "market.orders.create", "write", ["op_0"]) == (
        told["digest"], told["operation"], told["effect"], told["doubts"],
    )  # fmt: skip
    assert ("market", 2, 7) == (told["credential"], told["credential_version"], told["ledger"])
    assert "idempotency_key" not in told
    keyed = records.intent(under_key(permit(), "dw-1"), policy_digest=market.DIGEST, doubts=(), ledger=None)
    assert "dw-1" == keyed["idempotency_key"]


def test_an_outcome_is_recorded_as_numbers_and_words_of_ours() -> None:
    told = records.remote(outcome(), sent_body_bytes=20)

    assert ("body_sent", "connection_lost", None, 20, 0) == (
        told["phase"], told["fault"], told["status"], told["sent_body_bytes"], told["scrub_hits"],
    )  # fmt: skip
    fine = replace(outcome(), fault=None, status=201, phase=Phase.RESPONSE_COMPLETE)
    told = records.remote(fine, sent_body_bytes=0)
    assert (None, 201) == (told["fault"], told["status"])


def test_no_record_holds_a_body_or_a_fraction() -> None:
    told: list[JsonObject] = [
        records.requested(market.agent(), body_digest="sha256:00", request_id=None),
        records.decided(evaluate(market.POLICY, market.agent(), CREATE), CREATE, policy_digest=market.DIGEST),
        records.intent(permit(), policy_digest=market.DIGEST, doubts=(), ledger=None),
        records.remote(replace(outcome(), fault=Fault.TRUNCATED), sent_body_bytes=0),
        records.BROKEN,
    ]

    assert b"leek" not in b"".join(canonical(one) for one in told)

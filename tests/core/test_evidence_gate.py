from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.asks import resolved
from broker.core.card_evidence import evidence_part, evidence_state, yes_despite
from broker.core.evidence import Gap, Judged
from broker.core.evidence_gate import (
    NO_PROOF,
    Proof,
    choices,
    collect_command,
    gated,
    limited,
    missing,
    still_met,
    weighed,
)
from broker.core.frozen import FrozenRequest
from broker.core.policy.declarations import Claim, Otherwise
from broker.core.policy.model import Allow, Ask, Rule
from broker.core.policy.requirements import Requirements, requirements
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.collections_made import ABSENT, LEANING, PRESENT, RECORD, judged, record
from tests.fakes.proofs import DELETE, DROP, policy
from tests.fakes.ssh_calls import bare, host
from tests.fakes.ssh_calls import frozen as frozen_ssh

ASKING = replace(PRESENT, otherwise=Otherwise.ASK)
CUT = record(ids=("ci-legacy-2",), complete=False)


def rule(name: str = "account-delete", approval: ApprovalRule = ApprovalRule.NONE, **more: Any) -> Rule:
    return Rule(id=name, approval=approval, place=market.PLACE, **more)


def wanted(*needs: Any) -> Requirements:
    return Requirements(evidence=tuple((rule(f"r{at}"), need) for at, need in enumerate(needs)))


def proof(*needs: Any, records: tuple[Any, ...] = (RECORD,)) -> Proof:
    return weighed(wanted(*needs), LEANING, {"accounts.list": records})


def frozen(ask: HttpAsk = DELETE) -> FrozenRequest:
    found = resolved(policy(), ask)
    assert isinstance(found, FrozenRequest)
    return found


def gap(**changes: Any) -> Judged:
    """A need of the market's deletion of which one of three targets is open."""
    need = replace(ASKING, covers="{names}")
    found = judged(
        need, record(ids=("ci-2", "ci-5")), args={"project": "acme-prod", "names": ["ci-2", "ci-5", "svc-7"]}
    )
    return replace(found, **changes)


def test_a_need_is_weighed_against_the_records_of_its_own_operation() -> None:
    other = replace(ASKING, operation="accounts.search")

    assert [True, False] == [one.is_met for one in proof(ASKING, other).judged]


def test_where_all_is_proven_the_decision_stands() -> None:
    for decision in (Allow(rules=("a",)), Ask(rule=rule(), rules=("a",))):
        assert decision is gated(proof(ASKING), wanted(ASKING), decision, service="cloud")


def test_one_need_that_forbids_is_enough_to_refuse() -> None:
    needs = (ASKING, PRESENT)
    found = gated(proof(*needs, records=(CUT,)), wanted(*needs), Allow(rules=()), service="cloud")

    assert isinstance(found, Refusal)
    assert "incomplete" == found.code
    assert "rule r1 wants" in found.message


def test_a_gap_that_may_be_asked_about_is_asked_about_each_time() -> None:
    found = gated(proof(ASKING, records=()), wanted(ASKING), Allow(rules=("x",)), service="cloud")
    again = gated(
        proof(ASKING, records=()), wanted(ASKING), Ask(rule=rule("s", ApprovalRule.SESSION), rules=("s",)), service="c"
    )

    assert isinstance(found, Ask)
    assert isinstance(again, Ask)
    assert (True, "r0", ("x",)) == (found.per_call, found.rule.id, found.rules)
    assert (True, "s") == (again.per_call, again.rule.id)


def test_what_was_proven_has_to_stay_so_and_what_was_open_may() -> None:
    whole, cut, none = proof(ASKING), proof(ASKING, records=(CUT,)), proof(ASKING, records=())

    assert still_met(whole, whole, service="c") is None
    assert still_met(cut, cut, service="c") is None
    assert still_met(cut, whole, service="c") is None
    for before, now, code in ((whole, cut, "incomplete"), (whole, none, "none_recorded"), (cut, none, "none_recorded")):
        refused = still_met(before, now, service="c")
        assert refused is not None
        assert code == refused.code


def test_a_target_that_turns_up_voids_a_yes_despite_a_gap() -> None:
    absent = replace(ABSENT, otherwise=Otherwise.ASK)
    before = proof(absent, records=())
    now = proof(absent)

    assert "target_present" == getattr(still_met(before, now, service="c"), "code", None)
    assert still_met(now, now, service="c") is None


def test_a_refusal_says_what_to_collect_and_no_target() -> None:
    for reason in Gap:
        told = missing(gap(gap=reason), service="cloud")
        assert reason.value == told.code
        assert "svc-7" not in told.message
    assert "do not exist" in missing(gap(need=ABSENT), service="cloud").message


@pytest.mark.parametrize(
    ("args", "command"),
    [
        ({"project": "a b"}, "doorward collect cloud.accounts.list 'project=a b'"),
        ({}, "doorward collect cloud.accounts.list"),
        (None, None),
        ({"project": "x" * 500}, None),
        ({"project": "a\x1bb"}, None),
    ],
)
def test_the_command_that_would_collect_is_one_line_that_can_be_typed(args: Any, command: str | None) -> None:
    assert command == collect_command("cloud", gap(args=args))


def test_a_limited_request_asks_for_the_proven_targets_alone() -> None:
    ask = replace(DELETE, headers=(("x-note", "n"),))
    less = limited(Proof(judged=(gap(),)), frozen(ask), ask)

    assert less is not None
    assert {"project": "acme", "names": ["ci-2", "ci-5"]} == less.args
    assert (("x-note", "n"),) == less.headers


@pytest.mark.parametrize(
    ("one", "ask"),
    [
        (gap(unproven=()), DELETE),
        (gap(proven=()), DELETE),
        (gap(need=replace(ASKING, covers="x {names}")), DELETE),
        (gap(need=replace(ASKING, covers="{project}")), DELETE),
        (gap(need=replace(ASKING, covers="{meta.names}")), DELETE),
        (gap(), market.AD_HOC),
    ],
)
def test_what_is_not_less_is_nothing_or_can_not_be_said_is_not_offered(one: Judged, ask: HttpAsk) -> None:
    assert limited(Proof(judged=(one,)), frozen(ask), ask) is None


def test_only_what_every_open_need_proves_is_kept() -> None:
    other = replace(gap(), proven=("ci-5",), unproven=("ci-2", "svc-7"))
    less = limited(Proof(judged=(gap(), other)), frozen(), DELETE)
    none = limited(
        Proof(judged=(gap(), replace(other, proven=("svc-7",), unproven=("ci-2", "ci-5")))), frozen(), DELETE
    )

    assert less is not None
    assert less.args is not None
    assert ["ci-5"] == less.args["names"]
    assert none is None


def test_a_request_that_was_refused_already_is_not_limited() -> None:
    assert limited(Proof(judged=(gap(),)), frozen(), missing(gap(), service="c")) is None


def test_ways_are_offered_where_there_is_a_gap_and_they_lead_somewhere() -> None:
    with_gap = Proof(judged=(gap(),))

    assert ("collect", "limit") == choices(with_gap, frozen(), DELETE, can_collect=True)
    assert ("limit",) == choices(with_gap, frozen(), DELETE, can_collect=False)
    assert ("limit",) == choices(Proof(judged=(gap(args=None),)), frozen(), DELETE, can_collect=True)
    assert ("collect",) == choices(Proof(judged=(gap(proven=()),)), frozen(), DELETE, can_collect=True)
    assert () == choices(NO_PROOF, frozen(), DELETE, can_collect=True)


def test_the_word_for_a_gap_is_the_first_target_without_proof() -> None:
    assert "svc-7" == Proof(judged=(gap(),)).first_unproven
    assert NO_PROOF.first_unproven is None
    assert Proof(judged=(gap(unproven=()),)).first_unproven is None


def test_lists_and_cards_say_in_one_word_how_it_stands() -> None:
    look = ((rule(), policy().rules[2].precheck),)

    assert "not_needed" == evidence_state(NO_PROOF)
    assert "complete" == evidence_state(proof(ASKING))
    assert "complete" == evidence_state(Proof(prechecks=look))  # type: ignore[arg-type]  # that rule has one
    assert "target_not_covered" == evidence_state(Proof(judged=(gap(),)))
    part: Any = evidence_part(Proof(prechecks=look))  # type: ignore[arg-type]  # likewise
    assert (True, ["accounts.get"]) == (part["needed"], [one["operation"] for one in part["looks"]])


@pytest.mark.parametrize(
    ("judgement", "effect", "once"),
    [
        (gap(), "DELETE", "deleting all 3, 1 without proof, once"),
        (gap(), "WRITE", "changing all 3, 1 without proof, once"),
        (gap(unproven=()), "DELETE", "this one request, though not all of the list was seen, once"),
        (gap(targets=("a",), unproven=("a",)), "DELETE", "this one request without proof, once"),
        (gap(targets=(), unproven=()), "DELETE", "this one request without proof, once"),
    ],
)
def test_a_yes_says_how_much_is_not_proven(judgement: Judged, effect: str, once: str) -> None:
    assert once == yes_despite(Proof(judged=(judgement,)), effect)


def test_needs_of_a_deny_rule_and_of_rules_that_do_not_match_are_no_needs() -> None:
    rules = (
        rule("no", ApprovalRule.DENY, evidence=ASKING),
        rule("other", operations=("accounts.create",), evidence=ASKING),
        rule("mine", operations=("accounts.drop",), evidence=replace(ASKING, claim=Claim.ABSENT)),
    )
    found = requirements(policy(*rules), market.agent(), frozen(DROP))

    assert ["mine"] == [one.id for one, _ in found.evidence]
    assert () == found.prechecks


def test_a_command_under_a_rule_with_a_need_is_never_proven() -> None:
    by_ssh = frozen_ssh(host(22, "u"), bare("true"))
    found = requirements(policy(rule(evidence=PRESENT)), market.agent(), by_ssh)
    refused = gated(weighed(found, replace(LEANING, args={}), {}), found, Allow(rules=()), service="web")

    assert isinstance(refused, Refusal)
    assert "none_recorded" == refused.code

"""A change that needs evidence: what passes, what is refused, and what a human may choose instead of a yes."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule, WarningCode
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.ledger import AttemptState
from broker.core.policy.declarations import Otherwise, Visibility
from broker.ports import LedgerSealed, Recollection
from tests.fakes import market
from tests.fakes.desk_port import Card
from tests.fakes.flow import gist
from tests.fakes.proofs import CREATE, DELETE, DROP, LOOK, NEEDS, PROVEN, ProvenFlow, rule

FORBIDDING = rule("delete-known", "accounts.delete", evidence=replace(NEEDS, otherwise=Otherwise.DENY))
FREE = rule("delete-known", "accounts.delete", ApprovalRule.NONE, evidence=NEEDS)
IDLE = market.answered(200, b'{"state":"idle","name":"ci-2"}')


def evidence_of(card: Card) -> Any:
    return card.drawn["evidence"]


async def test_a_proven_change_asks_as_the_rule_says_and_is_sent() -> None:
    flow = ProvenFlow()
    await flow.collected()

    async with flow.asking(DELETE) as (card, answer):
        assert ("complete", [], True) == tuple(evidence_of(card)[key] for key in ("state", "choices", "needed"))
        flow.desk.settle(card, Happening.APPROVED)

    assert "success" == answer.result()["category"]
    assert 1 == len(flow.executor.permits)
    intent = next(one.fields for one in flow.audit.trail(flow.last) if one.name is EventName.DISPATCH_STARTED)
    assert ([flow.evidence.records[0].id], 0, []) == (intent["evidence"], intent["unproven"], intent["gaps"])


async def test_a_proven_change_that_no_human_is_asked_about_is_sent_at_once() -> None:
    flow = ProvenFlow(FREE)
    await flow.collected()

    assert "success" == (await flow.ask(DELETE))["category"]


@pytest.mark.parametrize(
    ("ids", "changes", "code"),
    [
        (("ci-2",), {}, "target_not_covered"),
        (PROVEN, {"complete": False}, "incomplete"),
        (PROVEN, {"args": {"project": "other"}}, "other_arguments"),
        (PROVEN, {"collected_at_ms": 0}, "stale"),
        (PROVEN, {"anchor_id": "somebody else"}, "none_recorded"),
    ],
)
async def test_without_proof_nothing_is_sent_where_the_rule_forbids(
    ids: tuple[str, ...], changes: dict[str, Any], code: str
) -> None:
    flow = ProvenFlow(FORBIDDING)
    await flow.collected(ids, **changes)

    envelope = await flow.ask(DELETE)

    assert ("evidence_required", code, "never", "none") == gist(envelope)
    assert {"action": "collect", "command": "doorward collect market.accounts.list project=acme"} == envelope["next"]
    assert [] == flow.executor.permits
    assert [] == flow.desk.cards
    assert not any(target in str(envelope["message"]) for target in PROVEN)


async def test_absence_is_proven_by_no_filtered_or_stale_list() -> None:
    for changes in ({"visibility": Visibility.FILTERED}, {"warnings": (WarningCode.STALE_INDEX,)}):
        flow = ProvenFlow()
        await flow.collected(("old",), **changes)
        assert "evidence_required" == (await flow.ask(CREATE))["category"]

    flow = ProvenFlow()
    await flow.collected(("old", "new"))
    assert "target_present" == (await flow.ask(CREATE))["code"]

    flow = ProvenFlow()
    await flow.collected(("old",))
    assert "success" == (await flow.ask_and_answer(CREATE))["category"]


async def test_a_gap_that_may_be_asked_about_is_shown_with_its_word_and_its_other_ways() -> None:
    flow = ProvenFlow()
    await flow.collected(("ci-2", "ci-5"), complete=False, cursor="c")

    async with flow.asking(DELETE) as (card, answer):
        shown = evidence_of(card)
        assert ("incomplete", ["collect", "limit"]) == (shown["state"], shown["choices"])
        assert (["ci-2", "ci-5"], ["svc-7"]) == (shown["items"][0]["proven"], shown["items"][0]["unproven"])
        assert "svc-7" == card.drawn["typed_word"]
        yes: Any = card.drawn["yes"]
        assert "deleting all 3, 1 without proof, once" == yes["once"]
        assert (False, "proof is missing") == (yes["session"]["offered"], yes["session"]["why_not"])
        flow.desk.settle(card, Happening.APPROVED)

    assert "success" == answer.result()["category"]


async def test_a_gap_asks_a_human_even_where_the_rule_asks_nobody() -> None:
    flow = ProvenFlow(FREE)

    async with flow.asking(DELETE) as (card, answer):
        assert "none_recorded" == evidence_of(card)["state"]
        assert ["collect"] == evidence_of(card)["choices"]
        flow.desk.settle(card, Happening.DENIED)

    assert ("call_denied", "declined", "never", "none") == gist(answer.result())
    assert [] == flow.executor.permits


async def test_a_grant_of_the_session_does_not_pass_a_gap() -> None:
    flow = ProvenFlow(rule("delete-known", "accounts.delete", ApprovalRule.SESSION, evidence=NEEDS))
    await flow.collected()
    await flow.ask_and_answer(DELETE, scope="session")
    assert "success" == (await flow.ask(DELETE))["category"]

    flow.evidence.records.clear()
    assert "call_denied" == (await flow.ask_and_answer(DELETE, Happening.DENIED))["category"]
    assert 2 == len(flow.desk.cards)


async def test_collecting_on_brings_the_card_again_with_what_is_proven_then() -> None:
    flow = ProvenFlow()
    await flow.collected(("ci-2",), complete=False)

    def walk(_: Recollection) -> None:
        flow.evidence.records.append(flow.collection(id="ev_whole"))

    flow.follow_ups.walk = walk
    async with flow.asking(DELETE) as (card, answer):
        flow.desk.choose(card, "collect")
        await flow.until(lambda: len(flow.desk.cards) == 2)
        again = flow.desk.cards[-1]
        assert ("complete", []) == (evidence_of(again)["state"], evidence_of(again)["choices"])
        assert [] == flow.executor.permits
        flow.desk.settle(again, Happening.APPROVED)

    assert "success" == answer.result()["category"]
    [wanted] = flow.follow_ups.collected
    assert ("market", "accounts.list", {"project": "acme"}, 60) == (
        wanted.service,
        wanted.operation,
        wanted.args,
        wanted.seconds,
    )


async def test_collecting_on_that_brings_nothing_asks_again_with_the_same_gap() -> None:
    flow = ProvenFlow()

    async with flow.asking(DELETE) as (card, answer):
        flow.desk.choose(card, "collect")
        await flow.until(lambda: len(flow.desk.cards) == 2)
        assert "none_recorded" == evidence_of(flow.desk.cards[-1])["state"]
        flow.desk.settle(flow.desk.cards[-1], Happening.EXPIRED)

    assert "approval_timeout" == answer.result()["category"]


async def test_limiting_ends_the_request_and_begins_one_for_the_proven_targets_alone() -> None:
    flow = ProvenFlow()
    await flow.collected(("ci-2", "ci-5"))

    async with flow.asking(DELETE, says="clean up") as (card, answer):
        flow.desk.choose(card, "limit")

    envelope = answer.result()
    [(less, caller, says, previous)] = flow.follow_ups.begun
    assert {"project": "acme", "names": ["ci-2", "ci-5"]} == less.args
    assert (flow.caller, "clean up", envelope["correlation_id"]) == (caller, says, previous)
    assert ("approval_timeout", "superseded", "after_human", "none") == gist(envelope)
    assert f"doorward result op_{1:044x}" == envelope["next"]["command"]  # type: ignore[index,call-overload]  # an object
    assert [] == flow.executor.permits


async def test_limiting_while_nothing_more_is_taken_still_sends_nothing() -> None:
    flow = ProvenFlow()
    flow.follow_ups.is_full = True
    await flow.collected(("ci-2",))

    async with flow.asking(DELETE) as (card, answer):
        flow.desk.choose(card, "limit")

    assert ("approval_timeout", "superseded", "after_human", "none") == gist(answer.result())


async def test_proof_that_goes_stale_while_the_card_waits_is_no_proof() -> None:
    flow = ProvenFlow()
    await flow.collected()

    async with flow.asking(DELETE) as (card, answer):
        flow.clock.advance(seconds=901)
        flow.desk.settle(card, Happening.APPROVED)

    assert ("evidence_required", "stale", "never", "none") == gist(answer.result())
    assert [] == flow.executor.permits


async def test_a_target_that_appears_while_the_card_waits_is_heard() -> None:
    flow = ProvenFlow()
    await flow.collected(("old",))

    async with flow.asking(CREATE) as (card, answer):
        flow.evidence.records.append(flow.collection(("new",), id="ev_later"))
        flow.desk.settle(card, Happening.APPROVED)

    assert ("evidence_required", "target_present", "never", "none") == gist(answer.result())


async def test_less_proof_than_the_card_showed_voids_the_yes() -> None:
    flow = ProvenFlow()
    await flow.collected(("ci-2", "ci-5"))

    async with flow.asking(DELETE) as (card, answer):
        flow.evidence.records.append(flow.collection(("ci-2",), id="ev_later"))
        flow.desk.settle(card, Happening.APPROVED)

    assert ("evidence_required", "target_not_covered", "never", "none") == gist(answer.result())


async def test_a_lock_while_the_store_is_asked_is_told_as_one() -> None:
    flow = ProvenFlow()
    flow.evidence.fault = LedgerSealed()

    assert "vault_locked" == (await flow.ask(DELETE))["category"]


async def test_every_matching_rule_has_its_need_met() -> None:
    flow = ProvenFlow(
        rule("a-loose", "accounts.delete"),
        rule("b-known", "accounts.*", evidence=replace(NEEDS, otherwise=Otherwise.DENY)),
    )

    assert "evidence_required" == (await flow.ask(DELETE))["category"]


async def test_a_change_is_looked_at_again_just_before() -> None:
    flow = ProvenFlow()
    flow.executor.answers.append(IDLE)

    assert "success" == (await flow.ask(DROP))["category"]
    assert ["GET", "DELETE"] == [permit.frozen.method for permit in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP
    assert 1 == flow.audit.names(flow.last).count("remote.answered")


@pytest.mark.parametrize(
    "answer",
    [
        market.answered(200, b'{"state":"busy","name":"ci-2"}'),
        market.answered(200, b'{"state":"idle","name":"ci-3"}'),
        market.answered(404),
        market.TIMED_OUT,
        market.REFUSED,
        market.answered(200, b"no json"),
    ],
)
async def test_a_target_that_is_not_as_expected_is_left_alone(answer: Any) -> None:
    flow = ProvenFlow()
    flow.executor.answers.append(answer)

    envelope = await flow.perform(flow.received(DROP, request_id="r-1"))

    assert ("evidence_required", "target_changed", "never", "none") == gist(envelope)
    assert ["GET"] == [permit.frozen.method for permit in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP
    assert flow.ledger.state(flow.last) is None
    assert 0 == flow.leased


@pytest.mark.parametrize(
    "look",
    [
        replace(LOOK, args={"project": "{project}", "name": "{nobody}"}),
        replace(LOOK, operation="accounts.drop"),
        replace(LOOK, operation="accounts.none"),
    ],
)
async def test_a_look_that_can_not_be_made_sends_nothing_at_all(look: Any) -> None:
    flow = ProvenFlow(rule("drop-idle", "accounts.drop", ApprovalRule.NONE, precheck=look))

    assert ("evidence_required", "target_changed", "never", "none") == gist(await flow.ask(DROP))
    assert [] == flow.executor.permits


async def test_an_expectation_about_an_argument_that_is_not_there_is_not_met() -> None:
    look = replace(LOOK, expect="json.name==$nobody")
    flow = ProvenFlow(rule("drop-idle", "accounts.drop", ApprovalRule.NONE, precheck=look))
    flow.executor.answers.append(IDLE)

    assert "target_changed" == (await flow.ask(DROP))["code"]


async def test_a_read_may_be_looked_at_first_as_well() -> None:
    look = replace(LOOK, args={"project": "{project}", "name": "gate"}, expect="json.state=='idle'")
    flow = ProvenFlow(rule("list-idle", "accounts.list", ApprovalRule.NONE, precheck=look))
    flow.executor.answers.append(market.answered(404))

    assert "target_changed" == (await flow.ask(market.ask("accounts.list", project="acme")))["code"]
    assert 1 == len(flow.executor.permits)


async def test_a_log_that_fails_after_the_look_is_told_and_the_change_is_not_sent() -> None:
    flow = ProvenFlow()
    flow.executor.answers.append(market.answered(404))
    flow.audit.break_at(EventName.REMOTE_ANSWERED)

    envelope = await flow.perform(flow.received(DROP))

    assert ("broker_unavailable", "audit_unwritable") == gist(envelope)[:2]
    assert ["GET"] == [permit.frozen.method for permit in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP
    assert AttemptState.IN_DOUBT is not flow.ledger.state(flow.last)


async def test_a_request_by_hand_under_such_a_rule_is_never_proven() -> None:
    flow = ProvenFlow(replace(FORBIDDING, operations=()))

    assert "none_recorded" == (await flow.ask(market.AD_HOC))["code"]

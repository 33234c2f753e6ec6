"""T26, T11: each page of a collection has one intent and one outcome, and none is sent without its decision."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule
from broker.contract.wire import JsonObject
from broker.core.approval import Happening
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.policy.declarations import Pagination, PagingKind, Stability
from broker.core.predicate import compile_predicate
from tests.fakes import market
from tests.fakes.flow import Flow, gist
from tests.fakes.walked import by_token, collecting, listing, page, policy_with, things

OUTCOMES = {"remote.answered", "deadline.expired", "transport.failed"}
FIRST, SECOND, LAST = page(things(1), next="a"), page(things(2), next="b"), page(things(3), next=None)
STABLE = by_token(
    Stability.SNAPSHOT,
    expired_when=compile_predicate("status==`410`"),
    end_error_when=compile_predicate("status==`422`"),
    restarts=True,
)
LATE = market.failed(Fault.TOTAL_TIMEOUT, Phase.RESPONSE_STARTED)
ENDINGS: dict[str, tuple[tuple[RawOutcome, ...], int]] = {
    "whole": ((FIRST, SECOND, LAST), 3),
    "first lost": ((market.LOST,), 1),
    "later lost": ((FIRST, market.LOST), 2),
    "late": ((FIRST, LATE), 2),
    "not reached": ((FIRST, market.REFUSED), 2),
    "rate": ((FIRST, market.answered(429, b"{}")), 2),
    "capped": ((FIRST, market.answered(422, b"{}")), 2),
    "begun anew": ((FIRST, market.answered(410, b"{}"), FIRST, LAST), 4),
    "expired": ((FIRST, market.answered(410, b"{}"), FIRST, market.answered(410, b"{}")), 4),
    "astray": ((page(things(1), next=""),), 1),
    "garbage": ((FIRST, market.answered(200, b"{,")), 2),
}


def flow_with(*answers: RawOutcome, approval: ApprovalRule = ApprovalRule.NONE, paging: Pagination = STABLE) -> Flow:
    flow = Flow()
    flow.policies.policy = policy_with(listing(paging), approval=approval)
    flow.executor.answers += answers
    return flow


def check(flow: Flow, envelope: JsonObject, pages: int) -> None:
    names = flow.audit.names(flow.last)
    wire = [name for name in names if name == "dispatch.started" or name in OUTCOMES]

    assert pages == len(flow.executor.permits) == wire.count("dispatch.started")
    assert all(name == "dispatch.started" for name in wire[::2])
    assert all(name in OUTCOMES for name in wire[1::2])
    assert 2 * pages == len(wire)
    assert (1, 1) == (names.count("action.requested"), names.count("action.result"))
    assert "action.result" == names[-1]
    end = flow.audit.trail(flow.last)[-1].fields
    assert gist(end) == gist(envelope)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_each_page_has_one_intent_and_one_outcome_however_the_walk_ends(ending: str) -> None:
    answers, pages = ENDINGS[ending]
    flow = flow_with(*answers)

    check(flow, await flow.ask(collecting()), pages)


async def test_a_fault_of_ours_between_two_pages_leaves_no_intent_open() -> None:
    flow = flow_with(FIRST)
    flow.executor.answers.append(RuntimeError("a fault of ours"))
    with pytest.raises(RuntimeError):
        await flow.ask(collecting())
    names = flow.audit.names(flow.last)

    assert 2 == names.count("dispatch.started") == len([name for name in names if name in OUTCOMES])
    assert "action.result" == names[-1]


@pytest.mark.parametrize("happening", [Happening.DENIED, Happening.EXPIRED, Happening.WITHDRAWN, Happening.LOCKED])
async def test_without_a_yes_no_page_is_sent(happening: Happening) -> None:
    flow = flow_with(FIRST, SECOND, LAST, approval=ApprovalRule.PER_CALL)
    await flow.ask_and_answer(collecting(), happening)

    assert [] == flow.executor.permits


async def test_a_yes_to_a_walk_is_no_yes_to_going_on_with_it() -> None:
    flow = flow_with(FIRST, SECOND, LAST, approval=ApprovalRule.PER_CALL)
    first: Any = await flow.ask_and_answer(collecting(pages=1))
    await flow.ask_and_answer(collecting(cursor=first["completeness"]["next_cursor"]), Happening.DENIED)

    assert 1 == len(flow.executor.permits)
    assert 2 == len(flow.desk.cards)


async def test_a_walk_and_a_single_request_are_two_requests_to_whoever_decides() -> None:
    flow = flow_with(FIRST, SECOND, LAST, approval=ApprovalRule.PER_CALL)
    await flow.ask_and_answer(collecting(pages=2))
    await flow.ask_and_answer(collecting(pages=3))
    flow.executor.answers.append(LAST)
    await flow.ask_and_answer(market.ask("things.list"))
    digests = [card.question.frozen.digest for card in flow.desk.cards]

    assert 3 == len(set(digests))


async def test_every_page_goes_out_with_the_credential_and_under_the_id_that_were_decided_about() -> None:
    flow = flow_with(FIRST, SECOND, LAST)
    await flow.ask(collecting())
    permits = flow.executor.permits

    assert 1 == len({(one.correlation_id, one.credential_version, one.vault_term) for one in permits})
    assert 3 == len({one.frozen.digest for one in permits})


async def test_a_token_can_not_smuggle_another_argument_in() -> None:
    odd = page(things(1), next="a&q=everything&page=z#x")
    flow = flow_with(odd, LAST)
    await flow.ask(collecting(args={"q": "mine"}))

    assert "q=mine&page=a%26q%3Deverything%26page%3Dz%23x" == flow.executor.permits[1].frozen.query  # type: ignore[union-attr]  # of HTTP


async def test_a_step_outside_the_family_is_not_sent() -> None:
    """Were the way to the next page at fault, the look before it is sent would still hold."""
    paging = replace(STABLE, kind=PagingKind.BODY_URL, param=None)
    flow = flow_with(page(things(1), next="https://evil.example/"), LAST, paging=paging)

    assert "partial" == gist(await flow.ask(collecting()))[0]
    assert 1 == len(flow.executor.permits)

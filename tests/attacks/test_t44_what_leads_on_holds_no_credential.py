"""An upstream that repeats the credential in what leads on gets it back on the wire alone, and nobody else sees it."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.approval import Happening
from broker.core.collect.request import resolve_collect
from broker.core.frozen import FrozenRequest
from broker.core.http_secrets import QuerySecret
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import Pagination, PagingKind, Scope, Stability
from broker.core.policy.model import Operation
from broker.core.secret import Secret
from tests.fakes import market
from tests.fakes.flow import Flow
from tests.fakes.walked import by_token, collecting, listing, page, policy_with, things
from tests.flow.test_polling import JOB, accepted, flow_with, state

CANARY = "canary-query+value=0123456789"
SPELLED = quote(CANARY, safe="")
NEXT = f"{market.BASE_URL}/things?api_key={SPELLED}&page=2"

BY_LINK = listing(Pagination(kind=PagingKind.LINK_HEADER, token="next", stability=Stability.KEYSET))
BY_URL = listing(Pagination(kind=PagingKind.BODY_URL, token="json.next", stability=Stability.KEYSET))
BY_HEADER = listing(by_token(Stability.SNAPSHOT, kind=PagingKind.NEXT_HEADER, token="headers.x-next"))
BY_TOKEN = listing(by_token(Stability.SNAPSHOT))


def linked(url: str) -> RawOutcome:
    return page(things(1), ("link", f'<{url}>; rel="next"'))


def holding(flow: Flow) -> Flow:
    flow.vault.put("market", "", market.BASE_URL, secret=QuerySecret(parameter="api_key", value=Secret(CANARY)))
    return flow


def walking(operation: Operation, *answers: RawOutcome) -> Flow:
    flow = holding(Flow())
    flow.policies.policy = policy_with(operation)
    flow.executor.answers += answers
    return flow


def everything(flow: Flow, *envelopes: Any) -> str:
    """All that is shown, written or kept, as text."""
    frozen = [permit.frozen for permit in flow.executor.permits]
    cards = [card.question.frozen for card in flow.desk.cards]
    seen = (
        [json.dumps(one) for one in envelopes],
        [[event.name, event.fields] for event in flow.audit.trail(flow.last)],
        [[repr(one), one.to_json()] for one in (*frozen, *cards)],
        vars(flow.walks),
        vars(flow.diagnostics),
        vars(flow.evidence),
        vars(flow.ledger),
    )
    return repr(seen)


def assert_unseen(flow: Flow, *envelopes: Any) -> None:
    text = everything(flow, *envelopes)
    for spelling in (CANARY, SPELLED, quote(SPELLED, safe=""), "canary-query", "0123456789"):
        assert spelling not in text


def urls(flow: Flow) -> list[str]:
    return [permit.frozen.url.removeprefix(market.BASE_URL) for permit in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP


@pytest.mark.parametrize(
    ("operation", "first"),
    [(BY_LINK, linked(NEXT)), (BY_URL, page(things(1), next=NEXT))],
)
async def test_a_next_url_is_followed_without_the_parameter_of_the_credential(
    operation: Operation, first: RawOutcome
) -> None:
    flow = walking(operation, first, page(things(2)))
    envelope: Any = await flow.ask(collecting())

    assert ["/things", "/things?page=2"] == urls(flow)
    assert [{"id": 1}, {"id": 2}] == envelope["http"]["body_json"]
    assert envelope["completeness"]["complete"]
    assert_unseen(flow, envelope)


@pytest.mark.parametrize("name", ["API_KEY", "api%5Fkey", "%61pi_key"])
async def test_the_parameter_is_known_however_it_is_spelled(name: str) -> None:
    flow = walking(BY_LINK, linked(f"/things?page=2&{name}={SPELLED}"), page(things(2)))
    envelope = await flow.ask(collecting())

    assert ["/things", "/things?page=2"] == urls(flow)
    assert_unseen(flow, envelope)


async def test_a_url_with_nothing_else_in_its_query_is_left_without_one() -> None:
    flow = walking(BY_LINK, linked(f"/things/more?api_key={SPELLED}"), page(things(2)))
    envelope = await flow.ask(collecting())

    assert ["/things", "/things/more"] == urls(flow)
    assert_unseen(flow, envelope)


@pytest.mark.parametrize(
    "url",
    [
        f"/things?page=2&token={SPELLED}",
        f"/things?page=2;api_key={SPELLED}",
        f"/things/{SPELLED}",
        f"/things?page=2&next={quote(f'/things?api_key={SPELLED}', safe='')}",
        f"/things?page=2&api%255Fkey={quote(SPELLED, safe='')}",
    ],
)
async def test_a_url_that_holds_the_value_elsewhere_is_not_followed(url: str) -> None:
    flow = walking(BY_LINK, linked(url))
    envelope: Any = await flow.ask(collecting())

    assert ["/things"] == urls(flow)
    assert ("partial", "incomplete") == (envelope["category"], envelope["code"])
    assert ["COMPLETENESS_UNVERIFIED"] == [one["code"] for one in envelope["completeness"]["incomplete_reasons"]]
    assert_unseen(flow, envelope)


@pytest.mark.parametrize(
    ("operation", "first"),
    [
        (BY_HEADER, page(things(1), ("x-next", CANARY))),
        (BY_HEADER, page(things(1), ("x-next", NEXT))),
        (BY_TOKEN, page(things(1), next=SPELLED)),
    ],
)
async def test_a_token_that_holds_the_value_is_not_sent(operation: Operation, first: RawOutcome) -> None:
    flow = walking(operation, first)
    envelope: Any = await flow.ask(collecting())

    assert ["/things"] == urls(flow)
    assert not envelope["completeness"]["complete"]
    assert_unseen(flow, envelope)


async def test_a_walk_that_is_cut_keeps_its_place_without_the_value_and_shows_a_card_without_it() -> None:
    flow = walking(BY_LINK, linked(NEXT), page(things(2)))
    first: Any = await flow.ask(collecting(pages=1))
    cursor = first["completeness"]["next_cursor"]
    policy = policy_with(BY_LINK, approval=ApprovalRule.PER_CALL)
    flow.policies.policy = policy
    kept = flow.walks.kept[cursor]
    frozen = resolve_collect(policy, collecting(cursor=cursor), kept)
    assert isinstance(frozen, FrozenRequest)
    assert f"{market.BASE_URL}/things?page=2" == frozen.url
    second: Any = await flow.ask_and_answer(collecting(cursor=cursor), Happening.APPROVED)

    assert ["/things", "/things?page=2"] == urls(flow)
    assert second["completeness"]["complete"]
    assert_unseen(flow, first, second)


async def test_a_url_that_comes_again_is_known_without_its_parameter() -> None:
    flow = walking(BY_LINK, linked(NEXT), linked(NEXT))
    envelope: Any = await flow.ask(collecting())

    assert ["/things", "/things?page=2"] == urls(flow)
    assert not envelope["completeness"]["complete"]
    assert_unseen(flow, envelope)


async def test_a_version_and_ids_that_hold_the_value_are_taken_for_none() -> None:
    scoped = replace(BY_TOKEN, scope=Scope(resource="things", snapshot="headers.etag"))
    rows = [{"id": CANARY}, {"id": 2}]
    flow = walking(scoped, page(rows, ("etag", CANARY), next=None))
    envelope: Any = await flow.ask(collecting())

    assert envelope["completeness"]["scope"]["snapshot"] is None
    assert not envelope["completeness"]["complete"]
    assert_unseen(flow, envelope)


async def test_accepted_work_is_looked_at_without_the_parameter_of_the_credential() -> None:
    flow = holding(flow_with(accepted(f"/tasks/7?api_key={SPELLED}"), state("done")))
    envelope = await flow.ask(JOB)

    assert "success" == envelope["category"]
    assert ["/tasks", "/tasks/7"] == urls(flow)
    assert_unseen(flow, envelope)


async def test_a_later_answer_can_not_bring_it_in_either() -> None:
    again = state("running", ("operation-location", f"/tasks/8?api_key={SPELLED}"))
    flow = holding(flow_with(accepted(), again, state("done")))
    envelope = await flow.ask(JOB)

    assert ["/tasks", "/tasks/7", "/tasks/8"] == urls(flow)
    assert_unseen(flow, envelope)


async def test_work_whose_place_holds_the_value_is_not_looked_at() -> None:
    flow = holding(flow_with(accepted(f"/tasks/{SPELLED}"), state("done")))
    envelope = await flow.ask(JOB)

    assert ("partial", "accepted") == (envelope["category"], envelope["code"])
    assert ["/tasks"] == urls(flow)
    assert_unseen(flow, envelope)


async def test_one_page_by_itself_hands_on_no_cursor_with_the_value() -> None:
    flow = walking(BY_LINK, linked(NEXT))
    envelope: Any = await flow.ask(market.ask("things.list"))

    assert envelope["completeness"]["next_cursor"] is None
    assert_unseen(flow, envelope)


async def test_a_redirect_with_the_value_is_told_without_it() -> None:
    flow = walking(BY_LINK, market.answered(302, b"", ("location", NEXT)))
    envelope: Any = await flow.ask(market.ask("things.list"))

    assert "redirect_not_followed" == envelope["code"]
    assert ["/things"] == urls(flow)
    assert_unseen(flow, envelope)

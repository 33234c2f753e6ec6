"""A declared read is followed to where its own origin sends it, and nothing else is."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.events import EventName
from broker.core.frozen import Deadlines
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import Follow, Pagination, PagingKind, Redirect, Stability
from broker.core.policy.model import Identity, Operation, Policy, Rule
from broker.core.redirects import MAX_HOPS
from tests.fakes import market
from tests.fakes.flow import Flow, gist
from tests.fakes.walked import by_token, collecting, listing, page, policy_with, things

FOLLOWS = Redirect(follow=Follow.SAME_HOST_GET_ONLY)
READ = market.ask("stalls.get", stall="old")


def policy(*rules: Rule, redirect: Redirect = FOLLOWS, **more: Any) -> Policy:
    told = {"identity": Identity(path="json.id", type="integer"), "redirect": redirect, **more}
    read: Operation = market.operation("stalls.get", "GET", "/stalls/{stall}", Effect.READ, **told)
    change: Operation = market.operation("stalls.move", "POST", "/stalls/{stall}/move", redirect=redirect)
    shop = market.POLICY.services["market"]
    shop = replace(shop, operations={**shop.operations, read.name: read, change.name: change})
    rule = Rule(id="stalls", approval=ApprovalRule.NONE, operations=("stalls.*",), place=market.PLACE)
    return replace(
        market.POLICY, services={**market.POLICY.services, "market": shop}, rules=(*market.POLICY.rules, rule, *rules)
    )


def flow_with(*answers: RawOutcome, told: Policy | None = None) -> Flow:
    flow = Flow()
    flow.policies.policy = told or policy()
    flow.executor.answers += answers
    return flow


def moved(target: str, status: int = 301, *more: tuple[str, str]) -> RawOutcome:
    return market.answered(status, b"{}", ("location", target), *more)


FOUND = market.answered(200, b'{"id":7}')


def sent(flow: Flow) -> list[str]:
    return [one.frozen.url.removeprefix(market.BASE_URL) for one in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_declared_read_is_followed_at_home_and_says_where_it_ended(status: int) -> None:
    flow = flow_with(moved("/by-id/7", status), FOUND)
    envelope: Any = await flow.ask(READ)

    assert ("success", "ok", "never", "none") == gist(envelope)
    assert ["/stalls/old", "/by-id/7"] == sent(flow)
    assert f"{market.BASE_URL}/by-id/7" == envelope["http"]["final_url"]
    assert ["DEFAULT_SCOPE_APPLIED"] == [one["code"] for one in envelope["warnings"]]
    assert ["GET", "GET"] == [one.frozen.method for one in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP
    started = [event.fields for event in flow.audit.trail(flow.last) if event.name is EventName.DISPATCH_STARTED]
    assert [None, 1] == [fields.get("hop") for fields in started]
    assert f"GET {market.BASE_URL}/by-id/7" == started[1]["url"]


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/by-id/7", "//evil.example/x", "http://api.market.example/x",
        "https://api.market.example:8443/x", "https://user@api.market.example/x", "/a/../b", "https://[::1", "",
        "/stalls/old", "#here",
    ],
)  # fmt: skip
async def test_it_is_followed_nowhere_else(target: str) -> None:
    flow = flow_with(moved(target), FOUND)

    assert ("confirmed_failure", "redirect_not_followed", "never", "none") == gist(await flow.ask(READ))
    assert ["/stalls/old"] == sent(flow)


async def test_a_fragment_is_not_sent_along() -> None:
    flow = flow_with(moved("/by-id/7?full=1#top"), FOUND)
    await flow.ask(READ)

    assert ["/stalls/old", "/by-id/7?full=1"] == sent(flow)


async def test_two_places_are_none() -> None:
    flow = flow_with(moved("/by-id/7", 301, ("location", "/by-id/8")), FOUND)

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]


async def test_what_is_not_declared_is_not_followed() -> None:
    flow = flow_with(moved("/by-id/7"), FOUND, told=policy(redirect=Redirect()))

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]


@pytest.mark.parametrize("status", [307, 308])
async def test_a_change_is_never_followed(status: int) -> None:
    flow = flow_with(moved("/stalls/new/move", status), FOUND)

    assert ("confirmed_failure", "redirect_not_followed", "never", "none") == gist(
        await flow.ask(market.ask("stalls.move", stall="old"))
    )
    assert 1 == len(flow.executor.permits)


async def test_the_answer_there_is_held_to_what_the_operation_declares() -> None:
    flow = flow_with(moved("/by-id/7"), market.answered(200, b'{"id":"seven"}'))

    assert ("malformed_response", "identity") == gist(await flow.ask(READ))[:2]


async def test_hops_are_bounded_and_each_is_on_record() -> None:
    flow = flow_with(*[moved(f"/by-id/{number}") for number in range(20)])

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]
    assert 1 + MAX_HOPS == len(flow.executor.permits)


async def test_no_hop_begins_after_the_time_of_the_call() -> None:
    flow = flow_with(replace(moved("/by-id/7"), elapsed_ms=60_000), FOUND)

    assert "redirect_not_followed" == gist(await flow.ask(replace(READ, deadlines=Deadlines(total_s=30))))[1]
    assert 1 == len(flow.executor.permits)


async def test_what_the_policy_denies_there_is_not_reached_by_a_redirect() -> None:
    flow = flow_with(moved("/secrets"), FOUND)

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]
    assert ["/stalls/old"] == sent(flow)


@pytest.mark.parametrize("target", ["/prices", "/orders/7/"])
async def test_what_needs_a_yes_there_is_not_reached_by_a_redirect(target: str) -> None:
    """`prices.list` asks once per session; no rule names what lies beside an operation."""
    asking = Rule(id="ask", approval=ApprovalRule.PER_CALL, paths=("/orders/**",), place=market.PLACE)
    flow = flow_with(moved(target), FOUND, told=policy(asking))

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]


async def test_a_path_that_only_almost_fits_an_operation_is_not_followed() -> None:
    flow = flow_with(moved("/SECRETS"), FOUND)

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]


async def test_a_binding_that_does_not_cover_it_ends_it() -> None:
    flow = flow_with(moved("/by-id/7"), FOUND)
    flow.vault.put("market", market.TOKEN, f"{market.BASE_URL}/stalls")

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]


async def test_a_lock_in_between_ends_it() -> None:
    flow = flow_with(moved("/by-id/7"), FOUND)
    flow.executor.during = flow.vault.lock

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]
    assert 1 == len(flow.executor.permits)


async def test_an_address_that_holds_the_credential_is_not_followed() -> None:
    flow = flow_with(moved(f"/by-id/{market.TOKEN}"), FOUND)

    assert "redirect_not_followed" == gist(await flow.ask(READ))[1]


def listed(paging: Pagination, *answers: RawOutcome) -> Flow:
    flow = Flow()
    flow.policies.policy = policy_with(listing(paging, redirect=FOLLOWS))
    flow.executor.answers += answers
    return flow


LINKED = Pagination(kind=PagingKind.LINK_HEADER, token="next", stability=Stability.SNAPSHOT)
NEXT = ("link", '<?page=2>; rel="next"')


async def test_a_list_is_read_on_where_it_was_sent_to() -> None:
    flow = listed(LINKED, moved("/by-id/7/things"), page(things(1), NEXT), page(things(2)))
    envelope: Any = await flow.ask(collecting())

    assert ("success", "ok", "never", "none") == gist(envelope)
    assert ["/things", "/by-id/7/things", "/by-id/7/things?page=2"] == sent(flow)
    assert [{"id": 1}, {"id": 2}] == envelope["http"]["body_json"]
    assert ["DEFAULT_SCOPE_APPLIED"] == [one["code"] for one in envelope["warnings"]]
    marks = [
        (event.fields.get("page"), event.fields.get("hop"))
        for event in flow.audit.trail(flow.last)
        if event.name in {EventName.DISPATCH_STARTED, EventName.REMOTE_ANSWERED}
    ]
    assert [(1, None), (1, None), (1, 1), (1, 1), (3, None), (3, None)] == marks


async def test_each_page_may_be_sent_on_and_no_more_requests_go_out_than_were_allowed() -> None:
    paging = by_token(Stability.SNAPSHOT)
    pages = [moved("/other"), page(things(1), next="a"), moved("/other?page=a"), page(things(2), next="b")]
    flow = listed(paging, *pages, *[moved("/other?page=b")] * 9)
    envelope: Any = await flow.ask(collecting(pages=5))

    assert 5 == len(flow.executor.permits)
    assert ("partial", "incomplete") == gist(envelope)[:2]
    assert [{"id": 1}, {"id": 2}] == envelope["http"]["body_json"]


async def test_a_list_of_one_request_is_not_sent_on() -> None:
    flow = listed(LINKED, moved("/by-id/7/things"), page(things(1)))

    assert ("confirmed_failure", "redirect_not_followed") == gist(await flow.ask(collecting(pages=1)))[:2]
    assert ["/things"] == sent(flow)

"""T44: a URL that an answer supplies is followed on the same origin, below the service's base URL, or not at all."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.policy.declarations import Pagination, PagingKind, Stability
from broker.core.policy.model import Rule
from tests.fakes import market
from tests.fakes.flow import Flow
from tests.fakes.walked import collecting, listing, page, policy_with, things

BY_LINK = listing(Pagination(kind=PagingKind.LINK_HEADER, token="next", stability=Stability.SNAPSHOT))
BY_URL = listing(Pagination(kind=PagingKind.BODY_URL, token="json.next", stability=Stability.SNAPSHOT))
ELSEWHERE = (
    "https://evil.example/things?page=2",
    "//evil.example/things",
    "http://api.market.example/things?page=2",
    "https://api.market.example:8443/things",
    "https://api.market.example.evil.example/things",
    "https://api.market.example@evil.example/things",
    "https://API.market.example./things",
    "https://169.254.169.254/latest/meta-data/",
    "http://127.0.0.1/things",
    "http://[::ffff:127.0.0.1]/things",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "\\\\evil.example\\things",
    "/things/../../admin",
    "/things/%2e%2e/admin",
    "/things%2f..%2fadmin",
    "/things#x",
    "/things?page=2\r\nx-a: b",
    "https://api.market.example/" + "x" * 9000,
)


async def walked(flow: Flow, target: str, *, by_link: bool) -> Any:
    operation = BY_LINK if by_link else BY_URL
    if not flow.policies.policy.services["market"].operations.get("things.list"):
        flow.policies.policy = policy_with(operation)
    first = page(things(1), ("link", f'<{target}>; rel="next"')) if by_link else page(things(1), next=target)
    flow.executor.answers += [first, page(things(2))]
    return await flow.ask(collecting())


@pytest.mark.parametrize("by_link", [True, False])
@pytest.mark.parametrize("target", ELSEWHERE)
async def test_a_next_page_elsewhere_is_never_asked_for(target: str, by_link: bool) -> None:  # noqa: FBT001 - of a table
    flow = Flow()
    envelope = await walked(flow, target, by_link=by_link)

    assert 1 == len(flow.executor.permits)
    assert not envelope["completeness"]["complete"]
    assert "success" != envelope["category"]
    assert envelope["completeness"]["next_cursor"] is None
    assert "evil.example" not in repr(envelope["completeness"])


@pytest.mark.parametrize("by_link", [True, False])
@pytest.mark.parametrize(
    "target", ["/things?page=2", "https://api.market.example/things?page=2", "?page=2", "/v2/page/2"]
)
async def test_a_next_page_at_home_is_followed(target: str, by_link: bool) -> None:  # noqa: FBT001 - of a table
    flow = Flow()
    envelope = await walked(flow, target, by_link=by_link)

    assert 2 == len(flow.executor.permits)
    assert {market.BASE_URL.removeprefix("https://")} == {permit.frozen.host for permit in flow.executor.permits}
    assert {"GET"} == {permit.frozen.method for permit in flow.executor.permits}  # type: ignore[union-attr]  # of HTTP
    assert "success" == envelope["category"]


async def test_a_next_page_outside_the_base_url_is_not_followed() -> None:
    flow = Flow()
    policy = policy_with(BY_LINK)
    shop = replace(policy.services["market"], base_url=f"{market.BASE_URL}/api", base_path="/api")
    flow.policies.policy = replace(policy, services={**policy.services, "market": shop})
    flow.vault.put("market", market.TOKEN, market.BASE_URL)
    envelope = await walked(flow, "/admin/things", by_link=True)

    assert 1 == len(flow.executor.permits)
    assert not envelope["completeness"]["complete"]


async def test_a_next_page_that_the_policy_denies_is_not_followed() -> None:
    denied = Rule(id="no", approval=ApprovalRule.DENY, paths=("/secrets/**",), place=market.PLACE)
    flow = Flow()
    flow.policies.policy = policy_with(BY_LINK, denied)
    envelope = await walked(flow, "/secrets/things", by_link=True)

    assert 1 == len(flow.executor.permits)
    assert not envelope["completeness"]["complete"]


async def test_a_next_page_that_the_credential_is_not_bound_to_is_not_followed() -> None:
    flow = Flow()
    flow.vault.put("market", market.TOKEN, f"{market.BASE_URL}/things")
    envelope = await walked(flow, "/other", by_link=True)

    assert 1 >= len(flow.executor.permits)
    assert "success" != envelope["category"]


async def test_a_ring_of_pages_ends() -> None:
    flow = Flow()
    flow.policies.policy = policy_with(BY_LINK)
    for target in ("/things?page=2", "/things"):
        flow.executor.answers.append(page(things(1), ("link", f'<{target}>; rel="next"')))
    envelope: Any = await flow.ask(collecting())

    assert 2 == len(flow.executor.permits)
    assert ("partial", "never") == (envelope["category"], envelope["retry"])
    assert "COMPLETENESS_UNVERIFIED" == envelope["completeness"]["incomplete_reasons"][0]["code"]

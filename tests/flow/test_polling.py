"""Work that an upstream accepts is looked at until it is over, on the same origin and within the time of the call."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.events import EventName
from broker.core.frozen import Deadlines
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import Async, Delay
from broker.core.policy.model import Operation, Policy, ReadBack, Rule
from broker.core.predicate import compile_predicate
from tests.fakes import market
from tests.fakes.flow import Flow, gist

SLOW = Async(
    poll=("headers.operation-location", "json.status_url"),
    done_when=compile_predicate("json.state=='done'"),
    failed_when=compile_predicate("json.state=='failed'"),
    delay=(Delay(path="headers.retry-after", kind="http_retry_after"),),
    default_s=10,
)
JOB = market.ask("work.start", name="n")


def policy(slow: Async = SLOW, *rules: Rule, reconcile: ReadBack | None = None) -> Policy:
    operation: Operation = market.operation(
        "work.start", "POST", "/tasks", body=("name",), asynchronous=slow, reconcile=reconcile
    )
    shop = market.POLICY.services["market"]
    shop = replace(shop, ad_hoc=(), operations={**shop.operations, operation.name: operation})
    rule = Rule(id="work", approval=ApprovalRule.NONE, operations=("work.start",), place=market.PLACE)
    told = market.POLICY
    return replace(told, services={**told.services, "market": shop}, rules=(*told.rules, rule, *rules))


def flow_with(*answers: RawOutcome, told: Policy | None = None) -> Flow:
    flow = Flow()
    flow.policies.policy = told or policy()
    flow.executor.answers += answers
    return flow


def accepted(target: str = "/tasks/7", *headers: tuple[str, str]) -> RawOutcome:
    return market.answered(202, b'{"state":"running"}', ("operation-location", target), *headers)


def state(word: str, *headers: tuple[str, str]) -> RawOutcome:
    return market.answered(200, f'{{"state":"{word}"}}'.encode(), *headers)


def sent(flow: Flow) -> list[tuple[str, str]]:
    return [(one.frozen.method, one.frozen.url) for one in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP


async def test_work_that_gets_done_is_a_success() -> None:
    flow = flow_with(accepted(), state("running"), state("done"))
    envelope: Any = await flow.ask(JOB)

    assert ("success", "ok", "never", "applied") == gist(envelope)
    assert {"state": "done"} == envelope["http"]["body_json"]
    look = ("GET", f"{market.BASE_URL}/tasks/7")
    assert [("POST", f"{market.BASE_URL}/tasks"), look, look] == sent(flow)
    assert 20 == flow.clock.passed_ms / 1000
    looks = [
        event.fields.get("look") for event in flow.audit.trail(flow.last) if event.name is EventName.DISPATCH_STARTED
    ]
    assert [None, 1, 2] == looks
    assert [b'{"name":"n"}', b"", b""] == [one.frozen.body for one in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP


async def test_work_that_fails_is_no_success_and_may_have_been_done_in_part() -> None:
    assert ("confirmed_failure", "declared", "after_human", "unknown") == gist(
        await flow_with(accepted(), state("failed")).ask(JOB)
    )


async def test_work_that_is_not_done_in_time_stays_accepted() -> None:
    flow = flow_with(accepted(), *[state("running")] * 9)
    envelope: Any = await flow.ask(JOB)

    assert ("partial", "accepted", "after_delay", "unknown") == gist(envelope)
    assert ["IN_PROGRESS"] == [one["code"] for one in envelope["completeness"]["incomplete_reasons"]]
    assert 6 == len(flow.executor.permits)
    assert flow.clock.passed_ms <= 60_000


async def test_nobody_looks_for_ever() -> None:
    patient = replace(JOB, deadlines=Deadlines(total_s=3600))
    flow = flow_with(accepted(), *[state("running", ("retry-after", "1"))] * 120)

    assert ("partial", "accepted") == gist(await flow.ask(patient))[:2]
    assert 101 == len(flow.executor.permits)


async def test_the_upstream_says_how_long_to_wait() -> None:
    flow = flow_with(accepted("/tasks/7", ("retry-after", "3")), state("running", ("retry-after", "0")), state("done"))
    await flow.ask(JOB)

    assert 4 == flow.clock.passed_ms / 1000


@pytest.mark.parametrize(
    "target",
    ["https://evil.example/tasks/7", "//evil.example/x", "http://api.market.example/x", "/a/../b", "https://[::1", ""],
)
async def test_work_is_looked_at_nowhere_else(target: str) -> None:
    flow = flow_with(accepted(target), state("done"))

    assert ("partial", "accepted") == gist(await flow.ask(JOB))[:2]
    assert 1 == len(flow.executor.permits)


async def test_a_later_answer_may_name_another_place_at_home_and_none_elsewhere() -> None:
    there = state("running", ("operation-location", "/tasks/8"))
    away = state("running", ("operation-location", "https://evil.example/"))
    flow = flow_with(accepted(), there, away, state("done"))
    await flow.ask(JOB)

    assert ["/tasks", "/tasks/7", "/tasks/8", "/tasks/8"] == [
        url.removeprefix(market.BASE_URL) for _, url in sent(flow)
    ]


async def test_a_look_that_the_policy_denies_is_not_made() -> None:
    deny = Rule(id="no", approval=ApprovalRule.DENY, paths=("/tasks/*",), place=market.PLACE)
    flow = flow_with(accepted(), state("done"), told=policy(SLOW, deny))

    assert ("partial", "accepted") == gist(await flow.ask(JOB))[:2]
    assert 1 == len(flow.executor.permits)


CHANGES: dict[str, Callable[[Flow], object]] = {
    "lock": lambda flow: flow.vault.lock(),
    "session": lambda flow: flow.sessions.exit(flow.caller),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_no_look_is_made_once_what_was_decided_under_has_changed(change: str) -> None:
    flow = flow_with(accepted(), state("done"))

    def change_it() -> None:
        CHANGES[change](flow)

    flow.executor.during = change_it

    assert "partial" == gist(await flow.ask(JOB))[0]
    assert 1 == len(flow.executor.permits)


async def test_a_look_that_is_lost_or_refused_says_nothing_of_the_work() -> None:
    flow = flow_with(accepted(), market.LOST, market.answered(404, b"{}"), state("done"))

    assert ("success", "ok", "never", "applied") == gist(await flow.ask(JOB))
    assert 4 == len(flow.executor.permits)


async def test_work_that_fails_can_be_read_back_where_that_is_declared() -> None:
    told = market.POLICY.services["market"].operations["orders.create"].reconcile
    flow = flow_with(accepted(), state("failed"), told=policy(reconcile=told))

    assert "reconcile_first" == gist(await flow.ask(JOB))[2]


async def test_what_is_no_accepted_work_is_not_looked_at() -> None:
    flow = flow_with(market.answered(500, b"{}", ("operation-location", "/tasks/7")), state("done"))

    assert ("outcome_unknown", "server_error") == gist(await flow.ask(JOB))[:2]
    assert 1 == len(flow.executor.permits)


async def test_without_a_declared_sign_nothing_is_settled() -> None:
    flow = flow_with(accepted(), *[state("done")] * 9, told=policy(Async(poll=SLOW.poll, default_s=30)))

    assert ("partial", "accepted") == gist(await flow.ask(JOB))[:2]

"""Collections through the pipeline: one decision and one card, a dispatch of its own for each page, one result."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import ApprovalRule
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.policy.declarations import CompletenessDecl, Pagination, PagingEnd, PagingKind, Stability
from broker.core.policy.model import Operation
from broker.core.predicate import compile_predicate
from broker.core.ssh.outcome import SshOutcome, SshPhase
from broker.ports import LedgerSealed
from tests.fakes import market
from tests.fakes.flow import Flow, gist
from tests.fakes.walked import by_token, collecting, listing, page, policy_with, things

STABLE = listing(by_token(Stability.SNAPSHOT))
THREE = (page(things(1, 2), next="a"), page(things(3), next="b"), page(things(4), next=None))
PART = ("partial", "incomplete", "bounded", "none")


def flow_with(operation: Operation = STABLE, *answers: RawOutcome, approval: ApprovalRule = ApprovalRule.NONE) -> Flow:
    flow = Flow()
    flow.policies.policy = policy_with(operation, approval=approval)
    flow.executor.answers += answers
    return flow


def rows(envelope: Any) -> list[int]:
    return [row["id"] for row in envelope["http"]["body_json"]]


def codes(envelope: Any) -> list[tuple[str, str]]:
    return [(one["code"], one["by"]) for one in envelope["completeness"]["incomplete_reasons"]]


def urls(flow: Flow) -> list[str]:
    return [permit.frozen.url.removeprefix(market.BASE_URL) for permit in flow.executor.permits]  # type: ignore[union-attr]  # of HTTP


def between(flow: Flow, change: Callable[[Flow], object], *, after: int = 1) -> None:
    """Let something happen while the page with this number is on its way."""

    def happen() -> None:
        if len(flow.executor.permits) == after:
            change(flow)

    flow.executor.during = happen


async def test_the_rows_of_all_pages_are_one_list_and_one_result() -> None:
    flow = flow_with(STABLE, *THREE)
    envelope: Any = await flow.ask(collecting())

    assert ("success", "ok", "never", "none") == gist(envelope)
    assert [1, 2, 3, 4] == rows(envelope)
    assert ["/things", "/things?page=a", "/things?page=b"] == urls(flow)
    assert (4, 3, 4) == (
        envelope["completeness"]["returned"],
        envelope["completeness"]["work"]["pages"],
        envelope["evidence"]["count"],
    )


async def test_a_human_is_asked_once_and_told_how_far_it_may_go() -> None:
    flow = flow_with(STABLE, *THREE, approval=ApprovalRule.PER_CALL)
    async with flow.asking(collecting(pages=3)) as (card, answer):
        told = card.question.frozen.walk.budget  # type: ignore[union-attr]  # it is a walk
        flow.desk.settle(card, Happening.APPROVED)

    assert 3 == told.pages
    assert 1 == len(flow.desk.cards)
    assert [1, 2, 3, 4] == rows(answer.result())


async def test_each_page_has_its_intent_and_what_came_of_it() -> None:
    flow = flow_with(STABLE, *THREE)
    await flow.ask(collecting())
    trail = flow.audit.trail(flow.last)

    sent = [event for event in trail if event.name is EventName.DISPATCH_STARTED]
    came = [event for event in trail if event.name is EventName.REMOTE_ANSWERED]
    assert [1, 2, 3] == [event.fields["page"] for event in sent] == [event.fields["page"] for event in came]
    assert 3 == len({event.fields["digest"] for event in sent})
    names = [event.name for event in trail]
    assert names.index(EventName.EVIDENCE_RECORDED) == len(names) - 2


@pytest.mark.parametrize(
    ("wish", "read", "limit"),
    [
        ({"pages": 2}, [1, 2, 3], (2, "pages")),
        ({"items": 3}, [1, 2, 3], (3, "items")),
        ({"bytes": 5}, [1, 2], (5, "bytes")),
    ],
)
async def test_the_brokers_own_limit_is_disclosed_and_can_be_gone_beyond(
    wish: dict[str, Any], read: list[int], limit: tuple[int, str]
) -> None:
    flow = flow_with(STABLE, *THREE)
    first: Any = await flow.ask(collecting(**wish))
    told = first["completeness"]

    assert PART == gist(first)
    assert read == rows(first)
    assert [("MORE_PAGES_AVAILABLE", "provider"), ("RESULT_LIMIT_REACHED", "broker")] == codes(first)
    assert limit == (told["incomplete_reasons"][1]["limit"], told["incomplete_reasons"][1]["unit"])
    assert first["next"]["cursor"] == told["next_cursor"] == told["continuation"]["cursor"]

    second: Any = await flow.ask(collecting(cursor=told["next_cursor"]))

    assert ("success", "ok", "never", "none") == gist(second)
    assert [1, 2, 3, 4] == [*rows(first), *rows(second)]
    assert 4 == second["evidence"]["count"]
    assert second["completeness"]["complete"]


async def test_the_command_that_goes_on_is_told_unless_it_is_too_long() -> None:
    flow = flow_with(listing(by_token(), query=("page",), body_free=True), *THREE, *THREE)
    first: Any = await flow.ask(collecting(pages=1, args={"q": "it's", "n": 3}))
    cursor = first["completeness"]["next_cursor"]
    long: Any = await flow.ask(collecting(pages=1, args={"q": "x" * 3000}))

    assert f"""doorward collect market.things.list 'q=it'"'"'s' n:=3 --cursor {cursor}""" == first["next"]["command"]
    assert long["next"]["command"] is None


async def test_what_goes_on_without_a_snapshot_never_claims_the_whole() -> None:
    flow = flow_with(listing(by_token()), *THREE)
    first: Any = await flow.ask(collecting(pages=2))
    second: Any = await flow.ask(collecting(cursor=first["next"]["cursor"]))

    assert ("partial", "incomplete", "never", "none") == gist(second)
    assert [("COMPLETENESS_UNVERIFIED", "provider")] == codes(second)
    assert not second["evidence"]["complete"]


async def test_time_that_runs_out_is_told_and_leaves_a_cursor() -> None:
    flow = flow_with(STABLE, *THREE)
    between(flow, lambda flow: flow.clock.advance(seconds=5))
    envelope: Any = await flow.ask(collecting(seconds=4))

    assert PART == gist(envelope)
    assert [("MORE_PAGES_AVAILABLE", "provider"), ("TIME_BUDGET_EXCEEDED", "broker")] == codes(envelope)
    assert envelope["next"]["cursor"] is not None


async def test_no_page_is_given_more_time_than_is_left() -> None:
    flow = flow_with(STABLE, *THREE)
    between(flow, lambda flow: flow.clock.advance(seconds=8))
    await flow.ask(collecting(seconds=10))

    assert [10.0, 2.0, 2.0] == [permit.frozen.deadlines.total_s for permit in flow.executor.permits]


async def test_a_rate_limit_on_the_way_keeps_what_was_read_and_says_when_to_go_on() -> None:
    limited = market.answered(429, b"{}", ("retry-after", "7"))
    flow = flow_with(STABLE, THREE[0], limited, *THREE[1:])
    envelope: Any = await flow.ask(collecting())
    told = envelope["completeness"]

    assert ("partial", "incomplete", "after_delay", "none") == gist(envelope)
    assert [1, 2] == rows(envelope)
    assert {"kind": "retry_after", "cursor": told["next_cursor"], "after_s": 7} == told["continuation"]

    rest: Any = await flow.ask(collecting(cursor=told["next_cursor"]))

    assert [3, 4] == rows(rest)
    assert rest["completeness"]["complete"]
    assert "/things?page=a" == urls(flow)[2]


async def test_a_page_that_is_lost_costs_no_other_page() -> None:
    flow = flow_with(STABLE, THREE[0], market.LOST)
    envelope: Any = await flow.ask(collecting())

    assert PART == gist(envelope)
    assert [1, 2] == rows(envelope)
    assert [("SOURCE_UNAVAILABLE", "provider")] == codes(envelope)
    assert envelope["next"]["cursor"] is not None


async def test_a_page_that_outlasts_the_walk_is_the_walks_own_limit() -> None:
    late = market.failed(Fault.TOTAL_TIMEOUT, Phase.RESPONSE_STARTED)
    flow = flow_with(STABLE, THREE[0], late)
    between(flow, lambda flow: flow.clock.advance(seconds=60), after=2)
    envelope: Any = await flow.ask(collecting())

    assert [("MORE_PAGES_AVAILABLE", "provider"), ("TIME_BUDGET_EXCEEDED", "broker")] == codes(envelope)


async def test_a_refused_credential_on_the_way_is_nothing_to_go_on_from() -> None:
    flow = flow_with(STABLE, THREE[0], market.answered(401, b"{}"))
    envelope: Any = await flow.ask(collecting())

    assert ("partial", "incomplete", "never", "none") == gist(envelope)
    assert envelope["completeness"]["next_cursor"] is None


async def test_a_first_page_that_fails_stands_for_itself() -> None:
    flow = flow_with(STABLE, market.LOST)
    envelope = await flow.ask(collecting())

    assert ("outcome_unknown", "connection_lost", "bounded", "none") == gist(envelope)
    assert envelope["evidence"] is None


async def test_a_first_page_that_is_still_made_is_no_walk() -> None:
    flow = flow_with(STABLE, market.answered(202, b"{}"))

    assert "partial" == gist(await flow.ask(collecting()))[0]


async def test_a_later_page_that_is_still_made_ends_the_walk() -> None:
    flow = flow_with(STABLE, THREE[0], market.answered(202, b"{}"))
    envelope = await flow.ask(collecting())

    assert ("partial", "accepted", "never", "none") == gist(envelope)
    assert [("IN_PROGRESS", "provider")] == codes(envelope)


CHANGES: dict[str, Callable[[Flow], object]] = {
    "lock": lambda flow: flow.vault.lock(),
    "freeze": lambda flow: setattr(flow.sessions, "frozen", True),
    "policy": lambda flow: setattr(flow.policies, "policy", replace(flow.policies.policy, digest=market.OTHER_DIGEST)),
    "session": lambda flow: flow.sessions.exit(flow.caller),
    "credential": lambda flow: flow.vault.put("market", "canary-token-of-another-version", market.BASE_URL),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_whatever_changes_between_two_pages_no_further_page_is_sent(change: str) -> None:
    flow = flow_with(STABLE, *THREE)
    between(flow, CHANGES[change])
    envelope: Any = await flow.ask(collecting())

    assert 1 == len(flow.executor.permits)
    assert "partial" == envelope["category"]
    assert [("SOURCE_UNAVAILABLE", "broker")] == codes(envelope)
    assert [1, 2] == rows(envelope)
    assert envelope["completeness"]["next_cursor"] is None


async def test_pages_count_against_the_rate_of_their_rule() -> None:
    flow = flow_with(STABLE, *THREE)
    between(flow, lambda flow: setattr(flow.sessions, "over_rate", True), after=2)
    envelope: Any = await flow.ask(collecting())

    assert 2 == len(flow.executor.permits)
    assert "requests per minute" == envelope["completeness"]["incomplete_reasons"][1]["unit"]


EXPIRED = compile_predicate("status==`410`")
GONE = market.answered(410, b"{}")


async def test_an_expired_token_ends_the_walk_with_what_there_is() -> None:
    flow = flow_with(listing(by_token(Stability.SNAPSHOT, expired_when=EXPIRED)), THREE[0], GONE)
    envelope = await flow.ask(collecting())

    assert ("partial", "incomplete", "never", "none") == gist(envelope)
    assert [("CURSOR_EXPIRED", "provider")] == codes(envelope)
    assert [1, 2] == rows(envelope)


async def test_an_expired_token_begins_the_walk_anew_where_that_is_declared_and_merges_nothing() -> None:
    again = (page(things(7, 8), next="c"), page(things(9), next=None))
    operation = listing(by_token(Stability.SNAPSHOT, expired_when=EXPIRED, restarts=True))
    flow = flow_with(operation, THREE[0], GONE, *again)
    envelope: Any = await flow.ask(collecting())

    assert [7, 8, 9] == rows(envelope)
    assert envelope["completeness"]["complete"]
    assert ["/things", "/things?page=a", "/things", "/things?page=c"] == urls(flow)


async def test_it_begins_anew_once_and_never_after_rows_were_given_out() -> None:
    operation = listing(by_token(Stability.SNAPSHOT, expired_when=EXPIRED, restarts=True))
    twice = flow_with(operation, THREE[0], GONE, THREE[0], GONE)
    envelope: Any = await twice.ask(collecting())
    later = flow_with(operation, THREE[0], GONE)
    first: Any = await later.ask(collecting(pages=1))
    second: Any = await later.ask(collecting(cursor=first["next"]["cursor"]))

    assert [("CURSOR_EXPIRED", "provider")] == codes(envelope) == codes(second)
    assert 2 == len(later.executor.permits)


async def test_the_window_that_is_served_no_further_keeps_the_pages_in_hand() -> None:
    capped = listing(by_token(Stability.SNAPSHOT, end_error_when=compile_predicate("status==`422`")))
    flow = flow_with(capped, THREE[0], market.answered(422, b"{}"))
    envelope = await flow.ask(collecting())

    assert ("partial", "incomplete", "never", "none") == gist(envelope)
    assert [("RESULT_LIMIT_REACHED", "provider")] == codes(envelope)


async def test_a_cursor_is_its_anchors_own_and_belongs_to_the_same_collection() -> None:
    flow = flow_with(STABLE, *THREE)
    first: Any = await flow.ask(collecting(pages=1))
    cursor = first["next"]["cursor"]
    other = await flow.ask(collecting(cursor=cursor), caller=market.agent(5000))
    elsewhere = await flow.ask(collecting(cursor=cursor, args={"q": "x"}))
    invented = await flow.ask(collecting(cursor="cur_" + "f" * 32))
    flow.vault.put("market", "canary-token-of-another-version", market.BASE_URL)
    renewed = await flow.ask(collecting(cursor=cursor))

    for envelope in (other, elsewhere, invented, renewed):
        assert ("invalid_request", "schema") == gist(envelope)[:2]
    assert 1 == len(flow.executor.permits)


async def test_a_cursor_is_no_use_under_another_policy() -> None:
    flow = flow_with(STABLE, *THREE)
    first: Any = await flow.ask(collecting(pages=1))
    flow.policies.policy = replace(flow.policies.policy, digest=market.OTHER_DIGEST)

    assert ("invalid_request", "schema") == gist(await flow.ask(collecting(cursor=first["next"]["cursor"])))[:2]


async def test_only_a_declared_read_is_collected_and_from_its_beginning() -> None:
    flow = flow_with(STABLE, *THREE)
    write = replace(collecting(), operation="tips.give", args={"cents": 1})
    for ask in (
        write,
        replace(collecting(), operation="no"),
        replace(collecting(), service="no"),
        collecting(args={"page": "b"}),
    ):
        assert "invalid_request" == gist(await flow.ask(ask))[0]

    assert [] == flow.executor.permits


async def test_the_same_request_id_gives_the_recorded_walk_and_sends_nothing() -> None:
    flow = flow_with(STABLE, *THREE)
    first = await flow.ask(collecting(), request_id="r1")

    assert first == await flow.ask(collecting(), request_id="r1")
    assert 3 == len(flow.executor.permits)
    assert ("invalid_request", "request_id_conflict") == gist(await flow.ask(collecting(pages=1), request_id="r1"))[:2]


async def test_a_page_whose_intent_can_not_be_written_is_not_sent() -> None:
    flow = flow_with(STABLE, *THREE)
    between(flow, lambda flow: flow.audit.break_at(EventName.DISPATCH_STARTED))
    envelope = await flow.ask(collecting(), request_id="r1")

    assert ("broker_unavailable", "audit_unwritable") == gist(envelope)[:2]
    assert 1 == len(flow.executor.permits)


async def test_pages_are_scrubbed_each_for_itself_and_a_withheld_one_is_told() -> None:
    echo = [{"id": 3, "says": market.TOKEN}]
    flow = flow_with(STABLE, THREE[0], page(echo, next=None))
    envelope: Any = await flow.ask(collecting())

    assert [1, 2, 3] == rows(envelope)
    assert "[redacted]" == envelope["http"]["body_json"][2]["says"]
    assert market.TOKEN not in repr(envelope)


async def test_rows_of_a_page_that_may_not_leave_are_missing_and_said_to_be() -> None:
    broken = page([{"id": 3, "says": market.TOKEN[:10] + "\\n" + market.TOKEN[10:]}], next=None)
    wrapped = replace(broken, body=broken.body.replace(b"\\\\n", b"\\n"))
    flow = flow_with(STABLE, THREE[0], wrapped)
    envelope: Any = await flow.ask(collecting())

    assert [1, 2] == rows(envelope)
    assert [("OUTPUT_TRUNCATED", "broker")] == codes(envelope)


async def test_a_long_page_is_read_beside_the_others() -> None:
    long = page([{"id": 1, "text": "x" * 20_000}], next=None)
    envelope: Any = await flow_with(STABLE, long).ask(collecting())

    assert envelope["completeness"]["complete"]


async def test_a_body_without_rows_is_given_as_it_is() -> None:
    whole = market.answered(200, b'{"count": 3}')
    operation = listing(Pagination(kind=PagingKind.NONE), CompletenessDecl())
    envelope: Any = await flow_with(operation, whole).ask(collecting())

    assert {"count": 3} == envelope["http"]["body_json"]
    assert [("COMPLETENESS_UNVERIFIED", "provider")] == codes(envelope)
    assert envelope["evidence"] is None


async def test_rows_of_xml_come_as_a_list() -> None:
    def listed(*ids: int, token: str) -> RawOutcome:
        told = "".join(f"<Thing><id>{one}</id></Thing>" for one in ids)
        answer = market.answered(200, f"<List>{told}<Next>{token}</Next></List>".encode())
        return replace(answer, headers=(("content-type", "application/xml"),))

    paging = by_token(Stability.SNAPSHOT, token="xml.List.Next", end_values=("",))
    operation = listing(replace(paging, end=PagingEnd.VALUES), CompletenessDecl(items="xml.List.Thing", id="id"))
    envelope: Any = await flow_with(operation, listed(1, 2, token="t"), listed(3, token="")).ask(collecting())

    assert ["1", "2", "3"] == [row["id"] for row in envelope["http"]["body_json"]]
    assert envelope["completeness"]["complete"]


async def test_without_a_record_nothing_can_be_leaned_on_and_the_list_is_there_all_the_same() -> None:
    flow = flow_with(STABLE, *THREE)
    flow.evidence.record_fault = LedgerSealed()
    envelope: Any = await flow.ask(collecting())

    assert envelope["evidence"] is None
    assert envelope["completeness"]["complete"]
    assert "evidence.recorded" not in flow.audit.names(flow.last)


async def test_an_outcome_of_another_channel_is_a_fault_of_ours() -> None:
    flow = flow_with(STABLE, THREE[0])
    flow.executor.answers.append(SshOutcome(phase=SshPhase.CLOSED))
    with pytest.raises(TypeError):
        await flow.ask(collecting())

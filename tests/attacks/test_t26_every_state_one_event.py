"""T26: a walk over the whole graph of endings. Each state of a request has one event, and each request one end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Retry
from broker.contract.wire import JsonObject
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk
from broker.ports import LedgerSealed
from broker.steps import Received
from tests.fakes import market
from tests.fakes.flow import Flow, gist

Walk = Callable[[Flow], Awaitable[JsonObject]]
BEGIN, END = "begin", "end"
GRAPH = {
    BEGIN: {"action.requested"},
    "action.requested": {"policy.decided", "action.result"},
    "policy.decided": {"approval.requested", "dispatch.started", "action.result"},
    "approval.requested": {"approval.decided"},
    "approval.decided": {"dispatch.started", "action.result"},
    "dispatch.started": {"remote.answered", "deadline.expired", "transport.failed"},
    "remote.answered": {"action.result"},
    "deadline.expired": {"action.result"},
    "transport.failed": {"action.result"},
    "action.result": {END},
}
UNREADABLE = Refusal(category=Category.INVALID_REQUEST, code="unreadable", retry=Retry.NEVER, message="Not JSON.")
UNKNOWN_ID = replace(UNREADABLE, code="unknown_correlation_id")


def asks(ask: HttpAsk | Refusal, *before: RawOutcome, request_id: str | None = None) -> Walk:
    async def walk(flow: Flow) -> JsonObject:
        flow.executor.answers += before
        return await flow.ask(ask, request_id=request_id)

    return walk


def answers(ask: HttpAsk, happening: Happening, *before: RawOutcome, scope: str = "once") -> Walk:
    async def walk(flow: Flow) -> JsonObject:
        flow.executor.answers += before
        return await flow.ask_and_answer(ask, happening, scope=scope)

    return walk


def after(change: Callable[[Flow], object], walk: Walk) -> Walk:
    async def both(flow: Flow) -> JsonObject:
        change(flow)
        return await walk(flow)

    return both


def between_yes_and_permit(change: Callable[[Flow], object]) -> Walk:
    async def walk(flow: Flow) -> JsonObject:
        async with flow.asking(market.CREATE) as (card, answer):
            flow.desk.settle(card, Happening.APPROVED)
            change(flow)
        return answer.result()

    return walk


def twice(ask: HttpAsk, then: HttpAsk | None = None) -> Walk:
    async def walk(flow: Flow) -> JsonObject:
        await flow.ask(ask, request_id="r1")
        return await flow.ask(then or ask, request_id="r1")

    return walk


async def under_a_grant(flow: Flow) -> JsonObject:
    await flow.ask_and_answer(market.LISTING, scope="session")
    return await flow.ask(market.LISTING)


async def in_doubt(flow: Flow) -> JsonObject:
    await flow.doubt()
    return await flow.ask(market.TIP)


async def again_in_doubt(flow: Flow) -> JsonObject:
    await flow.doubt_after_yes(market.SEND)
    return await flow.ask_and_answer(market.SEND)


def every_card(happening: Happening) -> Walk:
    return answers(market.CREATE, happening)


def joins(happening: Happening, *before: RawOutcome) -> Walk:
    """Two at one card; what the second one is told."""

    async def walk(flow: Flow) -> JsonObject:
        flow.executor.answers += before
        async with flow.asking(market.CREATE) as (card, _), asyncio.TaskGroup() as tasks:
            received = flow.received(market.CREATE)
            follower = tasks.create_task(flow.perform(received))
            await flow.until(lambda: received.correlation_id in flow.runs.runs and _waits(flow, received))
            flow.desk.settle(card, happening)
        return follower.result()

    return walk


def _waits(flow: Flow, received: Received) -> bool:
    return flow.runs.runs[received.correlation_id].pending is not None


async def repeats_what_runs(flow: Flow) -> JsonObject:
    """The same request id, while the first is on the wire."""
    flow.executor.may_answer.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(flow.ask(market.TIP, request_id="r1"))
        await flow.until(lambda: len(flow.executor.permits) == 1)
        again = tasks.create_task(flow.ask(market.TIP, request_id="r1"))
        await flow.until(lambda: len(flow.runs.runs) == 2)
        flow.executor.may_answer.set()
    return again.result()


async def after_a_crash(flow: Flow) -> JsonObject:
    """The first died on the wire: the log has its intent, the ledger no outcome, and the id is asked for again."""
    flow.executor.answers.append(RuntimeError("the daemon dies here"))
    with pytest.raises(RuntimeError):
        await flow.ask(market.TIP, request_id="r1")
    return await flow.ask(market.TIP, request_id="r1")


async def sealed_meanwhile(flow: Flow) -> JsonObject:
    def lock() -> None:
        flow.vault.lock()
        raise LedgerSealed

    flow.ledger.meanwhile = lock
    return await flow.ask(market.TIP)


def _break_policy(flow: Flow) -> None:
    flow.policies.policy = replace(market.POLICY, digest=market.OTHER_DIGEST)


def _freeze(flow: Flow) -> None:
    flow.sessions.frozen = True


def _fill(flow: Flow) -> None:
    flow.audit.has_room = False


WALKS: dict[str, tuple[Walk, str, str]] = {
    "unreadable": (asks(UNREADABLE), "invalid_request", "unreadable"),
    "unknown id": (asks(UNKNOWN_ID), "invalid_request", "unknown_correlation_id"),
    "unknown service": (asks(HttpAsk(service="no", operation="x", args={})), "invalid_request", "unknown_service"),
    "unknown operation": (asks(market.ask("no.such")), "invalid_request", "unknown_operation"),
    "bad arguments": (asks(market.ask("prices.get")), "invalid_request", "schema"),
    "bad url": (asks(HttpAsk(method="GET", url="https://a.example/../x")), "invalid_request", "bad_url"),
    "reserved": (asks(replace(market.READ, headers=(("host", "x"),))), "invalid_request", "reserved_header"),
    "too large": (asks(replace(market.AD_HOC, body=b"x" * 300_000)), "invalid_request", "body_too_large"),
    "locked": (after(lambda flow: flow.vault.lock(), asks(market.READ)), "vault_locked", "locked"),
    "frozen": (after(_freeze, asks(market.READ)), "broker_unavailable", "frozen"),
    "disk low": (after(_fill, asks(market.READ)), "broker_unavailable", "disk_low"),
    "gone": (after(lambda flow: flow.sessions.exit(flow.caller), asks(market.READ)), "session_denied", "session_ended"),
    "denied by rule": (asks(market.FORBIDDEN), "policy_denied", "rule_denied"),
    "no rule": (asks(HttpAsk(service="market", method="PUT", path="/x")), "policy_denied", "no_rule"),
    "no credential": (asks(HttpAsk(service="cellar", method="GET", path="/")), "policy_denied", "rule_denied"),
    "replay": (twice(market.TIP), "success", "ok"),
    "conflict": (twice(market.TIP, market.READ), "invalid_request", "request_id_conflict"),
    "in doubt": (in_doubt, "reconcile_required", "in_doubt"),
    "no each call": (answers(market.CREATE, Happening.DENIED), "call_denied", "declined"),
    "no session": (answers(market.LISTING, Happening.DENIED), "session_denied", "declined"),
    "expired": (answers(market.CREATE, Happening.EXPIRED), "approval_timeout", "approval_expired"),
    "withdrawn": (answers(market.CREATE, Happening.WITHDRAWN), "approval_timeout", "withdrawn"),
    "superseded": (answers(market.CREATE, Happening.SUPERSEDED), "approval_timeout", "superseded"),
    "stopping": (answers(market.CREATE, Happening.STOPPING), "broker_unavailable", "shutting_down"),
    "lock at the card": (answers(market.CREATE, Happening.LOCKED), "vault_locked", "locked"),
    "void": (between_yes_and_permit(_break_policy), "approval_timeout", "approval_void"),
    "lock after yes": (between_yes_and_permit(lambda flow: flow.vault.lock()), "vault_locked", "locked"),
    "frozen at the card": (every_card(Happening.FROZEN), "broker_unavailable", "frozen"),
    "agent gone at the card": (every_card(Happening.SESSION_ENDED), "session_denied", "session_ended"),
    "policy changed at the card": (every_card(Happening.POLICY_CHANGED), "approval_timeout", "approval_void"),
    "credential changed at the card": (every_card(Happening.CREDENTIAL_CHANGED), "approval_timeout", "approval_void"),
    "joined": (joins(Happening.APPROVED), "success", "ok"),
    "joined a no": (joins(Happening.DENIED), "call_denied", "declined"),
    "joined what is lost": (joins(Happening.APPROVED, market.LOST), "outcome_unknown", "connection_lost"),
    "joined what expired": (joins(Happening.EXPIRED), "approval_timeout", "approval_expired"),
    "under way already": (repeats_what_runs, "success", "ok"),
    "after a crash": (after_a_crash, "outcome_unknown", "unrecorded"),
    "sealed meanwhile": (sealed_meanwhile, "vault_locked", "locked"),
    "read": (asks(market.READ), "success", "ok"),
    "write": (asks(market.TIP), "success", "ok"),
    "yes": (answers(market.CREATE, Happening.APPROVED), "success", "ok"),
    "yes for the session": (answers(market.NOTE, Happening.APPROVED, scope="session"), "success", "ok"),
    "grant": (under_a_grant, "partial", "incomplete"),
    "sent again": (again_in_doubt, "success", "ok"),
    "accepted": (asks(market.TIP, market.answered(202)), "partial", "accepted"),
    "rejected": (asks(market.READ, market.answered(401)), "authentication_failed", "rejected"),
    "forbidden": (asks(market.READ, market.answered(403)), "authorization_denied", "forbidden"),
    "not found": (asks(market.READ, market.answered(404)), "confirmed_failure", "not_found"),
    "redirect": (asks(market.READ, market.answered(302)), "confirmed_failure", "redirect_not_followed"),
    "rate": (asks(market.READ, market.answered(429)), "rate_limited", "too_many"),
    "garbage": (asks(market.READ, market.answered(200, b"{,")), "malformed_response", "decoding"),
    "cut": (asks(market.READ, market.answered(200, b"{", fault=Fault.TRUNCATED)), "malformed_response", "truncated"),
    "server error": (asks(market.TIP, market.answered(500)), "outcome_unknown", "server_error"),
    "not reached": (asks(market.READ, market.REFUSED), "local_failure", "connect_refused"),
    "connect timeout": (
        asks(market.READ, market.failed(Fault.CONNECT_TIMEOUT, Phase.CONNECTING)), "local_failure", "connect_timeout",
    ),
    "lost": (asks(market.TIP, market.LOST), "outcome_unknown", "connection_lost"),
    "timed out": (asks(market.TIP, market.TIMED_OUT), "outcome_unknown", "first_byte_timeout"),
    "our fault": (asks(market.TIP, market.failed(Fault.INTERNAL, Phase.BODY_SENT)), "broker_unavailable", "internal"),
}  # fmt: skip


def edges(names: list[str]) -> set[tuple[str, str]]:
    return set(zip([BEGIN, *names], [*names, END], strict=True))


@pytest.mark.parametrize("name", WALKS)
async def test_each_request_ends_as_it_should_with_one_event_per_state(name: str) -> None:
    walk, category, code = WALKS[name]
    flow = Flow()
    envelope = await walk(flow)

    assert (category, code) == gist(envelope)[:2]
    for correlation_id in flow.runs.runs:
        names = flow.audit.names(correlation_id)
        assert edges(names) <= {(one, other) for one, others in GRAPH.items() for other in others}
        assert {1} == set(Counter(names).values())
        assert (BEGIN, END) not in edges(names)


async def test_the_walks_cover_the_graph() -> None:
    walked: set[tuple[str, str]] = set()
    for walk, _, _ in WALKS.values():
        flow = Flow()
        await walk(flow)
        for correlation_id in flow.runs.runs:
            walked |= edges(flow.audit.names(correlation_id))

    assert {(one, other) for one, others in GRAPH.items() for other in others} == walked


def test_the_walks_cover_every_ending_that_this_ladder_has() -> None:
    not_yet = {
        Category.COMMAND_FAILED,  # of commands
        Category.EVIDENCE_REQUIRED,  # nothing asks for evidence yet
        Category.APPROVAL_PENDING,  # no ending
    }

    assert set(Category) - not_yet == {Category(category) for _, category, _ in WALKS.values()}


async def test_the_walks_end_a_card_in_every_way_there_is() -> None:
    ended: set[str] = set()
    for walk, _, _ in WALKS.values():
        flow = Flow()
        await walk(flow)
        ended |= {
            str(event.fields["decision"]) for event in flow.audit.events if event.name is EventName.APPROVAL_DECIDED
        }

    assert {happening.value for happening in Happening} == ended


async def test_every_intent_is_followed_by_what_came_of_it_and_every_request_by_one_end() -> None:
    for name, (walk, _, _) in WALKS.items():
        flow = Flow()
        await walk(flow)
        told = Counter(event.name for event in flow.audit.events)
        endings = [EventName.REMOTE_ANSWERED, EventName.DEADLINE_EXPIRED, EventName.TRANSPORT_FAILED]
        assert told[EventName.DISPATCH_STARTED] == sum(told[ending] for ending in endings), name
        assert told[EventName.ACTION_REQUESTED] == told[EventName.ACTION_RESULT], name
        assert told[EventName.APPROVAL_REQUESTED] == told[EventName.APPROVAL_DECIDED], name
        assert len(flow.executor.permits) == told[EventName.DISPATCH_STARTED], name


async def test_every_end_says_in_the_log_what_the_agent_was_told() -> None:
    for walk, _, _ in WALKS.values():
        flow = Flow()
        envelope = await walk(flow)
        end = flow.audit.trail(flow.last)[-1].fields
        if "recorded" in end:
            assert end["recorded"] == envelope["correlation_id"]
        else:
            assert gist(end) == gist(envelope)
            assert (end["operation"], end["effect"], end["gate"]) == (
                envelope["operation"], envelope["effect"], envelope["gate"],
            )  # fmt: skip

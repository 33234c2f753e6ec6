"""The ladder from request to result: its order, what each gate reports, and what a poll is told meanwhile."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Retry, VaultState
from broker.contract.wire import JsonObject
from broker.core.approval import Happening
from broker.core.identity import UNIDENTIFIED
from broker.core.outcome import Fault, Phase
from broker.core.refusals import Refusal
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow, as_json, gist, result_schema

UNREADABLE = Refusal(
    category=Category.INVALID_REQUEST, code="unreadable", retry=Retry.NEVER, message="It is not JSON."
)  # fmt: skip


def gates(envelope: JsonObject) -> tuple[str, str]:
    gate = envelope["gate"]
    assert isinstance(gate, dict)
    return str(gate["session"]), str(gate["call"])


async def test_a_request_that_needs_nobody_goes_straight_through() -> None:
    flow = Flow()
    envelope = await flow.ask(market.READ)

    assert gist(envelope) == ("success", "ok", "never", "none")
    assert gates(envelope) == ("not_needed", "not_needed")
    assert ["action.requested", "policy.decided", "dispatch.started", "remote.answered", "action.result"] == (
        flow.audit.names(flow.last)
    )


async def test_the_record_of_a_request_holds_the_digest_of_the_bytes_as_received() -> None:
    flow = Flow()
    await flow.ask(market.READ, request_id="r1")
    requested = flow.audit.trail(flow.last)[0]

    assert ("sha256:" + "0" * 64, "r1") == (requested.fields["body"], requested.fields["request_id"])
    assert requested.session_id is None  # nothing is known of a session yet
    assert {None, "se_1"} == {event.session_id for event in flow.audit.trail(flow.last)}


@pytest.mark.parametrize(
    ("ask", "scope", "gate"),
    [
        (market.CREATE, "once", ("not_needed", "granted")),
        (market.LISTING, "once", ("granted", "not_needed")),
        (market.LISTING, "session", ("granted", "not_needed")),
    ],
    ids=["each call", "session rule, once", "session rule, for the session"],
)
async def test_a_yes_is_reported_by_the_gate_that_the_rule_names(
    ask: HttpAsk, scope: str, gate: tuple[str, str]
) -> None:
    assert gate == gates(await Flow().ask_and_answer(ask, scope=scope))


@pytest.mark.parametrize(
    ("happening", "state"),
    [(Happening.DENIED, "denied"), (Happening.EXPIRED, "expired"), (Happening.LOCKED, "expired")],
)
async def test_a_no_is_reported_by_the_gate_that_the_rule_names(happening: Happening, state: str) -> None:
    flow = Flow()

    assert ("not_needed", state) == gates(await flow.ask_and_answer(market.CREATE, happening))
    assert (state, "not_needed") == gates(await flow.ask_and_answer(market.LISTING, happening))


async def test_a_request_under_a_grant_is_reported_as_granted_by_the_session() -> None:
    flow = Flow()
    await flow.ask_and_answer(market.LISTING, scope="session")

    assert gates(await flow.ask(market.LISTING)) == ("granted", "not_needed")


@pytest.mark.parametrize(
    ("ask", "pending"),
    [(market.CREATE, ("not_needed", "pending")), (market.LISTING, ("pending", "not_needed"))],
)
async def test_a_poll_is_told_that_a_human_has_not_answered(ask: HttpAsk, pending: tuple[str, str]) -> None:
    flow = Flow()
    async with flow.asking(ask) as (card, _):
        told = flow.runs.runs[flow.last].pending
        assert told is not None
        assert [] == list(result_schema().iter_errors(as_json(told)))
        assert gist(told) == ("approval_pending", "waiting", "after_delay", "none")
        assert pending == gates(told)
        flow.desk.settle(card, Happening.APPROVED)

    assert flow.runs.runs[flow.last].pending is None
    assert flow.runs.runs[flow.last].sent


async def test_a_request_is_not_said_to_be_sent_before_its_intent_is_durable() -> None:
    flow = Flow()
    flow.ledger.fault = RuntimeError("disk")
    with pytest.raises(RuntimeError):
        await flow.ask(market.TIP)

    assert not flow.runs.runs[flow.last].sent


async def test_a_request_of_the_wrong_shape_is_refused_before_anything_is_looked_at() -> None:
    flow = Flow()
    flow.vault.lock()
    envelope = await flow.ask(UNREADABLE)

    assert gist(envelope) == ("invalid_request", "unreadable", "never", "none")
    assert ["action.requested", "action.result"] == flow.audit.names(flow.last)
    assert {} == flow.sessions.sessions


@pytest.mark.parametrize(
    ("state", "code"),
    [(VaultState.LOCKED, "locked"), (VaultState.UNLOCKING, "unlocking"), (VaultState.QUARANTINED, "quarantined")],
)
async def test_a_vault_that_is_not_ready_comes_before_names(state: VaultState, code: str) -> None:
    flow = Flow()
    flow.vault.state = state
    envelope = await flow.ask(HttpAsk(service="nonsense", operation="nonsense", args={}))

    assert gist(envelope) == ("vault_locked", code, "after_human", "none")
    assert envelope["operation"] is None  # no name is resolved for a locked vault
    assert state.value == as_json(envelope)["gate"]["vault"]


async def test_what_the_policy_does_not_know_is_invalid_and_not_denied() -> None:
    flow = Flow()
    envelope = await flow.ask(HttpAsk(service="nowhere", operation="x", args={}))

    assert gist(envelope) == ("invalid_request", "unknown_service", "never", "none")
    assert as_json(envelope)["next"]["action"] == "fix_request"
    assert ["action.requested", "action.result"] == flow.audit.names(flow.last)


@pytest.mark.parametrize(
    ("ask", "code", "rules"),
    [
        (market.FORBIDDEN, "rule_denied", ["never"]),
        (HttpAsk(service="market", method="PUT", path="/anything"), "no_rule", []),
    ],
)
async def test_a_denial_names_the_rule_and_the_policy(ask: HttpAsk, code: str, rules: list[str]) -> None:
    flow = Flow()
    envelope = await flow.ask(ask)

    assert gist(envelope) == ("policy_denied", code, "never", "none")
    assert (rules, market.DIGEST) == (as_json(envelope)["gate"]["rules"], as_json(envelope)["gate"]["policy"])


async def test_a_service_without_a_credential_needs_none() -> None:
    flow = Flow()
    envelope = await flow.ask(HttpAsk(service="square", method="GET", path="/"))

    assert gist(envelope)[:2] == ("success", "ok")
    assert as_json(envelope)["scrub"]["state"] == "not_needed"


@pytest.mark.parametrize(
    ("service", "words", "command"),
    [
        ("cellar", "no credential cellar", "doorward credential add cellar"),
        ("fair", "not bound to https://fair.example", "doorward credential list"),
    ],
)
async def test_a_credential_that_is_missing_or_bound_elsewhere_opens_nothing(
    service: str, words: str, command: str
) -> None:
    flow = Flow()
    envelope = await flow.ask(HttpAsk(service=service, method="GET", path="/"))

    assert gist(envelope) == ("policy_denied", "rule_denied", "never", "none")
    assert words in str(envelope["message"])
    assert command == as_json(envelope)["next"]["command"]
    assert [] == flow.executor.permits


async def test_a_full_disk_refuses_before_a_write_fails() -> None:
    flow = Flow()
    flow.audit.has_room = False

    assert gist(await flow.ask(market.READ)) == ("broker_unavailable", "disk_low", "after_human", "none")


async def test_an_anchor_that_is_gone_opens_no_session() -> None:
    flow = Flow()
    flow.sessions.exit(flow.caller)

    assert gist(await flow.ask(market.READ)) == ("session_denied", "session_ended", "never", "none")


async def test_a_muted_session_is_not_heard() -> None:
    flow = Flow()
    await flow.ask(market.READ)
    flow.sessions.sessions["se_1"].muted = True

    assert gist(await flow.ask(market.CREATE)) == ("session_denied", "muted", "never", "none")
    assert [] == flow.desk.cards


async def test_an_unnamed_agent_is_asked_about_like_any_other() -> None:
    flow = Flow()
    envelope = await flow.ask_and_answer(market.CREATE, caller=market.agent(name=UNIDENTIFIED))

    assert gist(envelope)[:2] == ("success", "ok")


async def test_the_desk_is_asked_with_what_the_agent_says_and_who_it_is() -> None:
    flow = Flow()
    async with flow.asking(market.CREATE, says="the customer waits") as (card, _):
        flow.desk.settle(card, Happening.EXPIRED)
    question = card.question

    assert ("the customer waits", flow.caller, market.POLICY) == (question.says, question.caller, question.policy)
    assert (1, 1) == (question.vault_term, question.credential_version)


async def test_calls_and_denials_are_counted_on_the_session() -> None:
    flow = Flow()
    await flow.ask(market.READ)
    await flow.ask_and_answer(market.CREATE, Happening.DENIED)
    await flow.ask_and_answer(market.CREATE, Happening.EXPIRED)
    session = flow.sessions.sessions["se_1"]

    assert (3, 1) == (session.calls, session.denied)


async def test_the_humans_reason_is_in_the_answer() -> None:
    envelope = await Flow().ask_and_answer(market.CREATE, Happening.DENIED, reason="too dear")

    assert gist(envelope) == ("call_denied", "declined", "never", "none")
    assert "too dear" in str(envelope["message"])


async def test_a_lock_while_the_card_waits_is_shown_by_the_gate() -> None:
    flow = Flow()
    async with flow.asking(market.CREATE) as (card, answer):
        flow.vault.lock()
        flow.desk.settle(card, Happening.LOCKED)

    assert gist(answer.result()) == ("vault_locked", "locked", "after_human", "none")
    assert as_json(answer.result())["gate"]["vault"] == "locked"


async def test_a_lock_while_it_is_in_flight_neither_breaks_it_nor_leaves_it_unscrubbed() -> None:
    flow = Flow()
    flow.executor.during = flow.vault.lock
    flow.executor.answers.append(market.answered(200, b'{"echo":"' + market.TOKEN.encode() + b'"}'))
    envelope = await flow.ask(market.READ)

    assert gist(envelope)[:2] == ("success", "ok")
    assert {"echo": "[redacted]"} == as_json(envelope)["http"]["body_json"]
    assert 0 == flow.leased


async def test_a_secret_that_the_upstream_echoes_is_nowhere_in_answer_ledger_or_log() -> None:
    flow = Flow()
    flow.executor.answers.append(market.answered(200, market.TOKEN.encode(), ("x-request-id", market.TOKEN)))
    envelope = await flow.ask(market.READ, request_id="r1")
    everything = f"{envelope}{flow.ledger.attempts}{flow.audit.events}"

    assert market.TOKEN not in everything
    assert 2 <= int(str(flow.audit.trail(flow.last)[-2].fields["scrub_hits"]))
    assert [1] == [held.echoed for held in flow.sessions.sessions.values()]


async def test_a_lease_ends_with_the_work_whatever_came_of_it() -> None:
    flow = Flow()
    flow.executor.answers += [market.LOST, RuntimeError("a bug")]
    await flow.ask(market.READ)
    with pytest.raises(RuntimeError):
        await flow.ask(market.READ)

    assert 0 == flow.leased


async def test_the_record_of_the_far_side_counts_the_bytes_that_left() -> None:
    flow = Flow()
    flow.executor.answers += [market.REFUSED, market.failed(Fault.WRITE_TIMEOUT, Phase.HEADERS_SENT, sent=3)]
    await flow.ask(market.TIP)
    assert 0 == flow.audit.trail(flow.last)[-2].fields["sent_body_bytes"]
    await flow.ask(market.TIP)
    assert 3 == flow.audit.trail(flow.last)[-2].fields["sent_body_bytes"]


async def test_the_answer_names_the_request_that_it_goes_on_from() -> None:
    flow = Flow()
    before = "op_" + "f" * 44
    envelope = await flow.perform(flow.received(market.READ, previous=before))

    assert before == envelope["previous_correlation_id"]


async def test_a_policy_put_in_force_while_the_ledger_is_read_voids_what_the_former_decided() -> None:
    flow = Flow()

    def trust() -> None:
        flow.policies.policy = replace(market.POLICY, digest=market.OTHER_DIGEST, rules=())

    flow.ledger.meanwhile = trust

    assert gist(await flow.ask(market.TIP)) == ("approval_timeout", "approval_void", "after_human", "none")
    assert [] == flow.executor.permits


@pytest.mark.parametrize("ask", [market.READ, market.TIP], ids=["read", "write"])
@pytest.mark.parametrize(
    ("how", "told"), [("remove", "approval_timeout/approval_void"), ("lock", "vault_locked/locked")]
)
async def test_a_credential_that_goes_at_the_last_moment_is_told_as_that(ask: HttpAsk, how: str, told: str) -> None:
    flow = Flow()
    flow.vault.before_lease = flow.vault.credentials.clear if how == "remove" else flow.vault.lock
    category, code, retry, effect = gist(await flow.ask(ask))

    assert (told, "after_human", "none") == (f"{category}/{code}", retry, effect)
    assert [] == flow.executor.permits


async def test_nobody_is_asked_about_a_request_that_a_freeze_has_overtaken() -> None:
    flow = Flow()

    def freeze() -> None:
        flow.sessions.frozen = True

    flow.ledger.meanwhile = freeze

    assert gist(await flow.ask(market.CREATE)) == ("broker_unavailable", "frozen", "after_human", "none")
    assert [] == flow.desk.cards


async def test_a_rule_that_had_its_requests_for_this_minute_sends_and_asks_nothing() -> None:
    flow = Flow()
    flow.sessions.over_rate = True
    envelope = await flow.ask(market.READ)

    assert gist(envelope) == ("broker_unavailable", "local_limit", "after_delay", "none")
    assert [] == flow.executor.permits

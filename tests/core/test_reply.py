from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.reasons import (
    CODES,
    Category,
    Effect,
    GateState,
    IncompleteCode,
    RemoteEffect,
    Retry,
    ScrubState,
    VaultState,
    WarningCode,
)
from broker.contract.result import Completeness, GateReport, HttpAnswer, IncompleteReason, ScrubReport, Warn
from broker.contract.schemas import schema
from broker.contract.wire import JsonObject
from broker.core import reply
from broker.core.classify.order import classify
from broker.core.events import EventName, Receipt
from broker.core.frozen import FrozenRequest
from broker.core.ledger import Attempt, AttemptState, attempt_of
from broker.core.outcome import RawOutcome, Scrubbed
from broker.core.refusals import Refusal
from broker.core.reply import Frame
from broker.core.resolve import HttpAsk, resolve
from broker.core.scrub import scrub
from tests.fakes import market

OP, OTHER = "op_" + "0" * 44, "op_" + "1" * 44
FRAME = Frame(
    correlation_id=OP,
    request_id="r1",
    operation="market.orders.create",
    effect=Effect.WRITE,
    credential="market",
    previous_correlation_id=OTHER,
)
GATE = GateReport(call=GateState.GRANTED, rules=("buy",), policy=market.DIGEST)
RECEIPT = Receipt(seq=1, head="00", event=EventName.ACTION_RESULT, correlation_id=OP)
REFUSAL = Refusal(category=Category.POLICY_DENIED, code="no_rule", retry=Retry.NEVER, message="No.")


def lawful(envelope: JsonObject) -> JsonObject:
    validator = jsonschema_rs.validator_for(schema("result"), offline=True)
    assert [] == [fault.message for fault in validator.iter_errors(envelope)]
    return envelope


def frozen(ask: HttpAsk) -> FrozenRequest:
    request = resolve(market.POLICY, ask)
    assert isinstance(request, FrozenRequest)
    return request


def scrubbed(raw: RawOutcome, ask: HttpAsk = market.CREATE) -> Scrubbed:
    return scrub(classify(frozen(ask), raw, now_ms=0), None)


def attempt(ask: HttpAsk, state: AttemptState) -> Attempt:
    made = attempt_of(
        frozen(ask), correlation_id=OP, request_id="r1", caller=market.agent(), session_id="se_1", now_ms=0
    )  # fmt: skip
    return replace(made, state=state)


def test_nothing_is_final_without_its_own_receipt() -> None:
    envelope = reply.refused(FRAME, REFUSAL, GATE)

    assert envelope.to_json() == reply.final(envelope, RECEIPT).envelope
    with pytest.raises(ValueError, match="another request's"):
        reply.final(envelope, replace(RECEIPT, correlation_id=OTHER))


def test_a_recorded_envelope_is_told_as_it_was() -> None:
    recorded: JsonObject = {"ok": True, "correlation_id": OTHER}

    assert recorded is reply.replayed(recorded, RECEIPT).envelope


def test_a_refusal_carries_the_frame_and_its_own_words() -> None:
    refusal = replace(REFUSAL, message="x" * 400, next_command="doorward policy check")
    told = lawful(reply.refused(FRAME, refusal, GATE).to_json())

    assert (OP, "r1", OTHER) == (told["correlation_id"], told["request_id"], told["previous_correlation_id"])
    assert (300, "market.orders.create", "write") == (
        len(str(told["message"])), told["operation"], told["effect"],
    )  # fmt: skip
    assert told["next"] == {"action": "none", "command": "doorward policy check"}
    assert GATE.to_json() == told["gate"]


def test_an_answer_is_told_with_all_that_was_scrubbed() -> None:
    reason = IncompleteReason(code=IncompleteCode.MORE_PAGES_AVAILABLE, message="more", by="provider")
    outcome = replace(
        scrubbed(market.answered(200), market.LISTING),
        answer=HttpAnswer(status=200, headers={}, final_url="https://a.example/"),
        completeness=Completeness(complete=False, reasons=(reason,)),
        warnings=(Warn(code=WarningCode.STALE_INDEX, message="old"),),
        report=ScrubReport(state=ScrubState.DONE),
    )
    told: Any = lawful(reply.concluded(replace(FRAME, effect=Effect.READ), outcome, GATE).to_json())

    assert ("partial", "incomplete") == (told["category"], told["code"])
    assert told["http"]["status"] == 200
    assert ["STALE_INDEX"] == [warning["code"] for warning in told["warnings"]]
    assert told["scrub"] == {"state": "done", "reason": None}
    assert OTHER == told["previous_correlation_id"]


def test_a_card_that_waits_is_told_as_nothing_done() -> None:
    told = lawful(reply.pending(FRAME, reply.with_call(GATE, GateState.PENDING, per_call=True)).to_json())

    assert ("approval_pending", "waiting", "none", 5) == (
        told["category"], told["code"], told["remote_effect"], told["retry_after_s"],
    )  # fmt: skip
    assert told["next"] == {"action": "wait", "after_s": 5, "command": f"doorward result {OP}"}


@pytest.mark.parametrize(
    ("effect", "dispatched", "retry", "remote_effect"),
    [
        (Effect.WRITE, False, "after_human", "none"),
        (Effect.WRITE, True, "reconcile_first", "unknown"),
        (Effect.EXEC, True, "reconcile_first", "unknown"),
        (None, True, "reconcile_first", "unknown"),
        (Effect.READ, True, "after_human", "none"),
        (Effect.READ, False, "after_human", "none"),
    ],
)
def test_an_outcome_that_could_not_be_recorded_is_unknown_where_something_was_sent(
    effect: Effect | None, retry: str, remote_effect: str, *, dispatched: bool
) -> None:
    told: Any = lawful(reply.unrecorded(replace(FRAME, effect=effect), GATE, dispatched=dispatched).to_json())

    assert ("broker_unavailable", "audit_unwritable") == (told["category"], told["code"])
    assert (retry, remote_effect) == (told["retry"], told["remote_effect"])
    command = f"doorward reconcile {OTHER}" if retry == "reconcile_first" else "doorward doctor"
    assert command == told["next"]["command"]


@pytest.mark.parametrize("state", list(AttemptState))
def test_a_change_without_a_recorded_outcome_may_have_been_made_whatever_became_of_it(state: AttemptState) -> None:
    told: Any = lawful(reply.crashed(attempt(market.CREATE, state)))

    assert ("outcome_unknown", "unrecorded", "reconcile_first", "unknown") == (
        told["category"], told["code"], told["retry"], told["remote_effect"],
    )  # fmt: skip
    assert told["next"] == {"action": "reconcile", "command": f"doorward reconcile {OP}"}


@pytest.mark.parametrize("state", list(AttemptState))
def test_a_read_without_a_recorded_outcome_may_be_made_again(state: AttemptState) -> None:
    told = lawful(reply.crashed(attempt(market.READ, state)))

    assert ("bounded", "none", "read") == (told["retry"], told["remote_effect"], told["effect"])


@pytest.mark.parametrize(
    ("matches", "complete", "category", "code", "effect", "words"),
    [
        (1, False, "success", "reconciled", "applied", "exactly one match"),
        (0, True, "confirmed_failure", "not_found", "none", "no match"),
        (0, False, "outcome_unknown", "connection_lost", "unknown", "not known to be complete"),
        (2, True, "outcome_unknown", "connection_lost", "unknown", "2 matches"),
        (None, True, "outcome_unknown", "connection_lost", "unknown", "no usable list"),
    ],
)
def test_a_read_back_proves_one_match_or_a_complete_absence(
    matches: int | None, category: str, code: str, effect: str, words: str, *, complete: bool
) -> None:
    told = lawful(reply.reconciled(FRAME, GATE, matches=matches, complete=complete, code="connection_lost").to_json())

    assert (category, code, effect) == (told["category"], told["code"], told["remote_effect"])
    assert words in str(told["message"])
    assert OTHER == told["previous_correlation_id"]


@pytest.mark.parametrize(
    ("matches", "words"),
    [(1, "one match, which the operation does not take"), (0, "no match, which the operation does not take")],
)
def test_an_operation_may_take_one_match_or_none_for_no_proof(matches: int, words: str) -> None:
    told = reply.reconciled(
        FRAME, GATE, matches=matches, complete=True, code="unrecorded", one_proves=False, none_proves=False
    )

    assert ("outcome_unknown", "unknown") == (told.category.value, told.remote_effect.value)
    assert words in told.message


def test_a_gate_reports_each_kind_of_yes_in_its_own_place() -> None:
    each = reply.with_call(GateReport(), GateState.GRANTED, per_call=True)
    session = reply.with_call(GateReport(), GateState.GRANTED, per_call=False)

    assert (GateState.NOT_NEEDED, GateState.GRANTED) == (each.session, each.call)
    assert (GateState.GRANTED, GateState.NOT_NEEDED) == (session.session, session.call)


def test_the_record_of_an_end_holds_no_body_and_no_message() -> None:
    outcome = scrubbed(market.answered(200, b'{"items":["canary"]}'), market.LISTING)
    told = reply.audit_fields(reply.concluded(replace(FRAME, effect=Effect.READ), outcome, GATE))

    assert (200, False, "read") == (told["http_status"], told["complete"], told["effect"])
    assert "canary" not in str(told)
    assert "message" not in told


def test_the_record_of_a_refusal_says_what_is_not_there() -> None:
    told = reply.audit_fields(reply.refused(Frame(correlation_id=OP), REFUSAL, GATE))

    assert (None, None, None) == (told["http_status"], told["complete"], told["effect"])


@pytest.mark.parametrize("category", list(Category))
@pytest.mark.parametrize("effect", [RemoteEffect.NONE, RemoteEffect.UNKNOWN])
def test_an_attempt_is_told_from_a_refusal_by_its_envelope(category: Category, effect: RemoteEffect) -> None:
    before = {
        Category.EVIDENCE_REQUIRED,
        Category.RECONCILE_REQUIRED,
        Category.POLICY_DENIED,
        Category.VAULT_LOCKED,
        Category.SESSION_DENIED,
        Category.CALL_DENIED,
        Category.APPROVAL_TIMEOUT,
        Category.APPROVAL_PENDING,
        Category.INVALID_REQUEST,
    }
    unsent = category is Category.BROKER_UNAVAILABLE and effect is RemoteEffect.NONE
    envelope: JsonObject = {"category": category.value, "remote_effect": effect.value}

    assert (category not in before and not unsent) is reply.tells_of_an_attempt(envelope)


@pytest.mark.parametrize(
    ("category", "code", "retry", "command"),
    [
        (Category.BROKER_UNAVAILABLE, "frozen", Retry.AFTER_HUMAN, "doorward thaw"),
        (Category.BROKER_UNAVAILABLE, "disk_low", Retry.AFTER_HUMAN, "doorward doctor"),
        (Category.BROKER_UNAVAILABLE, "shutting_down", Retry.AFTER_HUMAN, None),
        (Category.VAULT_LOCKED, "locked", Retry.AFTER_HUMAN, "doorward unlock"),
        (Category.VAULT_LOCKED, "quarantined", Retry.AFTER_HUMAN, "doorward audit verify"),
        (Category.APPROVAL_TIMEOUT, "approval_expired", Retry.AFTER_HUMAN, "doorward ui"),
        (Category.OUTCOME_UNKNOWN, "connection_lost", Retry.AFTER_HUMAN, "doorward operations list --in-doubt"),
        (Category.RECONCILE_REQUIRED, "in_doubt", Retry.RECONCILE_FIRST, f"doorward reconcile {OTHER}"),
        (Category.AUTHENTICATION_FAILED, "rejected", Retry.NEVER, "doorward credential rotate market"),
        (Category.RATE_LIMITED, "too_many", Retry.AFTER_DELAY, None),
        (Category.APPROVAL_PENDING, "waiting", Retry.AFTER_DELAY, f"doorward result {OP}"),
        (Category.LOCAL_FAILURE, "dns_failed", Retry.BOUNDED, None),
        (Category.POLICY_DENIED, "no_rule", Retry.NEVER, None),
    ],
)
def test_each_refusal_names_the_command_that_helps(
    category: Category, code: str, retry: Retry, command: str | None
) -> None:
    refusal = Refusal(category=category, code=code, retry=retry, message="No.", retry_after_s=5)
    told: Any = reply.refused(FRAME, refusal, GATE).to_json()

    assert code in CODES[category]
    assert command == told["next"]["command"]


def test_without_a_credential_there_is_none_to_rotate() -> None:
    refusal = Refusal(
        category=Category.AUTHENTICATION_FAILED, code="rejected", retry=Retry.NEVER, message="No."
    )  # fmt: skip
    told: Any = reply.refused(replace(FRAME, credential=None), refusal, GATE).to_json()

    assert told["next"]["command"] is None


def test_the_attempt_in_doubt_is_the_one_to_reconcile() -> None:
    refusal = Refusal(
        category=Category.RECONCILE_REQUIRED, code="in_doubt", retry=Retry.RECONCILE_FIRST, message="No."
    )  # fmt: skip
    doubt = "op_" + "2" * 44
    told: Any = reply.refused(replace(FRAME, doubt_id=doubt), refusal, GATE).to_json()
    alone: Any = reply.refused(Frame(correlation_id=OP), refusal, GATE).to_json()

    assert (doubt, f"doorward reconcile {doubt}") == (told["previous_correlation_id"], told["next"]["command"])
    assert f"doorward reconcile {OP}" == alone["next"]["command"]


def test_a_gate_of_any_vault_state_is_told() -> None:
    for state in VaultState:
        assert state.value == lawful(reply.refused(FRAME, REFUSAL, GateReport(vault=state)).to_json())["gate"]["vault"]  # type: ignore[index,call-overload]  # the schema says that it is an object

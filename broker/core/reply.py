"""Replies: how a refusal or a scrubbed outcome becomes the envelope, and what makes it final.

A Result can't be built without a Receipt, and of what the remote said nothing gets in but what was Scrubbed.
"""

from dataclasses import dataclass, replace

from broker.contract.reasons import Category, Effect, GateState, NextAction, RemoteEffect, Retry
from broker.contract.result import MESSAGE_LIMIT, NOTHING_SENT, Envelope, GateReport, next_action
from broker.contract.wire import JsonObject
from broker.core.events import Receipt
from broker.core.ledger import Attempt
from broker.core.outcome import Scrubbed
from broker.core.refusals import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every ending of one request has in common."""

    correlation_id: str | None  # None for what was turned away before it became a request
    request_id: str | None = None
    operation: str | None = None
    effect: Effect | None = None
    credential: str | None = None
    previous_correlation_id: str | None = None
    doubt_id: str | None = None  # the attempt in doubt that blocks this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A final answer: its envelope as JSON and the proof that the audit log has this request's end."""

    envelope: JsonObject
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """The one answer without a receipt: that the audit log could not be written."""

    envelope: JsonObject


def final(envelope: Envelope, receipt: Receipt) -> Result:
    if receipt.correlation_id != envelope.correlation_id:
        raise ValueError("the receipt is another request's")
    return Result(envelope=envelope.to_json(), receipt=receipt)


def replayed(recorded: JsonObject, receipt: Receipt) -> Result:
    """The recorded envelope as it was, under the receipt of the request that asked for it again."""
    return Result(envelope=recorded, receipt=receipt)


def refused(frame: Frame, refusal: Refusal, gate: GateReport) -> Envelope:
    return Envelope(
        category=refusal.category,
        code=refusal.code,
        retry=refusal.retry,
        remote_effect=refusal.remote_effect,
        correlation_id=frame.correlation_id,
        message=refusal.message[:MESSAGE_LIMIT],
        operation=frame.operation,
        effect=frame.effect,
        retry_after_s=refusal.retry_after_s,
        request_id=frame.request_id,
        previous_correlation_id=frame.doubt_id or frame.previous_correlation_id,
        gate=gate,
        next_command=refusal.next_command or _command(frame, refusal.category, refusal.code, refusal.retry),
    )


def concluded(frame: Frame, scrubbed: Scrubbed, gate: GateReport, *, diagnostics_ref: str | None = None) -> Envelope:
    verdict = scrubbed.verdict
    return Envelope(
        category=verdict.category,
        code=verdict.code,
        retry=verdict.retry,
        remote_effect=verdict.remote_effect,
        correlation_id=frame.correlation_id,
        message=verdict.message[:MESSAGE_LIMIT],
        operation=frame.operation,
        effect=frame.effect,
        retry_after_s=verdict.retry_after_s,
        request_id=frame.request_id,
        previous_correlation_id=frame.previous_correlation_id,
        http=scrubbed.answer,
        ssh=scrubbed.ssh,
        completeness=scrubbed.completeness,
        warnings=scrubbed.warnings,
        scrub=scrubbed.report,
        gate=gate,
        diagnostics_ref=diagnostics_ref,
        next_command=_command(frame, verdict.category, verdict.code, verdict.retry),
    )


def pending(frame: Frame, gate: GateReport) -> Envelope:
    """The answer while a card waits: nothing was done yet, and polling is free."""
    return Envelope(
        category=Category.APPROVAL_PENDING,
        code="waiting",
        retry=Retry.AFTER_DELAY,
        remote_effect=RemoteEffect.NONE,
        correlation_id=frame.correlation_id,
        message="A human has not answered yet; nothing was sent. Ask for the result again, do not repeat it.",
        operation=frame.operation,
        effect=frame.effect,
        retry_after_s=5,
        request_id=frame.request_id,
        gate=gate,
        next_command=f"doorward result {frame.correlation_id}",
    )


def unrecorded(frame: Frame, gate: GateReport, *, dispatched: bool) -> Envelope:
    """The audit log could not be written. After a dispatch the effect may have happened, and the answer says so."""
    write = frame.effect is not Effect.READ
    unknown = dispatched and write
    message = (
        "The audit log could not be written after the request was sent; the change may have happened. Reconcile first."
        if unknown
        else "The audit log can't be written, so nothing runs. A human has to run: doorward doctor"
    )
    refusal = Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="audit_unwritable",
        retry=Retry.RECONCILE_FIRST if unknown else Retry.AFTER_HUMAN,
        message=message,
        remote_effect=RemoteEffect.UNKNOWN if unknown else RemoteEffect.NONE,
    )
    return refused(frame, refusal, gate)


def crashed(attempt: Attempt) -> JsonObject:
    """An attempt without a recorded outcome. Whatever became of it, a change that may be made is not made again."""
    doubtful = attempt.change_key is not None
    refusal = Refusal(
        category=Category.OUTCOME_UNKNOWN,
        code="unrecorded",
        retry=Retry.RECONCILE_FIRST if doubtful else Retry.BOUNDED,
        message="The broker stopped while this was under way and no outcome was recorded; it may have happened.",
        remote_effect=RemoteEffect.UNKNOWN if doubtful else RemoteEffect.NONE,
    )
    frame = Frame(
        correlation_id=attempt.correlation_id,
        request_id=attempt.request_id,
        operation=attempt.operation,
        effect=Effect.WRITE if doubtful else Effect.READ,
    )
    return refused(frame, refusal, GateReport()).to_json()


def reconciled(
    frame: Frame,
    gate: GateReport,
    *,
    matches: int | None,
    complete: bool,
    code: str,
    one_proves: bool = True,
    none_proves: bool = True,
) -> Envelope:
    """What a read-back proves: one match is applied, a complete absence is not applied, anything else stays open.

    The operation may declare that one, or none, proves nothing.
    """
    if matches == 1 and one_proves:
        category, answer, retry, effect = Category.SUCCESS, "reconciled", Retry.NEVER, RemoteEffect.APPLIED
        message = "The read-back found exactly one match: the change was applied. Do not repeat it."
    elif matches == 0 and complete and none_proves:
        category, answer, retry, effect = Category.CONFIRMED_FAILURE, "not_found", Retry.NEVER, RemoteEffect.NONE
        message = "A complete read-back found no match: the change was not applied. It may be asked for anew."
    else:
        weak = ", which the operation does not take for a proof"
        none = f"no match{weak}" if complete else "no match, but the list is not known to be complete"
        found = {None: "no usable list", 0: none, 1: f"one match{weak}"}.get(matches, f"{matches} matches")
        category, answer, retry, effect = Category.OUTCOME_UNKNOWN, code, Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN
        message = f"The read-back found {found}: it stays unknown whether the change was applied. A human has to look."
    return Envelope(
        category=category,
        code=answer,
        retry=retry,
        remote_effect=effect,
        correlation_id=frame.correlation_id,
        message=message,
        operation=frame.operation,
        effect=frame.effect,
        previous_correlation_id=frame.previous_correlation_id,
        gate=gate,
        next_command=_command(frame, category, answer, retry),
    )


def tells_of_an_attempt(envelope: JsonObject) -> bool:
    """Whether an envelope is the outcome of something that was tried, and not a refusal before it."""
    category = Category(str(envelope["category"]))
    if category is Category.BROKER_UNAVAILABLE:
        return envelope["remote_effect"] != RemoteEffect.NONE.value
    return category not in {*NOTHING_SENT, Category.RECONCILE_REQUIRED}


def with_call(gate: GateReport, state: GateState, *, per_call: bool) -> GateReport:
    return replace(gate, call=state) if per_call else replace(gate, session=state)


def audit_fields(envelope: Envelope) -> JsonObject:
    """What the action.result record says: the typed fields, no body and no message."""
    completeness = envelope.completeness
    return {
        "status": envelope.status.value,
        "category": envelope.category.value,
        "code": envelope.code,
        "retry": envelope.retry.value,
        "remote_effect": envelope.remote_effect.value,
        "operation": envelope.operation,
        "effect": None if envelope.effect is None else envelope.effect.value,
        "request_id": envelope.request_id,
        "previous_correlation_id": envelope.previous_correlation_id,
        "http_status": None if envelope.http is None else envelope.http.status,
        "exit_status": None if envelope.ssh is None else envelope.ssh["exit_status"],
        "complete": None if completeness is None else completeness.complete,
        "returned": None if completeness is None else completeness.returned,
        "incomplete": [] if completeness is None else [reason.code.value for reason in completeness.reasons],
        "warnings": [warning.code.value for warning in envelope.warnings],
        "gate": envelope.gate.to_json(),
        "diagnostics_ref": envelope.diagnostics_ref,
    }


def _command(frame: Frame, category: Category, code: str, retry: Retry) -> str | None:
    match next_action(category, retry):
        case NextAction.RECONCILE:
            return f"doorward reconcile {frame.doubt_id or frame.previous_correlation_id or frame.correlation_id}"
        case NextAction.WAIT | NextAction.CONTINUE:
            return f"doorward result {frame.correlation_id}" if category is Category.APPROVAL_PENDING else None
        case NextAction.ASK_HUMAN:
            return _human_command(frame, category, code)
        case NextAction.NONE | NextAction.RETRY | NextAction.COLLECT | NextAction.FIX_REQUEST:
            return None


def _human_command(frame: Frame, category: Category, code: str) -> str | None:
    by_code = {
        "frozen": "doorward thaw",
        "audit_unwritable": "doorward doctor",
        "disk_low": "doorward doctor",
        "quarantined": "doorward audit verify",
    }
    by_category = {
        Category.VAULT_LOCKED: "doorward unlock",
        Category.APPROVAL_TIMEOUT: "doorward ui",
        Category.OUTCOME_UNKNOWN: "doorward operations list --in-doubt",
        Category.RECONCILE_REQUIRED: "doorward operations list --in-doubt",
        Category.AUTHENTICATION_FAILED: f"doorward credential rotate {frame.credential}" if frame.credential else None,
    }
    return by_code.get(code) or by_category.get(category)

"""Refusals: what an agent is told when its request ends without being sent, or when nobody knows what became of it.

Every no but two kinds has its sentence here: what became of a card is told by approval.py, what a read-back came to
by operations/reconcile.py. Sentences say what to do and repeat no text of the agent's.
"""

from dataclasses import dataclass

from broker.contract.reasons import Category, RemoteEffect, Retry, VaultState
from broker.contract.result import MESSAGE_LIMIT
from broker.core.channels import Frozen
from broker.core.policy.model import Deny
from broker.core.resolve import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A gate's no, as the agent will read it."""

    category: Category
    code: str
    retry: Retry
    message: str
    remote_effect: RemoteEffect = RemoteEffect.NONE
    retry_after_s: int | None = None
    next_command: str | None = None


# The request itself.


def unreadable(why: str) -> Refusal:
    return _invalid("unreadable", f"The body can't be read: {why}.")


def misshapen(why: str) -> Refusal:
    return _invalid("schema", why)


def too_large(limit: int) -> Refusal:
    return _invalid("body_too_large", f"The body is larger than {limit} bytes; nothing was sent.")


def invalid(fault: Invalid) -> Refusal:
    return _invalid(fault.code, fault.message)


def id_conflict() -> Refusal:
    return _invalid(
        "request_id_conflict",
        "This request_id was used for another request already; nothing was sent. Choose a new one.",
    )


def unknown_result() -> Refusal:
    return _invalid(
        "unknown_correlation_id",
        "There is no such request of this caller's. Only the process that asked may ask for its result.",
    )


def reserved(said: str) -> Refusal:
    """The request says what the service's credential says."""
    return _invalid(
        "reserved_header", f"Nothing was sent: {said} carries the credential and is set by the broker alone."
    )


def nothing_to_reconcile() -> Refusal:
    return _invalid(
        "unknown_correlation_id", "There is no such request of this caller's, and no change in doubt by this id."
    )


# The state of the broker.


def frozen() -> Refusal:
    return _unavailable("frozen", "A human froze the broker; nothing was sent. Ask them to run: doorward thaw")


def vault(state: VaultState) -> Refusal:
    """The refusal of step 2 and of a lock in between. A vault that was re-opened counts as locked in between."""
    if state is VaultState.QUARANTINED:
        code, message = (
            "quarantined",
            "The vault is quarantined: an integrity check failed. A human has to look: doorward audit verify",
        )
    elif state is VaultState.UNLOCKING:
        code, message = (
            "unlocking",
            "The vault is being unlocked; nothing was sent. Ask again when a human has done it.",
        )
    elif state is VaultState.READY:
        code, message = "locked", "The vault was locked meanwhile and is open again; nothing was sent. Ask again."
    else:
        code, message = "locked", "The vault is locked; nothing was sent. A human has to run: doorward unlock"
    return Refusal(category=Category.VAULT_LOCKED, code=code, retry=Retry.AFTER_HUMAN, message=message)


def disk_low() -> Refusal:
    return _unavailable(
        "disk_low", "The disk of the audit log is nearly full, so nothing runs. A human has to make room."
    )


def overloaded() -> Refusal:
    return _unavailable(
        "overloaded",
        "The broker has as much work as it takes; nothing was sent. Ask again in a while.",
        retry_after_s=5,
    )


def local_limit() -> Refusal:
    return _unavailable(
        "local_limit",
        "This caller has as many requests under way as it may have; nothing was sent. Wait for them.",
        retry_after_s=2,
    )


def over_rate() -> Refusal:
    return _unavailable(
        "local_limit",
        "The policy's number of requests a minute is used up for this rule; nothing was sent. Ask later.",
        retry_after_s=30,
    )


def shutting_down() -> Refusal:
    return _unavailable("shutting_down", "The broker is stopping; nothing was sent.", retry_after_s=10)


# The session.


def session_ended() -> Refusal:
    return _session("session_ended", "The session ended before the request was sent; nothing was sent.")


def no_peer(why: str) -> Refusal:
    return _session("session_ended", f"It can't be told who asks: {why}.")


def echoing() -> Refusal:
    return _session(
        "muted",
        "Services gave the credential back in their answers again and again, so nothing is sent for this "
        "program any more. A human has to look, and can unmute it.",
        retry=Retry.AFTER_HUMAN,
    )


# The policy.


def denied(decision: Deny, request: Frozen) -> Refusal:
    why = (
        f"no rule of the policy names {request.operation} for this agent"
        if decision.code == "no_rule"
        else f"rule {', '.join(decision.rules)} of the policy denies {request.operation}"
    )
    return _policy(decision.code, f"Nothing was sent: {why}.")


def no_credential(name: str) -> Refusal:
    command = f"doorward credential add {name}"
    why = f"the vault has no credential {name}; a human has to run: {command}"
    return _policy("rule_denied", f"Nothing was sent: {why}", command)


def not_bound(name: str, base_url: str) -> Refusal:
    command = "doorward credential list"
    return _policy(
        "rule_denied", f"Nothing was sent: credential {name} is not bound to {base_url}; see: {command}", command
    )


def void(changed: str) -> Refusal:
    """`changed` says what is not as it was decided on: policy, credential, grant or request."""
    return Refusal(
        category=Category.APPROVAL_TIMEOUT,
        code="approval_void",
        retry=Retry.AFTER_HUMAN,
        message=f"The {changed} changed after the decision, so it no longer holds; nothing was sent. Ask again.",
    )


# What may have happened already.


def change_in_doubt() -> Refusal:
    return Refusal(
        category=Category.RECONCILE_REQUIRED,
        code="in_doubt",
        retry=Retry.RECONCILE_FIRST,
        message="The same change is in doubt from an earlier attempt, so it was not sent again. Reconcile that first.",
        remote_effect=RemoteEffect.UNKNOWN,
    )


def change_under_way() -> Refusal:
    return Refusal(
        category=Category.RECONCILE_REQUIRED,
        code="in_doubt",
        retry=Retry.RECONCILE_FIRST,
        message="The same change is under way from another request that did not end in time, so it was not sent again.",
        remote_effect=RemoteEffect.UNKNOWN,
    )


def still_running(message: str, *, next_command: str | None = None) -> Refusal:
    """What was sent and has not ended: nobody knows yet what it did."""
    return Refusal(
        category=Category.OUTCOME_UNKNOWN,
        code="still_running",
        retry=Retry.AFTER_DELAY,
        retry_after_s=2,
        message=message,
        remote_effect=RemoteEffect.UNKNOWN,
        next_command=next_command,
    )


def leader_lost(*, is_write: bool) -> Refusal:
    """A repeat whose first run ended without an answer. What that one did is not known; this one did nothing."""
    if not is_write:
        return _unavailable(
            "internal", "The same request ended without an answer, and was not sent again. Ask for it anew."
        )
    return _fault_in_doubt(
        "The same request ended without an answer, so its change may have been made. It was not sent again."
    )


# Faults of our own.


def fault() -> Refusal:
    return _unavailable(
        "internal", "The broker met a fault of its own; its log says which. A human has to run: doorward doctor"
    )


def broken(*, sent: bool, is_write: bool) -> Refusal:
    """A request that a fault of ours ended: what is known of the far side is told all the same."""
    if sent and not is_write:
        return _unavailable(
            "internal", "The broker met a fault of its own after the request was sent, which changes nothing there."
        )
    if sent:
        return _fault_in_doubt(
            "The broker met a fault of its own after the request may have been sent; it may have happened."
        )
    return _unavailable(
        "internal", "The broker met a fault of its own; nothing was sent. A human has to run: doorward doctor"
    )


def not_reconciled() -> Refusal:
    return _fault_in_doubt("The broker met a fault of its own while it reconciled; what was in doubt stays so.")


def _invalid(code: str, message: str) -> Refusal:
    return Refusal(category=Category.INVALID_REQUEST, code=code, retry=Retry.NEVER, message=_cut(message))


def _unavailable(code: str, message: str, *, retry_after_s: int | None = None) -> Refusal:
    """For a human to mend, unless a wait is enough."""
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code=code,
        retry=Retry.AFTER_HUMAN if retry_after_s is None else Retry.AFTER_DELAY,
        retry_after_s=retry_after_s,
        message=message,
    )


def _fault_in_doubt(message: str) -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="internal",
        retry=Retry.RECONCILE_FIRST,
        message=message,
        remote_effect=RemoteEffect.UNKNOWN,
    )


def _session(code: str, message: str, *, retry: Retry = Retry.NEVER) -> Refusal:
    return Refusal(category=Category.SESSION_DENIED, code=code, retry=retry, message=_cut(message))


def _policy(code: str, message: str, next_command: str | None = None) -> Refusal:
    return Refusal(
        category=Category.POLICY_DENIED, code=code, retry=Retry.NEVER, message=_cut(message), next_command=next_command
    )


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 2] + " …"

"""Refusals of the ladder's first half: what the agent is told when its request ends before anybody was asked.

Those of a card stand in approval.py, those of the last look in gate.py. Sentences repeat no text of the agent's.
"""

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.frozen import FrozenRequest
from broker.core.gate import Refusal
from broker.core.policy.model import Deny
from broker.core.resolve import Invalid


def disk_low() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="disk_low",
        retry=Retry.AFTER_HUMAN,
        message="The disk of the audit log is nearly full, so nothing runs. A human has to make room.",
    )


def echoing() -> Refusal:
    return Refusal(
        category=Category.SESSION_DENIED,
        code="muted",
        retry=Retry.AFTER_HUMAN,
        message="Services gave the credential back in their answers again and again, so nothing is sent for this "
        "program any more. A human has to look, and can unmute it.",
    )


def invalid(fault: Invalid) -> Refusal:
    return Refusal(category=Category.INVALID_REQUEST, code=fault.code, retry=Retry.NEVER, message=fault.message)


def denied(decision: Deny, frozen: FrozenRequest) -> Refusal:
    why = (
        f"no rule of the policy names {frozen.operation} for this agent"
        if decision.code == "no_rule"
        else f"rule {', '.join(decision.rules)} of the policy denies {frozen.operation}"
    )
    return Refusal(
        category=Category.POLICY_DENIED,
        code=decision.code,
        retry=Retry.NEVER,
        message=f"Nothing was sent: {why}."[:300],
    )


def no_credential(name: str) -> Refusal:
    command = f"doorward credential add {name}"
    return _unfit(f"the vault has no credential {name}; a human has to run: {command}", command)


def not_bound(name: str, base_url: str) -> Refusal:
    command = "doorward credential list"
    return _unfit(f"credential {name} is not bound to {base_url}; see: {command}", command)


def id_conflict() -> Refusal:
    return Refusal(
        category=Category.INVALID_REQUEST,
        code="request_id_conflict",
        retry=Retry.NEVER,
        message="This request_id was used for another request already; nothing was sent. Choose a new one.",
    )


def change_in_doubt() -> Refusal:
    return Refusal(
        category=Category.RECONCILE_REQUIRED,
        code="in_doubt",
        retry=Retry.RECONCILE_FIRST,
        message="The same change is in doubt from an earlier attempt, so it was not sent again. Reconcile that first.",
        remote_effect=RemoteEffect.UNKNOWN,
    )


def leader_lost(*, is_write: bool) -> Refusal:
    """A repeat whose first run ended without an answer. What that one did is not known; this one did nothing."""
    if not is_write:
        return Refusal(
            category=Category.BROKER_UNAVAILABLE,
            code="internal",
            retry=Retry.AFTER_HUMAN,
            message="The same request ended without an answer, and was not sent again. Ask for it anew.",
        )
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="internal",
        retry=Retry.RECONCILE_FIRST,
        message="The same request ended without an answer, so its change may have been made. It was not sent again.",
        remote_effect=RemoteEffect.UNKNOWN,
    )


def _unfit(why: str, command: str) -> Refusal:
    return Refusal(
        category=Category.POLICY_DENIED,
        code="rule_denied",
        retry=Retry.NEVER,
        message=f"Nothing was sent: {why}"[:300],
        next_command=command,
    )

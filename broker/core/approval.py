"""Approvals: one table says what can become of a card, and what each ending tells the agent.

A yes covers exactly one request (its digest) and is used up by it; an answer for a settled card changes nothing.
Knows nothing of sockets or screens: see approvals/desk.py for those.
"""

from enum import StrEnum

from broker.contract.reasons import ApprovalState, Category, Retry, VaultState
from broker.core import refusals
from broker.core.refusals import Refusal

GRANTED = "granted"  # why a card is superseded that a yes for the session speaks for; no answer says it


class Happening(StrEnum):
    """What can happen to a card while it waits."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    LOCKED = "locked"
    FROZEN = "frozen"
    SESSION_ENDED = "session_ended"
    POLICY_CHANGED = "policy_changed"
    CREDENTIAL_CHANGED = "credential_changed"
    STOPPING = "stopping"


_AFTER = {
    Happening.APPROVED: ApprovalState.APPROVED,
    Happening.DENIED: ApprovalState.DENIED,
    Happening.EXPIRED: ApprovalState.EXPIRED,
    Happening.WITHDRAWN: ApprovalState.VOID,
    Happening.SUPERSEDED: ApprovalState.SUPERSEDED,
    Happening.LOCKED: ApprovalState.VOID,
    Happening.FROZEN: ApprovalState.VOID,
    Happening.SESSION_ENDED: ApprovalState.VOID,
    Happening.POLICY_CHANGED: ApprovalState.VOID,
    Happening.CREDENTIAL_CHANGED: ApprovalState.VOID,
    Happening.STOPPING: ApprovalState.VOID,
}


def after(state: ApprovalState, happening: Happening) -> ApprovalState | None:
    """The state that follows, or None where the card is settled already and nothing may change it."""
    if state is not ApprovalState.PENDING:
        return None
    return _AFTER[happening]


def refusal(
    happening: Happening, *, reason: str | None = None, per_call: bool = True, approver: bool = True
) -> Refusal:
    """What the agent is told when its card ended without a yes. `reason` is the human's own, for denials."""
    match happening:
        case Happening.DENIED:
            told = f' They say: "{reason[:200]}"' if reason else ""
            return Refusal(
                category=Category.CALL_DENIED if per_call else Category.SESSION_DENIED,
                code="declined",
                retry=Retry.NEVER,
                message=f"A human said no; nothing was sent.{told}",
            )
        case Happening.EXPIRED:
            return _timeout(
                "approval_expired" if approver else "no_approver",
                "Nobody answered in time; nothing was sent. Ask the human to watch: doorward ui"
                if approver
                else "No approver is connected; nothing was sent. A human has to run: doorward ui",
            )
        case Happening.WITHDRAWN:
            return _timeout("withdrawn", "The request was withdrawn before it was sent.", retry=Retry.NEVER)
        case Happening.SUPERSEDED:
            return _timeout("superseded", "Another request took this one's place; this one was not sent.")
        case Happening.LOCKED:
            return refusals.vault(VaultState.LOCKED)
        case Happening.FROZEN:
            return refusals.frozen()
        case Happening.SESSION_ENDED:
            return refusals.session_ended()
        case Happening.POLICY_CHANGED:
            return _timeout("approval_void", "The policy changed while the card waited; nothing was sent. Ask again.")
        case Happening.CREDENTIAL_CHANGED:
            return _timeout(
                "approval_void", "The credential changed while the card waited; nothing was sent. Ask again."
            )
        case Happening.STOPPING:
            return Refusal(
                category=Category.BROKER_UNAVAILABLE,
                code="shutting_down",
                retry=Retry.AFTER_HUMAN,
                message="The broker is stopping; nothing was sent.",
            )
        case Happening.APPROVED:
            raise ValueError("a yes is no refusal")


def muted(limit: str) -> Refusal:
    return Refusal(
        category=Category.SESSION_DENIED,
        code="muted",
        retry=Retry.NEVER,
        message=f"Too many requests for a human's attention ({limit}); nothing was sent. Wait until they unmute you.",
    )


def crowded(limit: str) -> Refusal:
    """A human is asked too often, but not by this one."""
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="local_limit",
        retry=Retry.AFTER_DELAY,
        retry_after_s=60,
        message=f"This user's programs ask a human too often ({limit} by all of them); nothing was sent. Wait a while.",
    )


def denied_recently(*, ago_s: int, again_s: int) -> Refusal:
    """`ago_s` is how long ago the human said no, `again_s` how long that stands from now."""
    return Refusal(
        category=Category.CALL_DENIED,
        code="denied_recently",
        retry=Retry.NEVER,
        message=f"A human denied this very change {_lasting(ago_s)} ago; nothing was sent, and they are not asked about"
        f" it for another {_lasting(again_s)}, however it is put. Go on with other work.",
    )


def _lasting(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"


def _timeout(code: str, message: str, *, retry: Retry = Retry.AFTER_HUMAN) -> Refusal:
    return Refusal(category=Category.APPROVAL_TIMEOUT, code=code, retry=retry, message=message)

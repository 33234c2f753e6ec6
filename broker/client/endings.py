"""Envelopes that the client makes itself, when no daemon answered: same shape as the daemon's, no correlation id.

They never claim more than is known: nobody there means that nothing was sent; an answer that got lost on the way
means that the outcome is unknown. On the agent's path, so plain values instead of the contract's classes; a test
holds both together.
"""

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from broker.contract.wire import JsonValue

_LONGEST_MESSAGE = 300


def not_running(message: str, *, request_id: str | None = None) -> "dict[str, JsonValue]":
    """No daemon that we trust is there: nothing was sent."""
    return _envelope(
        category="broker_unavailable",
        code="not_running",
        remote_effect="none",
        retry="after_human",
        request_id=request_id,
        message=message,
        next_={"action": "ask_human", "command": "doorward up"},
    )


def lost(message: str, *, request_id: str | None = None, again: str | None = None) -> "dict[str, JsonValue]":
    """The request went out and no usable answer came back. With a request id the same line gives the record."""
    command: str | None
    if request_id is None:
        retry, action, command = "after_human", "ask_human", "doorward operations list --in-doubt"
        advice = "It may have happened. Look before it is asked for again."
    else:
        retry, action, command = "reconcile_first", "reconcile", again
        advice = "It may have happened. The same request with the same request id gives the record, and sends nothing."
    return _envelope(
        category="outcome_unknown",
        code="connection_lost",
        remote_effect="unknown",
        retry=retry,
        request_id=request_id,
        message=f"{message}. {advice}",
        next_={"action": action, "command": command},
    )


def unanswered(message: str, *, command: str) -> "dict[str, JsonValue]":
    """A question that changes nothing got no answer: it may be asked again."""
    return _envelope(
        category="broker_unavailable",
        code="internal",
        remote_effect="unknown",
        retry="after_delay",
        retry_after_s=5,
        request_id=None,
        message=message,
        next_={"action": "wait", "after_s": 5, "command": command},
    )


def misspelled(message: str) -> "dict[str, JsonValue]":
    """The command line itself is wrong: nothing was sent."""
    return _envelope(
        category="invalid_request",
        code="schema",
        remote_effect="none",
        retry="never",
        request_id=None,
        message=message,
        next_={"action": "fix_request", "command": None},
    )


def _envelope(
    *,
    category: str,
    code: str,
    remote_effect: str,
    retry: str,
    request_id: str | None,
    message: str,
    next_: "dict[str, JsonValue]",
    retry_after_s: int | None = None,
) -> "dict[str, JsonValue]":
    return {
        "ok": False,
        "status": "failure",
        "category": category,
        "code": code,
        "operation": None,
        "effect": None,
        "remote_effect": remote_effect,
        "retry": retry,
        "retry_after_s": retry_after_s,
        "correlation_id": None,
        "request_id": request_id,
        "previous_correlation_id": None,
        "message": message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…",
        "next": next_,
        "http": None,
        "ssh": None,
        "completeness": None,
        "warnings": [],
        "evidence": None,
        "scrub": {"state": "not_needed", "reason": None},
        "gate": {
            "vault": "locked",
            "session": "not_needed",
            "call": "not_needed",
            "rules": [],
            "policy": None,
        },
        "diagnostics_ref": None,
    }

"""Rows of the attempt ledger: how an attempt is spelled in one, and under which fingerprints it is found."""

import hashlib
import hmac

from broker.contract.wire import JsonObject, canonical
from broker.core.ledger import Attempt, AttemptState, Doubt
from broker.core.ssh.change import ANYTHING
from broker.operations.ledger_file import Keys, unsealed


def fingerprint(keys: Keys, *parts: str) -> bytes:
    return hmac.new(keys.fingerprint, "\0".join(parts).encode(), hashlib.sha256).digest()


def change_print(keys: Keys, change_key: str) -> bytes:
    """Of a change in a place, the place comes first, so that all of one place stand together."""
    place, slash, _ = change_key.rpartition("/")
    return (fingerprint(keys, "place", place) if slash else b"") + fingerprint(keys, "change", change_key)


def meeting(keys: Keys, change_key: str) -> tuple[str, tuple[bytes, ...]]:
    """Where the attempts are that are one change with this one."""
    own = change_print(keys, change_key)
    place, slash, what = change_key.rpartition("/")
    if not slash:
        return "change_key = ?", (own,)
    if what == ANYTHING:
        first = fingerprint(keys, "place", place)
        return "change_key BETWEEN ? AND ?", (first, first + b"\xff" * (len(first) + 1))
    return "change_key IN (?, ?)", (own, change_print(keys, f"{place}/{ANYTHING}"))


def attempt_json(attempt: Attempt) -> JsonObject:
    told: JsonObject = {
        "anchor_id": attempt.anchor_id,
        "request_id": attempt.request_id,
        "request_digest": attempt.request_digest,
        "change_key": attempt.change_key,
        "service": attempt.service,
        "operation": attempt.operation,
        "summary": attempt.summary,
        "args": dict(attempt.args),
        "agent": attempt.agent,
        "session_id": attempt.session_id,
        "started_at_ms": attempt.started_at_ms,
        "idempotency_key": attempt.idempotency_key,
    }
    canonical({key: value for key, value in told.items() if key != "args"})
    return told


def doubt_of(attempt: Attempt) -> Doubt:
    return Doubt(
        correlation_id=attempt.correlation_id,
        session_id=attempt.session_id,
        agent=attempt.agent,
        operation=attempt.operation,
        summary=attempt.summary,
        sent_at_ms=attempt.started_at_ms,
        request_digest=attempt.request_digest,
        idempotency_key=attempt.idempotency_key,
    )


def attempt_of_row(keys: Keys, correlation_id: str, state: str, attempt: bytes, envelope: bytes | None) -> Attempt:
    """Raises LedgerError."""
    told = unsealed(keys, correlation_id, "attempt", attempt)
    answer = None if envelope is None else unsealed(keys, correlation_id, "envelope", envelope)
    key = told.get("idempotency_key")  # entries of before have none
    return Attempt(
        correlation_id=correlation_id,
        anchor_id=str(told["anchor_id"]),
        request_id=None if told["request_id"] is None else str(told["request_id"]),
        request_digest=str(told["request_digest"]),
        change_key=None if told["change_key"] is None else str(told["change_key"]),
        service=str(told["service"]),
        operation=str(told["operation"]),
        summary=str(told["summary"]),
        args=told["args"] if isinstance(told["args"], dict) else {},
        agent=str(told["agent"]),
        session_id=str(told["session_id"]),
        started_at_ms=told["started_at_ms"] if isinstance(told["started_at_ms"], int) else 0,
        idempotency_key=key if isinstance(key, str) else None,
        state=AttemptState(state),
        envelope=answer,
    )

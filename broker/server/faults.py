"""Replies to what goes wrong at the edge: the only place where an error becomes an answer.

On agent.sock every answer but 404 is an envelope; on control.sock an error is `{"error": {code, message, ...}}`.
"""

import logging

from aiohttp import web

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject, JsonValue, dump
from broker.core import reply
from broker.core.gate import Refusal
from broker.core.reply import Frame

LOG = logging.getLogger("doorward.server")

CONTROL_STATUS = {
    "unreadable": 400,
    "control_session_required": 401,
    "agent_session": 403,
    "unsigned": 403,
    "bad_signature": 403,
    "wrong_passphrase": 403,
    "unknown": 404,
    "settled": 409,
    "not_armed": 409,
    "wrong_confirm": 409,
    "exists": 409,
    "stale_nonce": 409,
    "vault_locked": 409,
    "frozen": 409,
    "changed": 409,
    "policy_faults": 422,
    "schema": 422,
    "limit": 429,
    "audit_unwritable": 503,
    "internal": 500,
}


class ControlError(Exception):
    """A control verb that was not done. `code` is stable; the message says what to do."""

    def __init__(
        self, code: str, message: str, *, status: int | None = None, recorded: bool = False, **more: JsonValue
    ) -> None:
        super().__init__(message)
        self.code = code
        self.recorded = recorded  # the audit log has it already
        self.status = CONTROL_STATUS[code] if status is None else status
        self.more = more


def json_answer(value: JsonValue, *, status: int = 200) -> web.Response:
    return web.Response(body=dump(value), status=status, content_type="application/json")


def envelope_status(envelope: JsonObject) -> int:
    """The HTTP status of an envelope: 200 for anything decided, else what the transport should know."""
    category, code = envelope["category"], envelope["code"]
    if category == Category.BROKER_UNAVAILABLE:
        return 429 if code == "local_limit" else 503
    if category == Category.INVALID_REQUEST:
        return {"unreadable": 400, "body_too_large": 413, "schema": 422}.get(str(code), 200)
    return 200


def envelope_answer(envelope: JsonObject) -> web.Response:
    return json_answer(envelope, status=envelope_status(envelope))


def refused(refusal: Refusal, *, correlation_id: str | None = None) -> JsonObject:
    """An envelope for a request that never became one (no peer, no room)."""
    frame = Frame(correlation_id=correlation_id or "")
    told = reply.refused(frame, refusal, GateReport()).to_json()
    return {**told, "correlation_id": correlation_id}


def control_answer(error: ControlError) -> web.Response:
    detail: dict[str, JsonValue] = {"code": error.code, "message": str(error), **error.more}
    return json_answer({"error": detail}, status=error.status)


def unreadable(why: str) -> Refusal:
    return Refusal(
        category=Category.INVALID_REQUEST,
        code="unreadable",
        retry=Retry.NEVER,
        message=f"The body can't be read: {why}."[:300],
    )


def misshapen(why: str) -> Refusal:
    return Refusal(category=Category.INVALID_REQUEST, code="schema", retry=Retry.NEVER, message=_cut(why))


def too_large(limit: int) -> Refusal:
    return Refusal(
        category=Category.INVALID_REQUEST,
        code="body_too_large",
        retry=Retry.NEVER,
        message=f"The body is larger than {limit} bytes; nothing was sent.",
    )


def unknown_correlation() -> Refusal:
    return Refusal(
        category=Category.INVALID_REQUEST,
        code="unknown_correlation_id",
        retry=Retry.NEVER,
        message="There is no such request of this caller's. Only the process that asked may ask for its result.",
    )


def overloaded() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="overloaded",
        retry=Retry.AFTER_DELAY,
        retry_after_s=5,
        message="The broker has as much work as it takes; nothing was sent. Ask again in a while.",
    )


def local_limit() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="local_limit",
        retry=Retry.AFTER_DELAY,
        retry_after_s=2,
        message="This caller has as many requests under way as it may have; nothing was sent. Wait for them.",
    )


def internal() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="internal",
        retry=Retry.AFTER_HUMAN,
        message="The broker met a fault of its own; its log says which. A human has to run: doorward doctor",
    )


def broken(correlation_id: str, *, sent: bool) -> JsonObject:
    """A request that a fault of ours ended: what is known of the far side is told all the same."""
    refusal = Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="internal",
        retry=Retry.RECONCILE_FIRST if sent else Retry.AFTER_HUMAN,
        message="The broker met a fault of its own after the request may have been sent; it may have happened."
        if sent
        else "The broker met a fault of its own; nothing was sent. A human has to run: doorward doctor",
        remote_effect=RemoteEffect.UNKNOWN if sent else RemoteEffect.NONE,
    )
    return reply.refused(Frame(correlation_id=correlation_id), refusal, GateReport()).to_json()


def still_running(correlation_id: str, message: str) -> JsonObject:
    """What was sent and has not ended: nobody knows yet what it did."""
    refusal = Refusal(
        category=Category.OUTCOME_UNKNOWN,
        code="still_running",
        retry=Retry.AFTER_DELAY,
        retry_after_s=2,
        message=message,
        remote_effect=RemoteEffect.UNKNOWN,
        next_command=f"doorward result {correlation_id}",
    )
    return reply.refused(Frame(correlation_id=correlation_id), refusal, GateReport()).to_json()


def shutting_down() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="shutting_down",
        retry=Retry.AFTER_DELAY,
        retry_after_s=10,
        message="The broker is stopping; nothing was sent.",
    )


def _cut(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 2] + " …"


def _turned_away(status: str, value: JsonObject) -> bytes:
    """A whole HTTP answer for who is let in no further than to be told so."""
    body = dump(value)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


TOO_MANY_AGENTS = _turned_away("503 Service Unavailable", refused(overloaded()))
TOO_MANY_HUMANS = _turned_away(
    "429 Too Many Requests",
    {"error": {"code": "limit", "message": "There are as many connections as the broker takes. Try again."}},
)

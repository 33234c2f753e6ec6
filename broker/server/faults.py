"""Replies at the edge: how refusals and errors become HTTP answers.

On agent.sock every answer but 404 is an envelope; on control.sock an error is `{"error": {code, message, ...}}`.
"""

import logging

from aiohttp import web

from broker.contract.reasons import Category
from broker.contract.result import GateReport
from broker.contract.wire import JsonObject, JsonValue, dump, dump_names
from broker.core import refusals, reply
from broker.core.refusals import Refusal
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
    "keyring": 409,
    "frozen": 409,
    "changed": 409,
    "damaged": 409,
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
    return web.Response(body=dump_names(value), status=status, content_type="application/json")


def envelope_status(envelope: JsonObject) -> int:
    """The HTTP status of an envelope: 200 for anything decided, else what the transport should know."""
    category, code = envelope["category"], envelope["code"]
    if category == Category.BROKER_UNAVAILABLE:
        return 429 if code == "local_limit" else 503
    if category == Category.INVALID_REQUEST:
        return {"unreadable": 400, "body_too_large": 413, "schema": 422}.get(str(code), 200)
    return 200


def envelope_answer(envelope: JsonObject, spelled: bytes | None = None) -> web.Response:
    """`spelled` is the envelope as bytes, where somebody has that already."""
    if spelled is None:
        return json_answer(envelope, status=envelope_status(envelope))
    return web.Response(body=spelled, status=envelope_status(envelope), content_type="application/json")


def refused(refusal: Refusal, *, correlation_id: str | None = None) -> JsonObject:
    """The envelope of a refusal. Without an id it is for a request that never became one (no peer, no room)."""
    return reply.refused(Frame(correlation_id=correlation_id), refusal, GateReport()).to_json()


def broken(correlation_id: str, *, sent: bool, is_write: bool) -> JsonObject:
    """The envelope of a request that a fault of ours ended."""
    return refused(refusals.broken(sent=sent, is_write=is_write), correlation_id=correlation_id)


def still_running(correlation_id: str, message: str) -> JsonObject:
    """The envelope of what was sent and has not ended."""
    refusal = refusals.still_running(message, next_command=f"doorward result {correlation_id}")
    return refused(refusal, correlation_id=correlation_id)


def control_answer(error: ControlError) -> web.Response:
    detail: dict[str, JsonValue] = {"code": error.code, "message": str(error), **error.more}
    return json_answer({"error": detail}, status=error.status)


def _turned_away(status: str, value: JsonObject) -> bytes:
    """A whole HTTP answer for who is let in no further than to be told so."""
    body = dump(value)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


TOO_MANY_AGENTS = _turned_away("503 Service Unavailable", refused(refusals.overloaded()))
TOO_MANY_HUMANS = _turned_away(
    "429 Too Many Requests",
    {"error": {"code": "limit", "message": "There are as many connections as the broker takes. Try again."}},
)

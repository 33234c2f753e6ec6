"""Envelopes as a daemon would send them."""

from broker.contract.wire import JsonValue

ID = "op_0193a1b2c3d4" + "0123456789abcdef" * 2


def envelope(category: str = "success", **changes: JsonValue) -> dict[str, JsonValue]:
    status = category if category in {"success", "partial"} else "failure"
    base: dict[str, JsonValue] = {
        "ok": status == "success",
        "status": status,
        "category": category,
        "code": "ok",
        "operation": "github.user.get",
        "effect": "read",
        "remote_effect": "none",
        "retry": "never",
        "retry_after_s": None,
        "correlation_id": ID,
        "request_id": None,
        "previous_correlation_id": None,
        "message": "The answer is whole.",
        "next": {"action": "none", "command": None},
        "http": None,
        "ssh": None,
        "completeness": None,
        "warnings": [],
        "evidence": None,
        "scrub": {"state": "done", "reason": None},
        "gate": {"vault": "ready", "session": "granted", "call": "not_needed", "rules": [], "policy": None},
        "diagnostics_ref": None,
    }
    return {**base, **changes}


def answer(**changes: JsonValue) -> dict[str, JsonValue]:
    base: dict[str, JsonValue] = {
        "status": 200,
        "headers": {},
        "media_type": "application/json",
        "body_bytes": 15,
        "final_url": "https://api.github.com/user",
    }
    return {**base, **changes}

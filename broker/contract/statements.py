"""The bytes that an approver signs, spelled once for signer and verifier (contract: "signatures").

Knows no keys: signing lives in client/approver.py, verifying in approvals/ and daemon/.
"""

from broker.contract.wire import JsonObject, canonical

DECISION_FIELDS = (
    "approval_id",
    "request_digest",
    "card_digest",
    "decision",
    "choice",
    "scope",
    "max_uses",
    "max_age_s",
    "reason",
    "policy_digest",
    "log_id",
    "vault_term",
    "nonce",
    "decided_at_ms",
)
STATEMENT_FIELDS = ("verb", "params", "nonce", "log_id", "vault_term")
CONTROL_FIELDS = ("nonce", "pid", "log_id")
POLICY_FIELDS = ("policy_digest", "counter", "log_id")


def _signed_bytes(domain: str, fields: tuple[str, ...], values: JsonObject) -> bytes:
    if set(values) != set(fields):
        odd = sorted(set(values) ^ set(fields))
        raise ValueError(f"{domain} takes exactly {', '.join(fields)}; check {', '.join(odd)}")
    return domain.encode() + b"\0" + canonical(values)


def decision_bytes(values: JsonObject) -> bytes:
    return _signed_bytes("doorward/decision/v1", DECISION_FIELDS, values)


def statement_bytes(values: JsonObject) -> bytes:
    return _signed_bytes("doorward/statement/v1", STATEMENT_FIELDS, values)


def control_bytes(values: JsonObject) -> bytes:
    return _signed_bytes("doorward/control/v1", CONTROL_FIELDS, values)


def policy_bytes(values: JsonObject) -> bytes:
    return _signed_bytes("doorward/policy/v1", POLICY_FIELDS, values)

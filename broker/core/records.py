"""What the records of one request say: typed fields from the kernel, the frozen request and the outcome's numbers.

No body, no header of an answer and no free text gets in. Which record is written when is the pipeline's business.
"""

from collections.abc import Iterable

from broker.contract.reasons import Category, Status
from broker.contract.wire import JsonObject, JsonValue
from broker.core.channels import Frozen
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.identity import Caller
from broker.core.ledger import Doubt
from broker.core.outcome import Scrubbed
from broker.core.policy.model import Allow, Ask, Deny

BROKEN: JsonObject = {  # the end of a request that a fault of our own ended; what is in doubt, the ledger knows
    "status": Status.FAILURE.value,
    "category": Category.BROKER_UNAVAILABLE.value,
    "code": "internal",
}


def requested(caller: Caller, *, body_digest: str, request_id: str | None) -> JsonObject:
    return {
        "body": body_digest,
        "request_id": request_id,
        "agent": caller.agent,
        "anchor": caller.anchor.id,
        "span": caller.span.value,
        "pid": caller.anchor_process.pid,
        "exe": caller.program.exe,
        "peer_pid": caller.peer.process.pid,
        "peer_exe": caller.peer.process.exe,
    }


def decided(decision: Allow | Ask | Deny, frozen: Frozen, *, policy_digest: str) -> JsonObject:
    return {
        "decision": _word(decision),
        "rules": list(decision.rules),
        "policy": policy_digest,
        "request": frozen.to_json(),
        "identifies": frozen.identifies,
        "digest": frozen.digest,
    }


def intent(permit: Permit, *, policy_digest: str, doubts: Iterable[Doubt], ledger: int | None) -> JsonObject:
    frozen = permit.frozen
    return {
        "digest": frozen.digest,
        "operation": frozen.operation,
        "effect": frozen.effect.value,
        "credential": frozen.service.credential,
        "credential_version": permit.credential_version,
        "policy": policy_digest,
        "doubts": [doubt.correlation_id for doubt in doubts],
        "ledger": ledger,
        **({} if permit.idempotency_key is None else {"idempotency_key": permit.idempotency_key}),
        **({"page": 1} if isinstance(frozen, FrozenRequest) and frozen.walk is not None else {}),
    }


def remote(scrubbed: Scrubbed, *, sent_body_bytes: int) -> JsonObject:
    return {
        "phase": scrubbed.phase.value,
        "fault": None if scrubbed.fault is None else scrubbed.fault.value,
        "status": scrubbed.status,
        **({} if scrubbed.ssh is None else _ended(scrubbed.ssh)),
        "elapsed_ms": scrubbed.elapsed_ms,
        "sent_body_bytes": sent_body_bytes,
        "scrub_hits": scrubbed.hits,
    }


def _ended(ssh: JsonObject) -> JsonObject:
    return {name: ssh[name] for name in ("exit_status", "exit_signal", "stdout_bytes", "stderr_bytes", "marker")}


def _word(decision: Allow | Ask | Deny) -> JsonValue:
    match decision:
        case Allow():
            return "none"
        case Ask(rule=rule):
            return rule.approval.value
        case Deny():
            return "deny"

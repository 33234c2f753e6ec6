"""What is told of a recorded collection: to the agent in the envelope, and to the audit log, which holds no ids."""

from broker.contract.wire import JsonObject, JsonValue
from broker.core.card_evidence import COMPLETE
from broker.core.evidence import EvidenceRecord
from broker.core.evidence_gate import NO_PROOF, Proof, collect_command
from broker.core.moments import rfc3339


def envelope_part(record: EvidenceRecord) -> JsonObject:
    """The `evidence` of an envelope: a name for what was recorded, never a proof by itself."""
    return {
        "id": record.id,
        "operation": f"{record.service}.{record.operation}",
        "args": dict(record.args),
        "count": record.count,
        "complete": record.complete,
        "collected_at": rfc3339(record.collected_at_ms),
        "expires_at": rfc3339(record.expires_at_ms),
    }


def foreseen_part(proof: Proof, *, service: str) -> list[JsonValue]:
    """Each need as an agent may know it: how it stands, and what would collect it. Names no record and no row."""
    return [
        {
            "rule": one.rule_id,
            "operation": f"{service}.{one.need.operation}",
            "claim": one.need.claim.value,
            "state": COMPLETE if one.gap is None else one.gap.value,
            "max_age_s": one.need.max_age_s,
            "targets": len(one.targets),
            "unproven": len(one.unproven),
            "command": None if one.is_met else collect_command(service, one),
        }
        for one in proof.judged
    ]


def leaned_on(proof: Proof) -> JsonObject:
    """What the record of an intent says of the proof behind it; nothing where none was wanted."""
    if proof is NO_PROOF:
        return {}
    return {
        "evidence": [one.record.id for one in proof.judged if one.record is not None and one.is_met],
        "unproven": len({target for one in proof.gaps for target in one.unproven}),
        "gaps": [one.gap.value for one in proof.gaps if one.gap is not None],
        "prechecks": [look.operation for _, look in proof.prechecks],
    }


def recorded_fields(record: EvidenceRecord) -> JsonObject:
    """The fields of an evidence.recorded event. Integers, names and digests; no argument, no id of a row."""
    return {
        "evidence": record.id,
        "operation": f"{record.service}.{record.operation}",
        "anchor": record.anchor_id,
        "credential": record.credential,
        "credential_version": record.credential_version,
        "policy": record.policy_digest,
        "count": record.count,
        "ids": record.ids_digest,
        "complete": record.complete,
        "collected_at_ms": record.collected_at_ms,
        "expires_at_ms": record.expires_at_ms,
    }

"""The card's part on evidence: what each need leans on, or why it can't, and what may be chosen instead of a yes.

Names and numbers of the policy and of recorded collections; the ids of targets are the request's own.
"""

from broker.contract.wire import JsonObject, JsonValue
from broker.core.evidence import EvidenceRecord, Judged
from broker.core.evidence_gate import Proof

COMPLETE = "complete"
NOT_NEEDED = "not_needed"
_DOING = {"DELETE": "deleting", "READ": "reading", "RUN": "running"}


def evidence_state(proof: Proof) -> str:
    """One word for lists: not_needed, complete, or why the first open need is not met."""
    if not proof.judged and not proof.prechecks:
        return NOT_NEEDED
    gap = next((one.gap for one in proof.gaps), None)
    return COMPLETE if gap is None else gap.value


def evidence_part(proof: Proof) -> JsonObject:
    state = evidence_state(proof)
    return {
        "needed": state != NOT_NEEDED,
        "state": state,
        "items": [_item(one) for one in proof.judged],
        "looks": [
            {"rule": rule.id, "operation": look.operation, "expect": look.expect} for rule, look in proof.prechecks
        ],
        "choices": list(proof.choices),
    }


def yes_despite(proof: Proof, effect: str) -> str:
    """What a yes covers where something is not proven."""
    targets = {target for one in proof.judged for target in one.targets}
    unproven = {target for one in proof.gaps for target in one.unproven}
    if len(targets) > 1 and unproven:
        return f"{_DOING.get(effect, 'changing')} all {len(targets)}, {len(unproven)} without proof, once"
    if targets and not unproven:
        return "this one request, though not all of the list was seen, once"
    return "this one request without proof, once"


def _item(one: Judged) -> JsonObject:
    return {
        "rule": one.rule_id,
        "from": one.need.operation,
        "claim": one.need.claim.value,
        "state": COMPLETE if one.gap is None else one.gap.value,
        "max_age_s": one.need.max_age_s,
        "proven": list(one.proven),
        "unproven": list(one.unproven),
        "record": None if one.record is None else _record(one.record),
    }


def _record(record: EvidenceRecord) -> JsonObject:
    reasons: list[JsonValue] = [
        {name: reason.get(name) for name in ("code", "message", "limit", "unit", "by")} for reason in record.reasons
    ]
    return {
        "id": record.id,
        "count": record.count,
        "total": record.total,
        "complete": record.complete,
        "collected_at_ms": record.collected_at_ms,
        "pages": record.pages,
        "resumable": record.cursor is not None,
        "warnings": [warning.value for warning in record.warnings],
        "reasons": reasons,
    }

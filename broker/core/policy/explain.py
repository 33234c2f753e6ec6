"""Why a decision is what it is: every rule, and the first matcher that it fails on. Same code path as the decision."""

from broker.contract.reasons import ApprovalRule
from broker.contract.wire import JsonValue
from broker.core.channels import Frozen
from broker.core.identity import Caller
from broker.core.policy.evaluate import evaluate
from broker.core.policy.match import Facts, facts_of, first_mismatch
from broker.core.policy.model import Allow, Ask, Decision, Deny, Policy, Rule
from broker.core.policy.place import Place
from broker.core.policy.requirements import wanted


def explain(policy: Policy, caller: Caller, frozen: Frozen) -> dict[str, JsonValue]:
    """The trace for one request. For humans: it names rules and files that an agent is not told of."""
    decision = evaluate(policy, caller, frozen)
    facts = facts_of(caller.agent, frozen)
    return {
        **described(decision),
        "card": _card(decision.rule) if isinstance(decision, Ask) else None,
        "needs": [] if isinstance(decision, Deny) else _needs(policy, facts),
        "policy": policy.digest,
        "agent": caller.agent,
        "service": frozen.service.name,
        "operation": frozen.operation,
        "declared": frozen.declared is not None,
        "ad_hoc": list(frozen.service.ad_hoc),
        "effect": frozen.effect.value,
        "destructive": frozen.destructive,
        "method": facts.method,
        "host": facts.host,
        "user": facts.user or None,
        "command": None if facts.command is None else facts.command.text,
        "path": None if facts.segments is None else "/" + "/".join(facts.segments),
        "trace": [
            _step(rule, first_mismatch(rule, facts) or ("hours" if rule in policy.resting else None))
            for rule in sorted(policy.everything, key=lambda rule: rule.id)
        ],
    }


def described(decision: Decision) -> dict[str, JsonValue]:
    """A decision as data: `decision` is none, session, per_call or deny; `grant` what a yes would cover."""
    match decision:
        case Allow():
            return _outcome(ApprovalRule.NONE, decision.rules)
        case Ask():
            grant = None if decision.per_call else _grant(decision.rule)
            return _outcome(decision.rule.approval, decision.rules, place=decision.rule.place, grant=grant)
        case Deny():
            return _outcome(ApprovalRule.DENY, decision.rules, place=decision.place, code=decision.code)


def _outcome(
    approval: ApprovalRule,
    rules: tuple[str, ...],
    *,
    code: str | None = None,
    place: Place | None = None,
    grant: dict[str, JsonValue] | None = None,
) -> dict[str, JsonValue]:
    return {
        "decision": approval.value,
        "code": code,
        "rules": list(rules),
        "place": None if place is None else str(place),
        "grant": grant,
    }


def _grant(rule: Rule) -> dict[str, JsonValue]:
    return {"rule": rule.id, "per": rule.per, "max_uses": rule.max_uses, "max_age_s": rule.max_age_s}


def _card(rule: Rule) -> dict[str, JsonValue]:
    return {"arming_ms": rule.arming_ms, "expires_s": rule.expires_s, "in_doubt": rule.in_doubt}


def _needs(policy: Policy, facts: Facts) -> list[JsonValue]:
    """What has to be known first, of every rule that matches, whichever of them decides."""
    found = wanted(policy, facts)
    evidence: list[JsonValue] = [
        {
            "rule": rule.id,
            "kind": "evidence",
            "operation": need.operation,
            "claim": need.claim.value,
            "covers": need.covers,
            "max_age_s": need.max_age_s,
            "otherwise": need.otherwise.value,
            "expect": None,
        }
        for rule, need in found.evidence
    ]
    looks: list[JsonValue] = [
        {
            "rule": rule.id,
            "kind": "precheck",
            "operation": look.operation,
            "claim": None,
            "covers": None,
            "max_age_s": None,
            "otherwise": None,
            "expect": look.expect,
        }
        for rule, look in found.prechecks
    ]
    return [*evidence, *looks]


def _step(rule: Rule, failed: str | None) -> dict[str, JsonValue]:
    return {
        "rule": rule.id,
        "approval": rule.approval.value,
        "matched": failed is None,
        "failed": failed,
        "place": str(rule.place),
    }

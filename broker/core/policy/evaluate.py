"""Policy to decision: default deny, the strictest matching rule wins, and no order of rules or files matters.

Pure: the agent's words are no input. Adding a rule opens only what no rule named before; it can't loosen anything.
"""

from collections.abc import Sequence
from dataclasses import replace

from broker.contract.reasons import ApprovalRule
from broker.core.channels import Frozen
from broker.core.identity import Caller
from broker.core.policy.match import Facts, facts_of, first_mismatch
from broker.core.policy.model import Allow, Ask, Decision, Deny, Limits, Policy, Rule, Service
from broker.core.ssh.frozen import FrozenSsh

STRICTNESS = {approval: rank for rank, approval in enumerate(ApprovalRule)}
_NARROWEST_FIRST = ("operation", "service", "rule")


def evaluate(policy: Policy, caller: Caller, frozen: Frozen) -> Decision:
    """What the policy says of this caller's frozen request."""
    if isinstance(frozen, FrozenSsh) and frozen.is_look_up:
        return _unless_denied(policy, facts_of(caller.agent, frozen))
    return decide(policy, facts_of(caller.agent, frozen), frozen.service, is_open=frozen.is_open)


def decide(policy: Policy, facts: Facts, service: Service, *, is_open: bool) -> Decision:
    """The decision on facts. `is_open` is false for an ad hoc method that the service does not list."""
    matching = [rule for rule in policy.rules if first_mismatch(rule, facts) is None]
    if any(rule.approval is ApprovalRule.DENY for rule in matching):
        denying = [rule for rule in matching if rule.approval is ApprovalRule.DENY]
        return Deny(code="rule_denied", rules=_ids(denying), place=min(denying, key=lambda rule: rule.id).place)
    if not is_open or not matching:
        return Deny(code="no_rule", rules=(), place=service.place)
    strictest = max((rule.approval for rule in matching), key=STRICTNESS.__getitem__)
    if strictest is ApprovalRule.NONE:
        return Allow(rules=_ids(matching))
    deciding = [rule for rule in matching if rule.approval is strictest]
    return Ask(rule=governing(deciding, matching, policy.limits), rules=_ids(deciding))


def _unless_denied(policy: Policy, facts: Facts) -> Decision:
    """A look at what became of an earlier action needs no yes of its own: only a rule that denies is in its way."""
    matching = [
        rule for rule in policy.rules if rule.approval is ApprovalRule.DENY and first_mismatch(rule, facts) is None
    ]
    if matching:
        return Deny(code="rule_denied", rules=_ids(matching), place=min(matching, key=lambda rule: rule.id).place)
    return Allow(rules=())


def governing(deciding: Sequence[Rule], matching: Sequence[Rule], limits: Limits) -> Rule:
    """The rule with the tightest grant, narrowed by what the other matching rules say about grant and card."""
    tightest = min(deciding, key=lambda rule: (rule.max_uses, rule.max_age_s, rule.id))
    return replace(
        tightest,
        max_uses=min(tightest.max_uses, limits.max_uses),
        max_age_s=min(*(rule.max_age_s for rule in deciding), limits.max_age_s),
        per=min((rule.per for rule in deciding), key=_NARROWEST_FIRST.index),
        expires_s=min(rule.expires_s for rule in deciding),
        arming_ms=max(rule.arming_ms for rule in matching),
        in_doubt="ask" if all(rule.in_doubt == "ask" for rule in matching) else "refuse",
    )


def _ids(rules: Sequence[Rule]) -> tuple[str, ...]:
    return tuple(sorted(rule.id for rule in rules))

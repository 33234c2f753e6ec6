"""What the rules that match a request want to be known first. Every one of them counts, not the strictest alone.

So a rule that is added can ask for more and never for less.
"""

from dataclasses import dataclass

from broker.contract.reasons import ApprovalRule
from broker.core.channels import Frozen
from broker.core.identity import Caller
from broker.core.policy.declarations import EvidenceNeed, Precheck
from broker.core.policy.match import Facts, facts_of, first_mismatch
from broker.core.policy.model import Policy, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Needs and looks just before, each with the rule that asks for it; in the order of the rules' ids."""

    evidence: tuple[tuple[Rule, EvidenceNeed], ...] = ()
    prechecks: tuple[tuple[Rule, Precheck], ...] = ()


def longest_need_s(policy: Policy, operation: str) -> int:
    """The longest that any rule leans on a collection of an operation of this name; 0 where none does."""
    needs = [rule.evidence for rule in policy.everything if rule.evidence is not None]
    return max((need.max_age_s for need in needs if need.operation == operation), default=0)


def requirements(policy: Policy, caller: Caller, frozen: Frozen) -> Requirements:
    """What is wanted for this request. What can't be met on its channel is wanted all the same."""
    return wanted(policy, facts_of(caller.agent, frozen))


def wanted(policy: Policy, facts: Facts) -> Requirements:
    """The same for facts."""
    asking = [
        rule
        for rule in policy.rules
        if rule.approval is not ApprovalRule.DENY and (rule.evidence is not None or rule.precheck is not None)
    ]
    matching = sorted((rule for rule in asking if first_mismatch(rule, facts) is None), key=lambda rule: rule.id)
    return Requirements(
        evidence=tuple((rule, rule.evidence) for rule in matching if rule.evidence is not None),
        prechecks=tuple((rule, rule.precheck) for rule in matching if rule.precheck is not None),
    )

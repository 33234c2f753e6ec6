"""The rules as rows for whoever looks at a policy: what each is about, in words, and whether it speaks right now."""

from collections.abc import Iterable

from broker.contract.wire import JsonValue
from broker.core.policy.model import Policy, Rule


def rule_rows(policy: Policy) -> list[JsonValue]:
    """Every rule by id. The policy is one at a moment: what rests is not active."""
    active = {rule.id for rule in policy.rules}
    return [
        {
            "id": rule.id,
            "approval": rule.approval.value,
            "about": about(rule),
            "reason": rule.reason,
            "place": str(rule.place),
            "active": rule.id in active,
        }
        for rule in sorted(policy.everything, key=lambda rule: rule.id)
    ]


def about(rule: Rule) -> str:
    """Its matchers, alternatives by commas; `anything` where it has none."""
    parts = (
        _listed(rule.agents),
        _listed(rule.services),
        _listed(rule.operations),
        _listed(effect.value for effect in rule.effects),
        "" if rule.destructive is None else "destructive" if rule.destructive else "not destructive",
        _listed(rule.methods),
        _listed(rule.paths),
        _listed(rule.hosts),
        _listed(f"as {user}" for user in rule.users),
        _listed(rule.commands),
        _listed(window.text for window in rule.hours),
    )
    return " · ".join(part for part in parts if part) or "anything"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)

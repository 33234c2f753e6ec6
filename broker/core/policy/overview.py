"""What some rule could open to an agent: the listing behind `doorward services`. Names no rule and no file."""

from dataclasses import dataclass

from broker.contract.reasons import ApprovalRule, Effect
from broker.contract.wire import JsonValue
from broker.core.policy.evaluate import STRICTNESS, decide
from broker.core.policy.match import may_match
from broker.core.policy.model import Allow, Ask, Operation, Policy
from broker.core.policy.subjects import Subject, subjects_of, ways_of
from broker.core.policy.template import template_of
from broker.core.ssh.model import SshHost, SshOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An operation (or ad hoc method) that could be opened. `gate` is the strictest that a request may meet."""

    service: str
    operation: str
    effect: Effect
    destructive: bool
    gate: ApprovalRule
    method: str
    path: str
    declared: Operation | None
    host: SshHost | None = None
    command: SshOperation | None = None

    def to_json(self) -> dict[str, JsonValue]:
        if self.command is not None:
            return {
                "service": self.service,
                "operation": self.operation,
                "effect": self.effect.value,
                "destructive": self.destructive,
                "gate": self.gate.value,
                "command": list(self.command.command),
                "parameters": list(self.command.required),
            }
        return {
            "service": self.service,
            "operation": self.operation,
            "effect": self.effect.value,
            "destructive": self.destructive,
            "gate": self.gate.value,
            "method": self.method,
            "path": self.path,
            "parameters": None if self.declared is None else _parameters(self.declared),
            "completeness_declared": self.declared is not None and self.declared.complete_when is not None,
            "mcp": _as_tool(self.declared),
        }


def could_open(policy: Policy, agent_name: str) -> tuple[Opening, ...]:
    """Everything that a rule could open to the agent, by service and name."""
    openings: list[Opening] = []
    for service in sorted(policy.services.values(), key=lambda service: service.name):
        for subject in subjects_of(service):
            gate = _strictest_gate(policy, agent_name, subject)
            if gate is not None:
                openings.append(_opening(subject, gate))
    return tuple(openings)


def relevant(policy: Policy, agent: str, subject: Subject) -> Policy:
    """The policy with the rules alone that may speak about the subject."""
    facts = subject.facts(agent, ())
    return Policy(
        digest=policy.digest,
        rules=tuple(rule for rule in policy.rules if may_match(rule, facts)),
        services=policy.services,
        agents=policy.agents,
        limits=policy.limits,
    )


def _strictest_gate(policy: Policy, agent: str, subject: Subject) -> ApprovalRule | None:
    """The strictest gate short of a denial; None where every way is denied."""
    near = relevant(policy, agent, subject)
    gates: list[ApprovalRule] = []
    for way in ways_of(subject, near.rules).ways:
        decision = decide(near, subject.facts(agent, way), subject.service, is_open=True)
        if isinstance(decision, Allow):
            gates.append(ApprovalRule.NONE)
        elif isinstance(decision, Ask):
            gates.append(decision.rule.approval)
    return max(gates, key=STRICTNESS.__getitem__, default=None)


def _opening(subject: Subject, gate: ApprovalRule) -> Opening:
    return Opening(
        service=subject.service.name,
        operation=subject.name,
        effect=subject.effect,
        destructive=subject.destructive,
        gate=gate,
        method=subject.method,
        path=subject.path,
        declared=subject.declared,
        host=subject.host,
        command=subject.command,
    )


def _as_tool(operation: Operation | None) -> JsonValue:
    """How it shows itself to models; null where it does not."""
    if operation is None or operation.mcp is None or not operation.mcp.expose:
        return None
    return {"name": operation.mcp.name, "description": operation.mcp.description}


def _parameters(operation: Operation) -> dict[str, JsonValue]:
    path = template_of(operation.path).arguments
    own = operation.idempotency.key_param  # the broker's to give
    return {
        "path": list(path),
        "query": [name for name in operation.query if name != own],
        "body": "object" if operation.body_free else _without(operation.body, own),
        "required": [*path, *operation.required],
    }


def _without(names: tuple[str, ...] | None, own: str | None) -> JsonValue:
    return None if names is None else [name for name in names if name != own]

"""What some rule could open to an agent: the listing behind `doorward services`. Names no rule and no file."""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.contract.reasons import ApprovalRule, Effect
from broker.contract.wire import JsonValue
from broker.core.effects import effect_of, is_destructive
from broker.core.policy.evaluate import STRICTNESS, decide
from broker.core.policy.match import Facts, may_match, meeting_point, pattern_segments
from broker.core.policy.model import Allow, Ask, Operation, Policy, Rule, Service
from broker.core.policy.template import template_of

ANY_PATH = ("**",)


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

    def to_json(self) -> dict[str, JsonValue]:
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
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that can be asked for: a declared operation, or an ad hoc method on any path."""

    service: Service
    name: str
    method: str
    effect: Effect
    destructive: bool
    declared: Operation | None

    @property
    def path(self) -> str:
        return "/**" if self.declared is None else self.declared.path

    @property
    def pattern(self) -> tuple[str, ...]:
        return ANY_PATH if self.declared is None else template_of(self.declared.path).pattern

    def facts(self, agent: str, segments: tuple[str, ...]) -> Facts:
        return Facts(
            agent=agent,
            service=self.service.name,
            operation=self.name,
            effect=self.effect,
            destructive=self.destructive,
            method=self.method,
            host=self.service.host,
            segments=segments,
        )


def could_open(policy: Policy, agent_name: str) -> tuple[Opening, ...]:
    """Everything that a rule could open to the agent, by service and name."""
    openings: list[Opening] = []
    for service in sorted(policy.services.values(), key=lambda service: service.name):
        for subject in subjects_of(service):
            gate = _strictest_gate(policy, agent_name, subject)
            if gate is not None:
                openings.append(_opening(subject, gate))
    return tuple(openings)


def subjects_of(service: Service) -> Iterator[Subject]:
    """The declared operations by name, then the ad hoc methods."""
    for name in sorted(service.operations):
        operation = service.operations[name]
        yield Subject(
            service=service,
            name=name,
            method=operation.method,
            effect=operation.effect,
            destructive=operation.destructive,
            declared=operation,
        )
    for method in service.ad_hoc:
        yield Subject(
            service=service,
            name=method,
            method=method,
            effect=effect_of(method),
            destructive=is_destructive(method),
            declared=None,
        )


def sample_paths(subject: Subject, rules: tuple[Rule, ...]) -> tuple[tuple[str, ...], ...]:
    """Paths of the subject, one that no pattern names and one for each pattern that it can meet."""
    patterns = [ANY_PATH, *(pattern_segments(path) for rule in rules for path in rule.paths)]
    found = (meeting_point(subject.pattern, pattern) for pattern in patterns)
    return tuple(dict.fromkeys(path for path in found if path is not None))


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
    """The strictest gate short of a denial; None where every path is denied."""
    near = relevant(policy, agent, subject)
    gates: list[ApprovalRule] = []
    for path in sample_paths(subject, near.rules):
        decision = decide(near, subject.facts(agent, path), subject.service, is_open=True)
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
    )


def _parameters(operation: Operation) -> dict[str, JsonValue]:
    path = template_of(operation.path).arguments
    return {
        "path": list(path),
        "query": list(operation.query),
        "body": "object" if operation.body_free else None if operation.body is None else list(operation.body),
        "required": [*path, *operation.required],
    }

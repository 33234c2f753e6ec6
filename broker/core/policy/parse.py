"""From parsed TOML documents to one policy, or to every fault that they hold. Nothing is guessed or half loaded.

Reads values, opens no file: policyfiles/load.py does, and brings the lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from broker.core.policy.faults import Fault
from broker.core.policy.keys import FILE
from broker.core.policy.model import AgentProgram, Policy, Rule, Service
from broker.core.policy.parse_rules import agents_in, check_names, limits_in, limits_of, rules_in
from broker.core.policy.parse_services import services_in
from broker.core.policy.place import Place
from broker.core.policy.table import Document, Faults, Table


@dataclass(slots=True, kw_only=True)
class _Gathered:
    """What the files say, taken together. The first to use a name keeps it, the second is told where."""

    faults: Faults = field(default_factory=Faults)
    rules: list[tuple[Table, Rule]] = field(default_factory=list)
    services: dict[str, Service] = field(default_factory=dict)
    agents: dict[str, AgentProgram] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[str, str], Place] = field(default_factory=dict)

    def taken(self, kind: str, name: str, table: Table, key: str | None = None) -> bool:
        line = table.document.line_of(table.path if key is None else (*table.path, key))
        first = self.places.get((kind, name))
        if first is None:
            self.places[kind, name] = Place(file=table.document.name, line=line)
            return False
        table.fault(key, f'the {kind} "{name}" stands in {first} already', "each name once over all files")
        return True


def parse_policy(
    documents: Sequence[Document], *, assets: Mapping[str, str], digest: str
) -> Policy | tuple[Fault, ...]:
    """The policy of all documents together, or every fault in them. `assets` are CA files by name."""
    gathered = _Gathered()
    for document in documents:
        _gather(gathered, document, assets)
    for table, rule in gathered.rules:
        check_names(table, rule, agents=gathered.agents, services=gathered.services)
    faults = tuple(gathered.faults)
    if faults:
        return faults
    return Policy(
        digest=digest,
        rules=tuple(rule for _, rule in gathered.rules),
        services=MappingProxyType(gathered.services),
        agents=MappingProxyType(gathered.agents),
        limits=limits_of(gathered.limits),
        limit_places=MappingProxyType({name: at for (kind, name), at in gathered.places.items() if kind == "limit"}),
    )


def _gather(gathered: _Gathered, document: Document, assets: Mapping[str, str]) -> None:
    table = Table(document=document, path=(), values=document.values, known=FILE, faults=gathered.faults)
    table.refuse_unknown()
    if table.integer("version", None, low=1, high=1 << 31) not in {0, 1}:
        table.fault("version", "not supported by this version", "1")
    for below, agent in agents_in(table):
        if not gathered.taken("agent", agent.name, below):
            gathered.agents[agent.name] = agent
    for name, (below, service) in services_in(table, assets).items():
        if not gathered.taken("service", name, below):
            gathered.services[name] = service
    for below, rule in rules_in(table):
        if not rule.id or not gathered.taken("rule", rule.id, below, "id"):
            gathered.rules.append((below, rule))
    gathered.limits |= limits_in(table, lambda below, key: gathered.taken("limit", key, below, key))

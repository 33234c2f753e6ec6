"""`policy check`: every fault, and what loads but is unwise, each with its file and line.

A warning is for the human who writes the policy; it changes no decision. Looks at the policy files and, where the
vault is open, at the names and origins of credentials, never at their values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.credential import CredentialError, covers_url, parse_binding
from broker.core.identity import INTERPRETERS, UNIDENTIFIED
from broker.core.policy.evaluate import STRICTNESS
from broker.core.policy.faults import Fault
from broker.core.policy.match import first_mismatch, fits, may_match
from broker.core.policy.model import Policy, Rule
from broker.core.policy.place import Place
from broker.core.policy.subjects import Subject, subjects_of, ways_of
from broker.core.ssh.commands import ONE, REST, tokens_of
from broker.core.ssh.model import HostKeyMode
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import load_policy

SHADOW_STEPS_MAX = 20_000_000  # beyond, nobody waits for the end of it


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """`policy` is None where the files don't load. Faults make the check fail, warnings do not."""

    policy: Policy | None
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()


def check(
    files: Sequence[PolicyFile], bindings: Mapping[str, Sequence[str]] | None, *, today: date | None = None
) -> CheckReport:
    """`bindings` are the origins of each credential in the vault, None where the vault can't be looked into."""
    try:
        policy = load_policy(files)
    except PolicyError as cause:
        return CheckReport(policy=None, faults=cause.faults)
    warnings = [*_rules(policy), *_services(policy), *_first_contacts(policy), *_agents(policy), *_evadable(policy)]
    warnings += _overdue(policy, today or datetime.now(tz=UTC).date())
    if bindings is not None:
        warnings += _credentials(policy, bindings)
    return CheckReport(policy=policy, faults=tuple(sorted(_forgeable(policy))), warnings=tuple(sorted(warnings)))


def verified(files: Sequence[PolicyFile]) -> Policy:
    """The policy of files that may be in force. Raises PolicyError with every fault, those of a check too."""
    policy = load_policy(files)
    faults = tuple(sorted(_forgeable(policy)))
    if faults:
        raise PolicyError("\n".join(map(str, faults)), faults)
    return policy


def _told(place: Place, key: str, problem: str, expected: str = "") -> Fault:
    return Fault(file=place.file, line=place.line, key=key, problem=problem, expected=expected)


def _forgeable(policy: Policy) -> Iterator[Fault]:
    """Nobody is let through unasked on the strength of a word that the process itself chose."""
    for rule in policy.rules:
        named = [agent for name, agent in policy.agents.items() if any(fits(p, name) for p in rule.agents)]
        forgeable = sorted(agent.name for agent in named if agent.argv is not None)
        if rule.approval is ApprovalRule.NONE and forgeable:
            problem = (
                f'approval = "none" rests on the command line of {", ".join(forgeable)}, which any process can forge'
            )
            yield _told(
                rule.place, f"rules.{rule.id}", problem, "session or per_call, or agents known by executable alone"
            )


def _rules(policy: Policy) -> Iterator[Fault]:
    subjects = [subject for service in policy.services.values() for subject in subjects_of(service)]
    affordable = len(policy.rules) ** 2 * (len(policy.agents) + 1) * len(subjects) <= SHADOW_STEPS_MAX
    if not affordable:
        yield _told(policy.rules[0].place, "rules", "it is not looked whether stricter rules leave some without effect")
    for rule in policy.rules:
        mine = [subject for subject in subjects if may_match(_for_anyone(rule), subject.facts("", ()))]
        key = f"rules.{rule.id}"
        if not mine:
            yield _told(rule.place, key, "it matches nothing that the services declare or list in ad_hoc")
        elif affordable and _is_shadowed(policy, rule, mine):
            yield _told(rule.place, key, "it never decides: stricter rules match wherever it does")
        yield from _wildcards(rule, key, mine)
        for pattern in rule.agents:
            if "*" in pattern and not any(fits(pattern, name) for name in (*policy.agents, UNIDENTIFIED)):
                yield _told(rule.place, key, f'no program in [agents] is called "{pattern}"')


def _wildcards(rule: Rule, key: str, subjects: list[Subject]) -> Iterator[Fault]:
    """Changes that a rule opens without naming them. A session grant of SSH covers one command, which was seen."""
    if rule.approval is ApprovalRule.NONE and _opens_writes_by_wildcard(rule, subjects):
        yield _told(rule.place, key, "it lets writes through unasked without naming them", "operations by name")
    over_http = [subject for subject in subjects if subject.host is None]
    if rule.approval is ApprovalRule.SESSION and _opens_writes_by_wildcard(rule, over_http):
        problem = f"one yes lets up to {rule.max_uses} writes through that it does not name"
        yield _told(rule.place, key, problem, "operations by name, or per_call")
    if rule.options and any(set(tokens_of(command)) & {ONE, REST} for command in rule.commands):
        yield _told(rule.place, key, "it lets commands through unasked with any option", "the options that are meant")


def _for_anyone(rule: Rule) -> Rule:
    return Rule(
        id=rule.id,
        approval=rule.approval,
        services=rule.services,
        operations=rule.operations,
        effects=rule.effects,
        destructive=rule.destructive,
        methods=rule.methods,
        hosts=rule.hosts,
        users=rule.users,
        place=rule.place,
    )


def _opens_writes_by_wildcard(rule: Rule, subjects: list[Subject]) -> bool:
    by_name = bool(rule.operations) and not any("*" in pattern for pattern in rule.operations)
    return not by_name and any(subject.effect is not Effect.READ for subject in subjects)


def _is_shadowed(policy: Policy, rule: Rule, subjects: list[Subject]) -> bool:
    """Whether a stricter rule matches at every agent, subject and path at which this one does."""
    stricter = [
        other
        for other in policy.rules
        if STRICTNESS[other.approval] > STRICTNESS[rule.approval] and other.hours in {(), rule.hours}
    ]
    for agent in (*policy.agents, UNIDENTIFIED):
        for subject in subjects:
            explored = ways_of(subject, policy.rules)
            if not explored.whole:
                return False
            for way in explored.ways:
                facts = subject.facts(agent, way)
                if first_mismatch(rule, facts) is None and all(first_mismatch(other, facts) for other in stricter):
                    return False
    return True


def _services(policy: Policy) -> Iterator[Fault]:
    for service in policy.services.values():
        subjects = list(subjects_of(service))
        key = f"services.{service.name}"
        if not subjects:
            yield _told(service.place, key, "nothing can be asked for", "operations, or methods in ad_hoc")
        elif not any(
            may_match(_for_anyone(rule), subject.facts("", ())) for rule in policy.rules for subject in subjects
        ):
            yield _told(service.place, key, "no rule names it, so everything is denied", "a rule")
        if service.scheme == "http" and service.credential is not None:
            yield _told(service.place, f"{key}.base_url", "the credential travels unencrypted on this machine")


def _first_contacts(policy: Policy) -> Iterator[Fault]:
    """Whoever lets a first contact through unasked lets nothing through: somebody has to see the key."""
    for service in policy.services.values():
        for host in {} if service.ssh is None else service.ssh.hosts.values():
            key = f"services.{service.name}.hosts.{host.name}"
            if host.trust.mode is HostKeyMode.ACCEPT_NEW and host.trust.known_hosts:
                yield _told(service.place, key, "accept-new beside a known_hosts file takes a key that is not in it")


def _overdue(policy: Policy, today: date) -> Iterator[Fault]:
    """A warning that nobody has looked at again is on its way to being one that nobody reads."""
    for service in policy.services.values():
        for name, operation in service.operations.items():
            for warning in operation.warnings:
                if warning.review_by is not None and warning.review_by < today:
                    owner = "" if warning.owner is None else f" by {warning.owner}"
                    key = f"services.{service.name}.operations.{name}.warnings"
                    problem = f"{warning.code.value} was to be looked at again{owner} until {warning.review_by}"
                    yield _told(warning.place, key, problem, "another date, a rule in its place, or none")


def _agents(policy: Policy) -> Iterator[Fault]:
    for agent in policy.agents.values():
        place = agent.place or Place(file="", line=0)
        interpreters = (f"/usr/bin/{name}" for name in (*INTERPRETERS, "python3"))
        if agent.argv is None and any(fnmatchcase(path, agent.exe) for path in interpreters):
            problem = "it names every program that this interpreter runs"
            yield _told(place, f"agents.{agent.name}", problem, "argv as well, or another executable")
        if agent.exe.startswith("*") and agent.sha256 is None and _goes_unasked(policy, agent.name):
            problem = 'rules with approval = "none" trust it, and any file may bear such a path'
            yield _told(place, f"agents.{agent.name}", problem, "an absolute path, or sha256")


def _evadable(policy: Policy) -> Iterator[Fault]:
    """A denial that rests on a command line is left by another command line."""
    for rule in policy.rules:
        named = sorted(
            agent.name
            for name, agent in policy.agents.items()
            if agent.argv is not None and any(fits(pattern, name) for pattern in rule.agents)
        )
        if rule.approval is ApprovalRule.DENY and named and "*" not in rule.agents:
            problem = f"{', '.join(named)} can escape it by another command line"
            yield _told(rule.place, f"rules.{rule.id}", problem, "unidentified among its agents, or no agents")


def _goes_unasked(policy: Policy, agent: str) -> bool:
    return any(
        rule.approval is ApprovalRule.NONE and any(fits(pattern, agent) for pattern in rule.agents)
        for rule in policy.rules
    )


def _credentials(policy: Policy, bindings: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
    for service in policy.services.values():
        name = service.credential
        key = f"services.{service.name}.credential"
        if name is None:
            continue
        if name not in bindings:
            command = f"doorward credential add {name} --origin {' --origin '.join(service.places)}"
            yield _told(service.place, key, "the vault holds no such credential", command)
            continue
        for place in service.places:
            if not any(_covers(origin, place) for origin in bindings[name]):
                command = f"doorward credential rebind {name} --origin {place}"
                yield _told(
                    service.place,
                    key,
                    f"its bindings don't cover {'base_url' if service.ssh is None else place}",
                    command,
                )


def _covers(origin: str, place: str) -> bool:
    try:
        return covers_url(parse_binding(origin), place)
    except CredentialError:
        return False

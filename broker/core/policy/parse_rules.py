"""Rules, named agents and limits, from tables to values. Every fault is kept; see table.py."""

from collections.abc import Callable, Iterator

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.effects import METHODS
from broker.core.identity import UNIDENTIFIED
from broker.core.policy.hours import SHAPE, Window, WindowError, window_of
from broker.core.policy.keys import AGENT, LIMITS, RULE
from broker.core.policy.match import command_of, fits
from broker.core.policy.model import AgentProgram, Limits, Rule, Service
from broker.core.policy.parse_evidence import check_reads, evidence_of, precheck_of
from broker.core.policy.table import Table
from broker.core.ssh.commands import ONE, REST, fault_of_pattern, tokens_of

NAME = r"[a-z0-9][a-z0-9_-]{0,63}"
NAME_SHAPE = "lower-case letters, digits, hyphens and underscores, at most 64"
SCOPES = ("rule", "service", "operation")
_GLOB = r"[A-Za-z0-9_.*-]{1,128}"
_GLOB_SHAPE = "a name, in which * stands for any run of characters"
_PATH = r"(?:/(?:\*\*?|[^/*%?#\\{}\x00-\x20\x7f-\x9f]+(?: [^/*%?#\\{}\x00-\x20\x7f-\x9f]+)*))+|/"
_PATH_SHAPE = "a path below base_url as it reads decoded; a segment is a literal, * (one segment) or ** (any number)"

_COMMAND_SHAPE = "words; * is one word, a last ** any number; with shell syntax only beside shell = true"

_LIMIT_RANGES = {
    "prompts_per_minute": (1, 600),
    "pending_cards": (1, 1000),
    "requests_per_minute": (1, 1_000_000),
    "max_uses": (1, 100_000),
    "max_age_s": (1, 604_800),
    "body_bytes": (1024, 262_144),
    "denial_memory_s": (0, 86_400),
    "idle_lock_s": (60, 2_592_000),
}


def rule_of(table: Table) -> Rule:
    """One [[rules]] entry. Names of agents, services and operations are checked later: see check_names."""
    approval = table.member("approval", ApprovalRule)
    return Rule(
        id=table.text("id", pattern=r"[a-z0-9][a-z0-9._-]{0,63}", expected=f"{NAME_SHAPE}, and dots"),
        approval=approval,
        reason=table.text("reason", ""),
        agents=table.texts("agents", pattern=_GLOB, expected=_GLOB_SHAPE),
        services=table.texts("services", pattern=_GLOB, expected=_GLOB_SHAPE),
        operations=table.texts("operations", pattern=_GLOB, expected=_GLOB_SHAPE),
        effects=table.members("effects", Effect),
        destructive=table.optional_flag("destructive"),
        methods=table.texts("methods", pattern="|".join(METHODS), expected=" or ".join(METHODS)),
        paths=_paths(table),
        hosts=table.texts("hosts", pattern=r"[a-z0-9.:*_-]{1,253}", expected="a lower-case host name, * for any run"),
        users=table.texts("users", pattern=r"[A-Za-z0-9_.+*-]{1,64}", expected="a user name, * for any run"),
        commands=_commands(table),
        hours=_hours(table),
        shell=table.flag("shell", default=False),
        input=_only_unasked(table, "input", approval),
        options=_only_unasked(table, "options", approval),
        max_uses=table.integer("max_uses", 200, low=1, high=100_000),
        max_age_s=table.integer("max_age_s", 3600, low=1, high=604_800),
        per=table.choice("per", SCOPES, "rule"),
        expires_s=table.integer("expires_s", 120, low=5, high=3600),
        arming_ms=table.milliseconds("arming_s", 1500, low_ms=1500, high_ms=60_000),
        in_doubt=table.choice("in_doubt", ("refuse", "ask"), "refuse"),
        evidence=evidence_of(table),
        precheck=precheck_of(table),
        place=table.place,
    )


def _commands(table: Table) -> tuple[str, ...]:
    shell = table.flag("shell", default=False)
    if shell and "commands" not in table:
        table.fault("shell", "means nothing without commands", "commands")
    shape = r"(?s)[^\x00]{1,24576}" if shell else r"[^\x00-\x1f\x7f]{1,4096}"
    commands = table.texts("commands", pattern=shape, expected=_COMMAND_SHAPE)
    for command in commands:
        problem = _fault_of(command, shell=shell)
        if problem is not None:
            table.fault_in("commands", command, problem, _COMMAND_SHAPE)
    return commands


def _hours(table: Table) -> tuple[Window, ...]:
    windows: list[Window] = []
    for text in table.texts("hours"):
        try:
            windows.append(window_of(text))
        except WindowError as cause:
            table.fault_in("hours", text, str(cause), SHAPE)
    return tuple(windows)


def _only_unasked(table: Table, key: str, approval: ApprovalRule) -> bool:
    """Whoever is asked is shown the input, and the options."""
    if key in table and (approval is not ApprovalRule.NONE or "commands" not in table):
        table.fault(key, "means nothing but for commands that nobody is asked about", 'approval = "none", commands')
    return table.flag(key, default=False)


def _fault_of(command: str, *, shell: bool) -> str | None:
    if shell and command_of(command.encode("utf-8", "surrogatepass")).words is None:
        return None
    problem = fault_of_pattern(command)
    odd = [
        token
        for token in tokens_of(command)
        if token not in {ONE, REST} and command_of(token.encode()).words != (token,)
    ]
    return "shell syntax fits nothing without shell = true" if problem is None and odd else problem


def _paths(table: Table) -> tuple[str, ...]:
    paths = table.texts("paths", pattern=_PATH, expected=_PATH_SHAPE)
    for path in paths:
        if {".", ".."} & set(path.split("/")):
            table.fault_in("paths", path, "a dot segment never reaches a service", _PATH_SHAPE)
    return paths


def check_names(table: Table, rule: Rule, *, agents: dict[str, AgentProgram], services: dict[str, Service]) -> None:
    """A name without a star has to name something: a rule that can never match is a slip, and a denial most of all."""
    _check(table, "agents", rule.agents, {*agents, UNIDENTIFIED}, "a program named in [agents]")
    _check(table, "services", rule.services, set(services), "a service of the policy")
    reach = [
        service for name, service in services.items() if not rule.services or any(fits(p, name) for p in rule.services)
    ]
    local = {service.name: _askable(service) for service in reach}
    known = {name for names in local.values() for name in names}
    known |= {f"{service}.{name}" for service, names in local.items() for name in names}
    _check(table, "operations", rule.operations, known, "an operation (or ad hoc method) of the rule's services")
    check_reads(table, rule, reach)


def _askable(service: Service) -> tuple[str, ...]:
    if service.ssh is not None:
        return (*service.ssh.operations, *service.ssh.ad_hoc)
    return (*service.operations, *service.ad_hoc)


def _check(table: Table, key: str, patterns: tuple[str, ...], known: set[str], expected: str) -> None:
    for pattern in patterns:
        if "*" not in pattern and pattern not in known:
            table.fault_in(key, pattern, f'there is no "{pattern}"', expected)


def agent_of(name: str, table: Table) -> AgentProgram:
    """One program of [agents]."""
    wanted = "an absolute path, or a pattern that begins with *"
    if name == UNIDENTIFIED:
        table.fault(None, "this is what programs are called that no entry names", "another name")
    return AgentProgram(
        name=name,
        exe=table.text("exe", pattern=r"[/*][^\x00-\x1f\x7f\[\]?]{1,1023}", expected=wanted),
        argv=table.optional_text(
            "argv", pattern=r"[^\x00-\x1f\x7f\[\]?]{1,1024}", expected="a pattern with *, no ? or ["
        ),
        sha256=table.optional_text("sha256", pattern="[0-9a-f]{64}", expected="64 lower-case hexadecimal digits"),
        place=table.place,
    )


def agents_in(table: Table) -> Iterator[tuple[Table, AgentProgram]]:
    for name, below in table.named("agents", AGENT, names=NAME, expected=NAME_SHAPE).items():
        yield below, agent_of(name, below)


def rules_in(table: Table) -> Iterator[tuple[Table, Rule]]:
    for below in table.tables("rules", RULE):
        yield below, rule_of(below)


def limits_in(table: Table, taken: Callable[[Table, str], bool]) -> dict[str, int]:
    """The limits that a file sets. `taken` reports a key that another file has set, and keeps the first."""
    below = table.table("limits", LIMITS)
    if below is None:
        return {}
    ranges = {key: bounds for key, bounds in _LIMIT_RANGES.items() if key in below and not taken(below, key)}
    return {key: below.integer(key, low, low=low, high=high) for key, (low, high) in ranges.items()}


def limits_of(found: dict[str, int]) -> Limits:
    return Limits(**found)

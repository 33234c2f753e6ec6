"""Whether a rule speaks about a request: matchers are ANDed, the members of a matcher ORed, a missing one matches all.

Facts come from the kernel and the frozen request alone. Decides nothing: see evaluate.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.channels import Frozen
from broker.core.frozen import FrozenRequest
from broker.core.policy.model import Rule
from broker.core.ssh.commands import Command, command_fits
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, Put
from broker.core.ssh.paths import remote_segments
from broker.core.ssh.shell_words import split
from broker.core.urls import segments_of

GLOBS_MAX = 40_000  # characters of one times those of the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What rules look at. `operation` is the local name, ad hoc the method or the kind of the action.

    `segments` is the path below base_url, or the whole path of a file on a host; None where there is no path.
    """

    agent: str
    service: str
    operation: str
    effect: Effect
    destructive: bool
    method: str  # empty but for HTTP
    host: str
    address: str = ""  # of an SSH host, which rules may name as well
    user: str = ""
    segments: tuple[str, ...] | None
    command: Command | None = None
    is_fed: bool = False  # the command is given input, or a terminal, by which it can be told more than its words say


def facts_of(agent: str, frozen: Frozen) -> Facts:
    return _facts_of_ssh(agent, frozen) if isinstance(frozen, FrozenSsh) else _facts_of_http(agent, frozen)


def _facts_of_ssh(agent: str, frozen: FrozenSsh) -> Facts:
    action = frozen.action
    return Facts(
        agent=agent,
        service=frozen.service.name,
        operation=frozen.operation.removeprefix(f"{frozen.service.name}."),
        effect=Effect.READ if frozen.is_look_up else frozen.effect,
        destructive=frozen.destructive,
        method="",
        host=frozen.host.name,
        address=frozen.host.address,
        user=frozen.host.user,
        segments=remote_segments(action.path) if isinstance(action, Put | Get) else None,
        command=command_of(action.command, action.argv) if isinstance(action, Exec) else None,
        is_fed=isinstance(action, Exec) and (action.pty or action.stdin != b""),
    )


def command_of(command: bytes, argv: tuple[str, ...] | None = None) -> Command:
    """`argv` are the words where they were given as such: the command is what they were quoted to."""
    text = command.decode("utf-8", "surrogateescape")
    return Command(text=text, words=split(command) if argv is None else argv)


def _facts_of_http(agent: str, frozen: FrozenRequest) -> Facts:
    below = frozen.path.removeprefix(frozen.service.base_path)
    return Facts(
        agent=agent,
        service=frozen.service.name,
        operation=frozen.operation.removeprefix(f"{frozen.service.name}."),
        effect=frozen.effect,
        destructive=frozen.destructive,
        method=frozen.method,
        host=frozen.host,
        segments=segments_of(below),
    )


def first_mismatch(rule: Rule, facts: Facts) -> str | None:
    """The first matcher of the rule that the request fails, None where the rule matches."""
    for matcher, matches in MATCHERS:
        if not matches(rule, facts):
            return matcher
    return None


def may_match(rule: Rule, facts: Facts) -> bool:
    """Whether the rule matches on everything but the path and the command."""
    return all(matches(rule, facts) for matcher, matches in MATCHERS if matcher not in {"paths", "commands"})


def fits(pattern: str, text: str) -> bool:
    """`*` stands for any run of characters; parsing admits no other special character."""
    return pattern == text or ("*" in pattern and fnmatchcase(text, pattern))


def globs_meet(one: str, other: str) -> bool:
    """Whether some text fits both patterns. Said of any two that are too long to tell."""
    if len(one) * len(other) > GLOBS_MAX:
        return True
    below = [all(mark == "*" for mark in other[at:]) for at in range(len(other) + 1)]
    for mark in reversed(one):
        row = [False] * len(other) + [mark == "*" and below[-1]]
        for at in range(len(other) - 1, -1, -1):
            if mark == "*" or other[at] == "*":
                row[at] = (below[at] or row[at + 1]) if mark == "*" else (row[at + 1] or below[at])
            else:
                row[at] = mark == other[at] and below[at + 1]
        below = row
    return below[0]


@lru_cache(maxsize=4096)
def pattern_segments(pattern: str) -> tuple[str, ...]:
    return tuple(part for part in pattern.split("/") if part)


def path_fits(pattern: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    """`*` is one segment, `**` any number. Linear but for the last `**`, which is tried from left to right."""
    at = seen = 0
    resume_pattern, resume_segment = -1, 0
    while seen < len(segments):
        if at < len(pattern) and pattern[at] == "**":
            resume_pattern, resume_segment = at, seen
            at += 1
        elif at < len(pattern) and pattern[at] in {"*", segments[seen]}:
            at += 1
            seen += 1
        elif resume_pattern >= 0:
            resume_segment += 1
            at, seen = resume_pattern + 1, resume_segment
        else:
            return False
    return all(part == "**" for part in pattern[at:])


def _any_fits(patterns: tuple[str, ...], text: str) -> bool:
    if not patterns or text in patterns:
        return True
    for pattern in patterns:  # noqa: SIM110 - a generator costs more than the comparison, for every rule and request
        if fits(pattern, text):
            return True
    return False


def _operation(rule: Rule, facts: Facts) -> bool:
    if _any_fits(rule.operations, facts.operation):
        return True
    return _any_fits(rule.operations, f"{facts.service}.{facts.operation}")


def _effect(rule: Rule, facts: Facts) -> bool:
    """`exec` counts as a write everywhere."""
    counts_as_write = facts.effect is Effect.EXEC and Effect.WRITE in rule.effects
    return not rule.effects or facts.effect in rule.effects or counts_as_write


def _path(rule: Rule, facts: Facts) -> bool:
    """What restrains is compared without regard to case: many an upstream takes /Admin for /admin."""
    if not rule.paths:
        return True
    if facts.segments is None:
        return False
    if folds_case(rule):
        folded = tuple(segment.casefold() for segment in facts.segments)
        return any(path_fits(pattern_segments(pattern.casefold()), folded) for pattern in rule.paths)
    return any(path_fits(pattern_segments(pattern), facts.segments) for pattern in rule.paths)


def folds_case(rule: Rule) -> bool:
    """Whether its paths are compared without regard to case."""
    return rule.approval in {ApprovalRule.DENY, ApprovalRule.PER_CALL}


def _command(rule: Rule, facts: Facts) -> bool:
    if not rule.commands:
        return True
    if facts.is_fed and rule.approval is ApprovalRule.NONE and not rule.input:
        return False
    command = facts.command
    return command is not None and any(
        command_fits(one, command, shell=rule.shell, options=rule.takes_options) for one in rule.commands
    )


MATCHERS: tuple[tuple[str, Callable[[Rule, Facts], bool]], ...] = (
    ("agents", lambda rule, facts: _any_fits(rule.agents, facts.agent)),
    ("services", lambda rule, facts: _any_fits(rule.services, facts.service)),
    ("operations", _operation),
    ("effects", _effect),
    ("destructive", lambda rule, facts: rule.destructive is None or rule.destructive == facts.destructive),
    ("methods", lambda rule, facts: not rule.methods or facts.method in rule.methods),
    ("paths", _path),
    ("hosts", lambda rule, facts: _any_fits(rule.hosts, facts.host) or _any_fits(rule.hosts, facts.address)),
    ("users", lambda rule, facts: _any_fits(rule.users, facts.user)),
    ("commands", _command),
)

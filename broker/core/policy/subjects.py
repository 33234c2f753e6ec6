"""What can be asked for under a policy, each with the facts of requests that rules may tell apart.

A way is what rules look at besides names: the segments of a path, or the words of a command. A command with shell
syntax is a way of its own, for rules take it to the letter.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from broker.contract.reasons import Effect
from broker.core.effects import effect_of, is_destructive
from broker.core.policy.match import Facts, command_of, folds_case, pattern_segments
from broker.core.policy.model import Operation, Rule, Service
from broker.core.policy.template import template_of
from broker.core.policy.ways import FRESH, Explored, Shape, explored
from broker.core.ssh.commands import Command, tokens_of
from broker.core.ssh.model import SshHost, SshOperation, SshSettings
from broker.core.ssh.operation import pattern_of

Way: TypeAlias = tuple[str, ...]
ANY_PATH = ("**",)
SHELL = "\1"  # the first word of a way that is a whole command with shell syntax
FED = "\2"  # the first word of a way that is a command with input; what follows is the command's own way
_EFFECTS = {"exec": Effect.EXEC, "put": Effect.WRITE, "get": Effect.READ}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Something that can be asked for: a declared operation, an ad hoc method, or an action on one host."""

    service: Service
    name: str
    method: str
    effect: Effect
    destructive: bool
    declared: Operation | None
    host: SshHost | None = None
    command: SshOperation | None = None

    @property
    def label(self) -> str:
        """Its name, with the host where there is one."""
        return self.name if self.host is None else f"{self.name} on {self.host.name}"

    @property
    def path(self) -> str:
        return "/**" if self.declared is None else self.declared.path

    @property
    def runs(self) -> bool:
        """Whether its ways are commands."""
        return self.host is not None and self.name not in {"put", "get"}

    @property
    def pattern(self) -> Way:
        if self.command is not None:
            return pattern_of(self.command)
        return ANY_PATH if self.declared is None else template_of(self.declared.path).pattern

    def facts(self, agent: str, way: Way) -> Facts:
        return Facts(
            agent=agent,
            service=self.service.name,
            operation=self.name,
            effect=self.effect,
            destructive=self.destructive,
            method=self.method,
            host=self.service.host if self.host is None else self.host.name,
            address="" if self.host is None else self.host.address,
            user="" if self.host is None else self.host.user,
            segments=None if self.runs else way,
            command=_command(_unfed(way)) if self.runs else None,
            is_fed=self.runs and way[:1] == (FED,),
        )


def subjects_of(service: Service) -> Iterator[Subject]:
    """The declared operations by name, then what may be asked for without one."""
    yield from _of_http(service) if service.ssh is None else _of_ssh(service, service.ssh)


def ways_of(subject: Subject, rules: Iterable[Rule]) -> Explored:
    """Ways of the subject, the first as little named as can be, and one for each set of patterns that meet in one."""
    shapes: set[Shape] = set()
    shell: list[Way] = []
    is_fed = False
    for rule in rules:
        is_fed = is_fed or rule.input
        for command in rule.commands if subject.runs else ():
            if rule.shell and command_of(command.encode("utf-8", "surrogateescape")).words is None:
                shell += [(SHELL, command)] if subject.command is None else []
            else:
                shapes.add(Shape(tokens=tokens_of(command), options=rule.takes_options))
        shapes |= set() if subject.runs else {_path_shape(rule, path) for path in rule.paths}
    if subject.runs and subject.command is None:
        shell.append((SHELL, FRESH))
    found = explored(Shape(tokens=subject.pattern, options=subject.command is None), frozenset(shapes))
    ways = [*found.ways, *shell]
    fed = [(FED, *way) for way in ways] if subject.runs and is_fed else []
    return Explored(ways=tuple(dict.fromkeys([*ways, *fed])), whole=found.whole)


def _path_shape(rule: Rule, path: str) -> Shape:
    if folds_case(rule):
        return Shape(tokens=pattern_segments(path.casefold()), folded=True)
    return Shape(tokens=pattern_segments(path))


def shown(subject: Subject, way: Way) -> str:
    """A way as it is spelled, `*` for what no rule names."""
    if way[:1] == (FED,):
        return f"{shown(subject, way[1:])}, with input"
    words = [part.replace(FRESH, "*") for part in way]
    if not subject.runs:
        return "/" + "/".join(words)
    return f"the shell text {words[1]}" if way[:1] == (SHELL,) else " ".join(words)


def _unfed(way: Way) -> Way:
    return way[1:] if way[:1] == (FED,) else way


def _command(way: Way) -> Command:
    return Command(text=way[1], words=None) if way[:1] == (SHELL,) else Command(text=" ".join(way), words=way)


def _of_http(service: Service) -> Iterator[Subject]:
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


def _of_ssh(service: Service, settings: SshSettings) -> Iterator[Subject]:
    hosts = [settings.hosts[name] for name in sorted(settings.hosts)]
    for name in sorted(settings.operations):
        operation = settings.operations[name]
        for host in hosts:
            if not operation.hosts or host.name in operation.hosts:
                yield Subject(
                    service=service,
                    name=name,
                    method="",
                    effect=operation.effect,
                    destructive=operation.destructive,
                    declared=None,
                    host=host,
                    command=operation,
                )
    for action in settings.ad_hoc:
        for host in hosts:
            yield Subject(
                service=service,
                name=action,
                method="",
                effect=_EFFECTS[action],
                destructive=False,
                declared=None,
                host=host,
            )

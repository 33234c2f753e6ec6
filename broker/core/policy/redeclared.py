"""Changes of what a policy declares beside its rules: where services lead, how they are read, names and limits.

What can't be ordered is called a loosening, so that none is missed.
"""

from collections.abc import Iterator, Mapping

from broker.core.policy.changes import LOOSENS, NEW_REACH, TIGHTENS, Change
from broker.core.policy.match import globs_meet
from broker.core.policy.model import AgentProgram, Operation, Policy, Service
from broker.core.policy.place import Place
from broker.core.ssh.model import SshOperation

_LEADS = {True: "base URL", False: "host"}


def redeclared(old: Policy, new: Policy) -> Iterator[Change]:
    """All of them but the limits."""
    yield from _reach(old, new)
    yield from _readings(old, new)
    yield from _agents(old, new)


def _reach(old: Policy, new: Policy) -> Iterator[Change]:
    """Services that use a credential, or lead to a place, that they did not before."""
    for name, service in sorted(new.services.items()):
        was = old.services.get(name)
        for word, before, after in (
            ("credential", was and was.credential, service.credential),
            *((_LEADS[service.ssh is None], _place_before(was, place), place) for place in service.places),
        ):
            if after is not None and after != before:
                yield Change(
                    direction=NEW_REACH,
                    subject=f"service {name}",
                    was=f"{word} {before}" if before else f"no {word}",
                    becomes=f"{word} {after}",
                    place=service.place,
                    was_place=None if was is None else was.place,
                )


def _place_before(was: Service | None, place: str) -> str | None:
    """The place itself where the service led there before; of an HTTP service the one that it led to."""
    if was is None or place in was.places:
        return place if was is not None else None
    return was.base_url if was.ssh is None else None


def _readings(old: Policy, new: Policy) -> Iterator[Change]:
    """Services and operations that are asked for or read in another way than before."""
    for name in sorted(set(old.services) & set(new.services)):
        was, service = old.services[name], new.services[name]
        if (was.tls, dict(was.headers)) != (service.tls, dict(service.headers)):
            what = "trust in its certificates or fixed headers"
            yield _reading_change(f"service {name}", what, service.place, was.place)
        if _trust(was) != _trust(service):
            what = "what it takes as its hosts' keys, or leaves there"
            yield _reading_change(f"service {name}", what, service.place, was.place)
        before, after = _operations(was), _operations(service)
        for key in sorted(set(before) & set(after)):
            if _meaning(before[key], service) != _meaning(after[key], service):
                subject = f"operation {name} {key}"
                what = "its request or the reading of its answers"
                yield _reading_change(subject, what, after[key].place, before[key].place)


def _operations(service: Service) -> Mapping[str, Operation | SshOperation]:
    return service.operations if service.ssh is None else service.ssh.operations


def _trust(service: Service) -> dict[str, object]:
    hosts = {} if service.ssh is None else service.ssh.hosts
    return {name: (host.trust, host.jump, host.marker) for name, host in hosts.items()}


def _reading_change(subject: str, what: str, place: Place, was_place: Place) -> Change:
    was = f"{what} as trusted"
    return Change(direction=LOOSENS, subject=subject, was=was, becomes="changed", place=place, was_place=was_place)


def _meaning(operation: Operation | SshOperation, service: Service) -> dict[str, object]:
    """All of an operation but where it stands."""
    fields: Mapping[str, object] = {name: getattr(operation, name) for name in operation.__dataclass_fields__}
    return {**fields, "place": service.name}


def _agents(old: Policy, new: Policy) -> Iterator[Change]:
    for name in sorted(set(old.agents) & set(new.agents)):
        was, agent = old.agents[name], new.agents[name]
        if (was.exe, was.argv, was.sha256) != (agent.exe, agent.argv, agent.sha256):
            yield _renamed(name, "the programs that it names as trusted", "changed", agent.place, was.place)
    for name in sorted(set(new.agents) - set(old.agents)):
        taken = _taken(new.agents[name], old.agents)
        if taken:
            yield _renamed(name, "no name", f"names what was called {taken}", new.agents[name].place, None)
    for name in sorted(set(old.agents) - set(new.agents)):
        left = _taken(old.agents[name], new.agents)
        if left:
            yield _renamed(name, f"named what is now called {left}", "no name", None, old.agents[name].place)


def _taken(entry: AgentProgram, others: Mapping[str, AgentProgram]) -> str:
    return ", ".join(name for name in sorted(others) if _goes_before(entry, others[name]))


def _renamed(name: str, was: str, becomes: str, place: Place | None, was_place: Place | None) -> Change:
    return Change(
        direction=LOOSENS,
        subject=f"agent {name}",
        was=was,
        becomes=becomes,
        place=place or was_place,
        was_place=was_place,
        is_gone=place is None,
    )


def _goes_before(entry: AgentProgram, other: AgentProgram) -> bool:
    """Whether a program that the other entry names may go by this one: the first name that fits is taken."""
    apart = entry.sha256 is not None and other.sha256 is not None and entry.sha256 != other.sha256
    return entry.name < other.name and not apart and globs_meet(entry.exe, other.exe)


def limits_changed(old: Policy, new: Policy) -> Iterator[Change]:
    for name in old.limits.__dataclass_fields__:
        was, becomes = getattr(old.limits, name), getattr(new.limits, name)
        if was != becomes:
            looser = (becomes < was) if name == "denial_memory_s" else (becomes > was)
            yield Change(
                direction=LOOSENS if looser else TIGHTENS,
                subject=f"limit {name}",
                was=str(was),
                becomes=str(becomes),
                place=new.limit_places.get(name) or old.limit_places.get(name),
                was_place=old.limit_places.get(name),
                is_gone=name not in new.limit_places,
            )

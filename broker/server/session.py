"""One live session, and how it is told: to the pipeline, to a human's list and to its own agent.

Decides nothing: sessions.py alone makes, changes and ends them.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from broker.contract.wire import JsonObject, JsonValue
from broker.core.grants import Grant
from broker.core.identity import UNIDENTIFIED, Anchor, Caller, ProcessFacts, Span, may_anchor, named_by, naming
from broker.core.policy.model import AgentProgram
from broker.ports import SessionView
from broker.server.cgroups import Cgroup
from broker.server.mutes import Mute

ProcessKey: TypeAlias = tuple[int, int, int]
WIDE = frozenset({Span.TREE, Span.CONTAINER})


class Ended(StrEnum):
    EXITED = "exited"
    REVOKED = "revoked"
    LOCKED = "locked"
    FROZEN = "frozen"
    STOPPED = "stopped"
    WIDENED = "widened"  # it spans more from now on than a human was shown


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """One live session; the registry alone changes it."""

    id: str
    caller: Caller  # who asked last: the same anchor, whatever it executes by now
    pidfd: int
    opened_at_ms: int
    label: str | None = None
    calls: int = 0
    denied: int = 0
    last_denied_at_ms: int | None = None
    mute: Mute | None = None
    cgroup: Cgroup | None = None  # of its tree, where `doorward run` could make one
    grants: dict[str, Grant] = field(default_factory=dict)

    @property
    def anchor(self) -> Anchor:
        return self.caller.anchor

    @property
    def span(self) -> Span:
        return self.caller.span

    @property
    def program(self) -> Hashable:
        """Whichever processes run the same program for the same user, or the container."""
        return self.caller.budget

    @property
    def muted_by(self) -> tuple[Hashable, ...]:
        """What is muted with it: its program, and all of its user that go by its name, or by none as it does."""
        caller = self.caller
        if caller.span is Span.CONTAINER:
            return (caller.budget,)
        return (caller.budget, ("agent", caller.program.uid, caller.agent))

    @property
    def place(self) -> tuple[ProcessKey, bool]:
        """Where it hangs: on which process, and whether on more than that."""
        anchor = self.anchor
        return (anchor.pid, anchor.start_ticks, anchor.inode), self.span in WIDE


def place_of(caller: Caller) -> tuple[ProcessKey, bool]:
    """Where a session of this caller hangs."""
    return caller.anchor_process.key, caller.span in WIDE


def view(session: Session) -> SessionView:
    return SessionView(
        id=session.id,
        agent=session.caller.agent,
        span=session.span.value,
        anchor_pid=session.anchor.pid,
        opened_at_ms=session.opened_at_ms,
        calls=session.calls,
        denied=session.denied,
        label=session.label,
        muted=session.mute is not None,
    )


def row(session: Session, agents: Mapping[str, AgentProgram]) -> dict[str, JsonValue]:
    """What a human's list shows of it; what it does and what waits for a human is added by who knows."""
    caller, mute = session.caller, session.mute
    named = None if caller.span is Span.CONTAINER else named_by(agents, caller.program)
    by_digest = named is not None and agents[named].sha256 is not None
    return {
        "id": session.id,
        "agent": caller.agent,
        "identified": caller.agent != UNIDENTIFIED,
        "named_by": "listener" if caller.span is Span.CONTAINER else None if named is None else "agents",
        "digest_ok": True if by_digest else None,
        "interpreter": caller.interpreter,
        "span": session.span.value,
        "pid": session.anchor.pid,
        "exe": caller.program.exe,
        "cwd": caller.program.cwd,
        "chain": [_link(process) for process in _from_anchor(caller)],
        "container": caller.container,
        "label": session.label,
        "opened_at_ms": session.opened_at_ms,
        "calls": session.calls,
        "denied": session.denied,
        "last_denied_at_ms": session.last_denied_at_ms,
        "muted": mute is not None,
        "muted_why": None if mute is None else mute.why,
        "muted_at_ms": None if mute is None else mute.at_ms,
        "grants": len(session.grants),
        "cgroup": session.cgroup is not None,
        "naming": naming(caller),
    }


def grant_row(session: Session, grant: Grant) -> JsonObject:
    return {
        "id": grant.id,
        "session_id": session.id,
        "agent": session.caller.agent,
        "rule": grant.rule,
        "per": grant.per,
        "scope": grant.scope,
        "effect": grant.effect,
        "used": grant.used,
        "max_uses": grant.max_uses,
        "made_at_ms": grant.made_at_ms,
        "expires_at_ms": grant.expires_at_ms,
    }


def _from_anchor(caller: Caller) -> tuple[ProcessFacts, ...]:
    chain = caller.peer.chain
    at = next((depth for depth, process in enumerate(chain) if process.key == caller.anchor_process.key), 0)
    return chain[at:]


def _link(process: ProcessFacts) -> JsonObject:
    return {"pid": process.pid, "name": process.name, "never": not may_anchor(process)}

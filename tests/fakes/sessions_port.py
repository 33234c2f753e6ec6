"""Sessions and grants in memory, with processes that a test lets exit or exec."""

from dataclasses import dataclass, field

from broker.core import grants
from broker.core.channels import Frozen
from broker.core.grants import Circumstances, Grant
from broker.core.identity import Caller
from broker.core.policy.model import Ask
from broker.core.refusals import Refusal, session_ended
from broker.ports import Clock, PolicySource, SessionView


@dataclass(slots=True, kw_only=True)
class Held:
    id: str
    caller: Caller
    opened_at_ms: int
    calls: int = 0
    denied: int = 0
    echoed: int = 0
    muted: bool = False
    grants: dict[str, Grant] = field(default_factory=dict)


class MemorySessions:
    """Implements ports.Sessions."""

    def __init__(self, *, policies: PolicySource, clock: Clock) -> None:
        self.frozen = False
        self.sessions: dict[str, Held] = {}
        self.gone: set[str] = set()  # anchors whose process has exited
        self.changed: set[str] = set()  # anchors whose process runs another program by now
        self.over_rate = False
        self._policies = policies
        self._clock = clock

    def open(self, caller: Caller) -> SessionView | Refusal:
        if caller.anchor.id in self.gone:
            return session_ended()
        held = self.of(caller)
        if held is None:
            number = len(self.sessions) + 1
            held = Held(id=f"se_{number}", caller=caller, opened_at_ms=self._clock.now_ms())
            self.sessions[held.id] = held
        return SessionView(
            id=held.id,
            agent=caller.agent,
            span=caller.span.value,
            anchor_pid=caller.anchor.pid,
            opened_at_ms=held.opened_at_ms,
            calls=held.calls,
            denied=held.denied,
            label=None,
            muted=held.muted,
        )

    def within_rate(self, rules: tuple[str, ...], per_minute: int) -> bool:
        assert rules, "something that a rule lets through names it"
        assert per_minute > 0
        return not self.over_rate

    def of(self, caller: Caller) -> Held | None:
        return next((held for held in self.sessions.values() if held.caller.anchor == caller.anchor), None)

    def exit(self, caller: Caller) -> None:
        """The process is gone, and with it its session and grants."""
        self.gone.add(caller.anchor.id)
        held = self.of(caller)
        if held is not None:
            del self.sessions[held.id]

    def exec(self, caller: Caller) -> None:
        """The process runs another program from now on."""
        self.changed.add(caller.anchor.id)

    def alive(self, session_id: str) -> bool:
        return session_id in self.sessions

    def exe_unchanged(self, caller: Caller) -> bool:
        return caller.anchor.id not in self.changed

    def use_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> str | None:
        held = self.sessions[under.session_id]
        for grant in held.grants.values():
            if grants.covers(grant, ask, frozen, under):
                held.grants[grant.id] = grants.used_once_more(grant)
                return grant.id
        return None

    def holds(self, session_id: str, grant_id: str) -> bool:
        held = self.sessions.get(session_id)
        return held is not None and grant_id in held.grants

    def revoke_grants(self) -> None:
        for held in self.sessions.values():
            held.grants.clear()

    def make_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> None:
        held = self.sessions[under.session_id]
        grant = grants.make(
            grant_id=f"gr_{len(held.grants) + 1}",
            ask=ask,
            frozen=frozen,
            limits=self._policies.current().limits,
            under=under,
        )
        held.grants[grant.id] = grant

    def count(self, session_id: str, *, denied: bool, echoed: bool = False) -> None:
        held = self.sessions.get(session_id)
        if held is not None:
            held.calls += 1
            held.denied += denied
            held.echoed += echoed

    @property
    def grants(self) -> list[Grant]:
        return [grant for held in self.sessions.values() for grant in held.grants.values()]

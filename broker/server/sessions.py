"""Live sessions and their grants, each bound to one process that the kernel watches.

A session ends when its anchor exits (the pidfd becomes readable), on revoke, lock, freeze and stop; its grants end
with it. Nothing is kept for a later process. What a process alone was granted is never its tree's, whoever asks in
the name of that; only a process that declares its own tree takes in what it starts.
"""

import asyncio
import os
import secrets
from collections.abc import Callable, Hashable, Mapping

from broker.contract.wire import JsonObject
from broker.core import grants, refusals
from broker.core.channels import Frozen
from broker.core.events import EventName
from broker.core.grants import Circumstances
from broker.core.identity import Caller, ProcessFacts, Span
from broker.core.policy.model import Ask
from broker.core.refusals import Refusal
from broker.ports import AuditLog, Clock, PolicySource, SessionView
from broker.server.deeds import Deeds
from broker.server.launchers import Launchers
from broker.server.mutes import ECHOED, Mutes
from broker.server.peer import alive, open_process, run_of
from broker.server.rates import Rates
from broker.server.session import Ended, ProcessKey, Session, grant_row, place_of, row, view
from broker.server.session_records import SessionRecords

__all__ = ["Ended", "Session", "SessionRegistry"]

SESSIONS_MAX = 4096
LABEL_LIMIT = 200


class SessionRegistry:
    """All sessions. `ended` is called with a session's id after it is gone; `changed` on anything a screen shows."""

    def __init__(
        self,
        *,
        audit: AuditLog,
        clock: Clock,
        policies: PolicySource,
        ended: Callable[[str, Ended], None],
        changed: Callable[[str, str], None],
    ) -> None:
        self.records = SessionRecords(audit=audit, clock=clock)
        self._clock = clock
        self._policies = policies
        self._rates = Rates(monotonic_s=clock.monotonic_s)
        self._ended = ended
        self._changed = changed
        self._by_id: dict[str, Session] = {}
        self._by_key: dict[tuple[ProcessKey, bool], Session] = {}  # by anchor, and whether it spans a tree
        self._launchers = Launchers()
        self._mutes = Mutes()
        self.deeds = Deeds()
        self.frozen = False

    @property
    def holders(self) -> Mapping[ProcessKey, Span]:
        """Which processes declared that all that they start is one session with them."""
        return self._launchers.holders

    @property
    def listeners(self) -> Mapping[ProcessKey, str]:
        """Which processes hand on what a container asks, and the name that an approver signed for each."""
        return self._launchers.listeners

    def anchors(self, process: ProcessKey) -> bool:
        """Whether a session of any kind hangs on the process."""
        return process in self._launchers or any((process, tree) in self._by_key for tree in (False, True))

    def declare_tree(self, process: ProcessFacts) -> bool:
        """From now on this process and all that it starts are one session; it outlives a lock, its grants do not."""
        if process.key in self._launchers:
            return process.key in self.holders
        if not self._launchers.add_tree(process):
            return False
        self._end_narrower(process.key)
        return True

    def declare_listener(self, process: ProcessFacts, name: str) -> bool:
        """From now on all that this process asks is the container's whose name an approver signed for it."""
        if not self._launchers.add_listener(process, name):
            return False
        self._end_narrower(process.key)
        return True

    def open(self, caller: Caller) -> SessionView | Refusal:
        return self.enter(caller)

    def enter(self, caller: Caller, *, label: str | None = None) -> SessionView | Refusal:
        """The session of the caller's anchor; made if it is new. A label is the client's own word."""
        key = caller.anchor_process.key
        session = self._by_key.get(place_of(caller))
        if session is None:
            full = len(self._by_id) >= SESSIONS_MAX
            pidfd = None if full else open_process(key[0], start_ticks=key[1], inode=key[2])
            if pidfd is None:
                return refusals.session_ended()
            session = self._make(caller, label, pidfd)
        elif not alive(session.pidfd):
            self.end(session.id, Ended.EXITED)
            return refusals.session_ended()
        self._notice_exec(session, caller)
        is_echoing = session.mute is not None and session.mute.why == ECHOED
        return refusals.echoing() if is_echoing else view(session)

    def find(self, caller: Caller) -> SessionView | None:
        session = self._by_key.get(place_of(caller))
        return None if session is None else view(session)

    def alive(self, session_id: str) -> bool:
        session = self._by_id.get(session_id)
        return session is not None and alive(session.pidfd)

    def exe_unchanged(self, caller: Caller) -> bool:
        """Whether neither the anchor nor the program that gave the caller its name has executed another since."""
        anchor, program = caller.anchor_process, caller.program
        if run_of(anchor.pid) != anchor.run:
            return False
        return program.key == anchor.key or run_of(program.pid) == program.run

    def within_rate(self, rules: tuple[str, ...], per_minute: int) -> bool:
        return self._rates.take(rules, per_minute)

    def use_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> str | None:
        session = self._by_id.get(under.session_id)
        held = {} if session is None else session.grants
        for grant in held.values():
            if grants.covers(grant, ask, frozen, under):
                held[grant.id] = grants.used_once_more(grant)
                return grant.id
        return None

    def holds(self, session_id: str, grant_id: str) -> bool:
        session = self._by_id.get(session_id)
        return session is not None and grant_id in session.grants

    def make_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> None:
        session = self._by_id.get(under.session_id)
        if session is None:
            return
        grant = grants.make(
            grant_id="gr_" + secrets.token_hex(6),
            ask=ask,
            frozen=frozen,
            limits=self._policies.current().limits,
            under=under,
        )
        session.grants[grant.id] = grant
        self._post(
            EventName.GRANT_MADE,
            session,
            {
                "grant": grant.id,
                "rule": grant.rule,
                "scope": grant.scope,
                "effect": grant.effect,
                "max_uses": grant.max_uses,
                "expires_at_ms": grant.expires_at_ms,
            },
        )
        self._changed(session.id, "grant")

    def count(self, session_id: str, *, denied: bool, echoed: bool = False) -> None:
        session = self._by_id.get(session_id)
        if session is None:
            return
        self.records.matters(session_id)
        session.calls += 1
        session.denied += denied
        if denied:
            session.last_denied_at_ms = self._clock.now_ms()
        if echoed and self._mutes.echoed(session.muted_by):
            self.mute(session_id, ECHOED)

    def end(self, session_id: str, why: Ended) -> bool:
        """End a session and its grants. True where there was one."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            return False
        self._by_key.pop(session.place, None)
        self.deeds.forget(session_id)
        asyncio.get_running_loop().remove_reader(session.pidfd)
        os.close(session.pidfd)
        self.records.ended(session_id, why.value, {"agent": session.caller.agent, "grants": len(session.grants)})
        session.grants.clear()
        self._ended(session_id, why)
        self._changed(session_id, "ended")
        return True

    def end_all(self, why: Ended) -> int:
        return sum(self.end(session_id, why) for session_id in list(self._by_id))

    def close(self) -> None:
        """End everything at the stop of the daemon."""
        self.end_all(Ended.STOPPED)
        self.records.summarise()
        self._launchers.close()

    def mute(self, session_id: str, reason: str) -> bool:
        """Show no card of the session any more, nor of another process of the same program or name and user."""
        session = self._by_id.get(session_id)
        if session is None:
            return False
        self._mutes.add(session.muted_by, reason, self._clock.now_ms())
        self._set_muted(session.muted_by)
        return True

    def unmute(self, session_id: str) -> bool:
        """Undo a mute of the session's program. Whoever lets it happen has it on record with who signed for it."""
        session = self._by_id.get(session_id)
        keys = self._mutes.left_by(session_id) if session is None else session.muted_by
        if not keys:
            return False
        self._mutes.drop(keys)
        self._set_muted(keys)
        return True

    def is_muted(self, session_id: str) -> bool:
        """Whether a mute that this session brought about holds, also where it has ended."""
        return bool(self._mutes.left_by(session_id))

    def drop_grants(self, *, credential: str | None = None, grant_id: str | None = None) -> int:
        """End grants: all of them, those of one credential, or one by its id."""
        dropped = 0
        for session in self._by_id.values():
            for grant in list(session.grants.values()):
                if credential not in {None, grant.credential} or grant_id not in {None, grant.id}:
                    continue
                del session.grants[grant.id]
                self._post(EventName.GRANT_ENDED, session, {"grant": grant.id})
                dropped += 1
        return dropped

    def get(self, session_id: str) -> Session | None:
        """The session itself, for who ends it and what it runs on; nobody but this registry changes it."""
        return self._by_id.get(session_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def listing(self) -> list[JsonObject]:
        agents = self._policies.current().agents
        return [{**row(session, agents), **self.deeds.of(session.id)} for session in self._by_id.values()]

    def grant_listing(self, session_id: str | None = None) -> list[JsonObject]:
        return [
            grant_row(session, grant)
            for session in self._by_id.values()
            for grant in session.grants.values()
            if session_id in {None, session.id}
        ]

    def _make(self, caller: Caller, label: str | None, pidfd: int) -> Session:
        session = Session(
            id="se_" + secrets.token_hex(6),
            caller=caller,
            pidfd=pidfd,
            opened_at_ms=self._clock.now_ms(),
            label=None if label is None else label[:LABEL_LIMIT],
        )
        session.mute = self._mutes.of(session.muted_by)
        if session.mute is not None:
            self._mutes.said_of(session.id, session.muted_by)
        session.cgroup = self._launchers.cgroup(caller.anchor_process.key) if caller.span is Span.TREE else None
        self._by_id[session.id] = session
        self._by_key[session.place] = session
        self.deeds.begin(session.id)
        asyncio.get_running_loop().add_reader(pidfd, self.end, session.id, Ended.EXITED)
        who: JsonObject = {"agent": caller.agent, "span": caller.span.value, "anchor": caller.anchor.id}
        where: JsonObject = {"pid": caller.anchor.pid, "exe": caller.program.exe}
        self.records.opened(session.id, session.program, caller.anchor.id, {**who, **where})
        self._changed(session.id, "opened")
        return session

    def _notice_exec(self, session: Session, caller: Caller) -> None:
        """A process that became another program keeps its session and loses what the former program was granted."""
        if caller.anchor_process.run == session.caller.anchor_process.run:
            return
        for grant_id in list(session.grants):
            del session.grants[grant_id]
            self._post(EventName.GRANT_ENDED, session, {"grant": grant_id, "why": "exec"})
        session.caller = caller

    def _end_narrower(self, key: ProcessKey) -> None:
        narrower = self._by_key.get((key, False))
        if narrower is not None:
            self.end(narrower.id, Ended.WIDENED)

    def _set_muted(self, keys: tuple[Hashable, ...]) -> None:
        """Let those whom the keys name be heard or not, as it is by now."""
        for session in self._by_id.values():
            mute = self._mutes.of(session.muted_by)
            if session.mute != mute and not set(keys).isdisjoint(session.muted_by):
                session.mute = mute
                if mute is not None:
                    self._mutes.said_of(session.id, session.muted_by)
                    self._post(EventName.SESSION_MUTED, session, {"why": mute.why})
                self._changed(session.id, "muted")

    def _post(self, name: EventName, session: Session, fields: JsonObject) -> None:
        self.records.tell(name, session.id, {"agent": session.caller.agent, **fields})

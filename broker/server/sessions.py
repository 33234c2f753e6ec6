"""Live sessions and their grants, each bound to one process that the kernel watches.

A session ends when its anchor exits (the pidfd becomes readable), on revoke, lock, freeze and stop; its grants end
with it. Nothing is kept for a later process. What a process alone was granted is never its tree's, whoever asks in
the name of that; only a process that declares its own tree takes in what it starts.
"""

import asyncio
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from broker.contract.wire import JsonObject, JsonValue
from broker.core import grants, refusals
from broker.core.channels import Frozen
from broker.core.events import EventName
from broker.core.grants import Circumstances, Grant
from broker.core.identity import UNIDENTIFIED, Anchor, Caller, ProcessFacts, Span
from broker.core.policy.model import Ask
from broker.core.refusals import Refusal
from broker.ports import AuditLog, Clock, PolicySource, SessionView
from broker.server.peer import alive, open_process, run_of
from broker.server.rates import Rates
from broker.server.session_records import SessionRecords

ProcessKey: TypeAlias = tuple[int, int, int]
SESSIONS_MAX = 4096
LABEL_LIMIT = 200
MUTES_KEPT = 1000
ECHOES_MAX = 3  # so many answers with the credential in them are bad luck; more could be guesses put to the test
ECHOED = "services gave the credential back"


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
    muted: str | None = None
    grants: dict[str, Grant] = field(default_factory=dict)

    @property
    def anchor(self) -> Anchor:
        return self.caller.anchor

    @property
    def span(self) -> Span:
        return self.caller.span

    @property
    def program(self) -> Hashable:
        """What is muted with it: whichever processes run the same program for the same user."""
        program = self.caller.program
        return (program.uid, program.exe_id or program.exe)


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
        self._trees: dict[ProcessKey, int] = {}  # launchers of `doorward run`, by their pidfds
        self._holders: dict[ProcessKey, Span] = {}
        self._mutes: OrderedDict[Hashable, str] = OrderedDict()  # by program: a new process of it is no way round
        self._echoes: OrderedDict[Hashable, int] = OrderedDict()
        self.frozen = False

    @property
    def holders(self) -> Mapping[ProcessKey, Span]:
        """Which processes declared that all that they start is one session with them."""
        return self._holders

    def anchors(self, process: ProcessKey) -> bool:
        """Whether a session of any kind hangs on the process."""
        return process in self._trees or any((process, tree) in self._by_key for tree in (False, True))

    def declare_tree(self, process: ProcessFacts) -> bool:
        """From now on this process and all that it starts are one session; it outlives a lock, its grants do not."""
        if process.key in self._trees:
            return True
        if len(self._trees) >= SESSIONS_MAX:
            return False
        pidfd = open_process(process.pid, start_ticks=process.start_ticks, inode=process.inode)
        if pidfd is None:
            return False
        self._trees[process.key] = pidfd
        self._holders[process.key] = Span.TREE
        asyncio.get_running_loop().add_reader(pidfd, self._forget_tree, process.key)
        narrower = self._by_key.get((process.key, False))
        if narrower is not None:
            self.end(narrower.id, Ended.WIDENED)
        return True

    def open(self, caller: Caller) -> SessionView | Refusal:
        return self.enter(caller)

    def enter(self, caller: Caller, *, label: str | None = None) -> SessionView | Refusal:
        """The session of the caller's anchor; made if it is new. A label is the client's own word."""
        key = caller.anchor_process.key
        session = self._by_key.get((key, caller.span is Span.TREE))
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
        return refusals.echoing() if session.muted == ECHOED else _view(session)

    def find(self, caller: Caller) -> SessionView | None:
        session = self._by_key.get((caller.anchor_process.key, caller.span is Span.TREE))
        return None if session is None else _view(session)

    def alive(self, session_id: str) -> bool:
        session = self._by_id.get(session_id)
        return session is not None and alive(session.pidfd)

    def exe_unchanged(self, caller: Caller) -> bool:
        return run_of(caller.anchor.pid) == caller.anchor_process.run

    def within_rate(self, rules: tuple[str, ...], per_minute: int) -> bool:
        return self._rates.take(rules, per_minute)

    def use_grant(self, ask: Ask, frozen: Frozen, under: Circumstances) -> bool:
        session = self._by_id.get(under.session_id)
        if session is None:
            return False
        for grant in session.grants.values():
            if grants.covers(grant, ask, frozen, under):
                session.grants[grant.id] = grants.used_once_more(grant)
                return True
        return False

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
        if echoed:
            program = session.program
            times = self._echoes[program] = self._echoes.pop(program, 0) + 1
            if times >= ECHOES_MAX:
                self.mute(session_id, ECHOED)
            while len(self._echoes) > MUTES_KEPT:
                self._echoes.popitem(last=False)

    def end(self, session_id: str, why: Ended) -> bool:
        """End a session and its grants. True where there was one."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            return False
        self._by_key.pop(_place(session), None)
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
        for key in list(self._trees):
            self._forget_tree(key)

    def _forget_tree(self, key: ProcessKey) -> None:
        self._holders.pop(key, None)
        pidfd = self._trees.pop(key, None)
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

    def mute(self, session_id: str, reason: str) -> bool:
        """Show no card of the session any more, nor of another process of the same program and user."""
        session = self._by_id.get(session_id)
        if session is None:
            return False
        program = session.program
        if self._mutes.get(program) != ECHOED:  # the stricter one stays
            self._mutes[program] = reason
        while len(self._mutes) > MUTES_KEPT:
            self._mutes.popitem(last=False)
        self._set_muted(program, self._mutes[program])
        return True

    def unmute(self, session_id: str) -> bool:
        """Undo a mute of the session's program. Whoever lets it happen has it on record with who signed for it."""
        session = self._by_id.get(session_id)
        if session is None:
            return False
        program = session.program
        self._mutes.pop(program, None)
        self._echoes.pop(program, None)
        self._set_muted(program, None)
        return True

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

    def pidfd(self, session_id: str) -> int | None:
        session = self._by_id.get(session_id)
        return None if session is None else session.pidfd

    def __len__(self) -> int:
        return len(self._by_id)

    def listing(self) -> list[JsonObject]:
        return [_row(session) for session in self._by_id.values()]

    def grant_listing(self, session_id: str | None = None) -> list[JsonObject]:
        return [
            _grant_row(session, grant)
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
        session.muted = self._mutes.get(session.program)
        self._by_id[session.id] = session
        self._by_key[_place(session)] = session
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

    def _set_muted(self, program: Hashable, reason: str | None) -> None:
        for session in self._by_id.values():
            if session.program == program and session.muted != reason:
                session.muted = reason
                if reason is not None:
                    self._post(EventName.SESSION_MUTED, session, {"why": reason})
                self._changed(session.id, "muted")

    def _post(self, name: EventName, session: Session, fields: JsonObject) -> None:
        self.records.tell(name, session.id, {"agent": session.caller.agent, **fields})


def _place(session: Session) -> tuple[ProcessKey, bool]:
    anchor = session.anchor
    return (anchor.pid, anchor.start_ticks, anchor.inode), session.span is Span.TREE


def _view(session: Session) -> SessionView:
    return SessionView(
        id=session.id,
        agent=session.caller.agent,
        span=session.span.value,
        anchor_pid=session.anchor.pid,
        opened_at_ms=session.opened_at_ms,
        calls=session.calls,
        denied=session.denied,
        label=session.label,
        muted=session.muted is not None,
    )


def _row(session: Session) -> dict[str, JsonValue]:
    caller = session.caller
    return {
        "id": session.id,
        "agent": caller.agent,
        "identified": caller.agent != UNIDENTIFIED,
        "span": session.span.value,
        "pid": session.anchor.pid,
        "exe": caller.program.exe,
        "cwd": caller.program.cwd,
        "label": session.label,
        "opened_at_ms": session.opened_at_ms,
        "calls": session.calls,
        "denied": session.denied,
        "muted": session.muted is not None,
        "grants": len(session.grants),
    }


def _grant_row(session: Session, grant: Grant) -> dict[str, JsonValue]:
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

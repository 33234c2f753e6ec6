"""Sessions under everything that can happen to them, over real processes, against a model of what was agreed to.

Whatever the order of opening, adopting, execs, exits, reused pids, revokes, locks, freezes and mutes: no grant
outlives its session, no new process matches an old grant, and no two agents share one.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from broker.core import grants
from broker.core.grants import Circumstances
from broker.core.identity import Caller, PeerFacts, ProcessFacts, identify
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Ask
from broker.core.refusals import Refusal
from broker.core.resolve import Invalid, resolve
from broker.ports import SessionView
from broker.server import peer
from broker.server.sessions import Ended
from tests.fakes import market
from tests.fakes.pids import ended, reusing
from tests.server.test_sessions import Hall

T = TypeVar("T")
PROCESSES_MAX = 5
_LIVES = 'read word; exec "$word" -c "read word" '


@dataclass(eq=False)
class Proc:
    """One real process, and what the human agreed to for it."""

    process: "subprocess.Popen[bytes]"
    facts: ProcessFacts
    parent: "Proc | None" = None  # whose tree it says that it is in, by its chain
    is_launcher: bool = False
    was_execed: bool = False
    granted: dict[str, tuple[int, ...] | None] = field(default_factory=dict)  # grants of its session, and its run then


def facts_of(pid: int) -> ProcessFacts:
    pidfd = os.pidfd_open(pid)
    try:
        return peer._read(pidfd)[0]
    finally:
        os.close(pidfd)


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.programs = [str(Path(self.directory.name) / name) for name in ("agent-a", "agent-b")]
        for path in self.programs:
            shutil.copy(os.path.realpath("/bin/sh"), path)
        self.hall = self._do(Hall)
        self.alive: list[Proc] = []
        self.gone: list[tuple[Proc, Caller]] = []
        self.muted: set[object] = set()
        self.reused = 0

    @override
    def teardown(self) -> None:
        self._do(self.hall.registry.close)
        for one in self.alive:
            ended(one.process)
        self.loop.close()
        self.directory.cleanup()

    def _do(self, what: Callable[[], T]) -> T:
        """Within the loop, which the registry needs."""

        async def call() -> T:
            return what()

        return self.loop.run_until_complete(call())

    def _pump(self) -> None:
        """Let the loop see what happened."""

        async def turns() -> None:
            for _ in range(3):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def _caller(self, one: Proc) -> Caller:
        """As the next request would find it."""
        ancestors = () if one.parent is None else (one.parent.facts,)
        facts = PeerFacts(process=one.facts, ancestors=ancestors, boot_id="boot")
        return identify(facts, agents={}, holders=self.hall.registry.holders)

    def _under(self, caller: Caller, session_id: str) -> Circumstances:
        return Circumstances(
            session_id=session_id,
            policy_digest=market.DIGEST,
            credential_version=1,
            run=caller.anchor_process.run,
            now_ms=self.hall.clock.now_ms(),
        )

    def _took(self, process: "subprocess.Popen[bytes]", parent: Proc | None) -> None:
        self.alive.append(Proc(process=process, facts=facts_of(process.pid), parent=parent))

    def _tell(self, one: Proc, word: str) -> None:
        assert one.process.stdin is not None
        one.process.stdin.write(word.encode() + b"\n")
        one.process.stdin.flush()

    @precondition(lambda self: len(self.alive) < PROCESSES_MAX)
    @rule(program=st.integers(0, 1), below=st.none() | st.integers(0, PROCESSES_MAX))
    def begins(self, program: int, below: int | None) -> None:
        words = [self.programs[program], "-c", _LIVES]
        parent = self.alive[below % len(self.alive)] if below is not None and self.alive else None
        self._took(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE), parent)

    @precondition(lambda self: self.alive)
    @rule(which=st.integers(0, PROCESSES_MAX))
    def asks(self, which: int) -> None:
        one = self.alive[which % len(self.alive)]
        caller = self._caller(one)
        entered = self._do(lambda: self.hall.registry.enter(caller))
        assert isinstance(entered, SessionView)
        assert entered.anchor_pid == caller.anchor.pid
        by_name = ("agent", caller.program.uid, caller.agent)
        assert bool({caller.budget, by_name} & self.muted) == entered.muted

    @precondition(lambda self: self.alive)
    @rule(which=st.integers(0, PROCESSES_MAX))
    def launches(self, which: int) -> None:
        one = self.alive[which % len(self.alive)]
        assert self._do(lambda: self.hall.registry.declare_tree(one.facts))
        if not one.is_launcher:
            one.is_launcher = True
            one.granted = {}

    @precondition(lambda self: self.alive)
    @rule(which=st.integers(0, PROCESSES_MAX))
    def is_granted(self, which: int) -> None:
        one = self.alive[which % len(self.alive)]
        caller = self._caller(one)
        view = self._do(lambda: self.hall.registry.enter(caller))
        assert isinstance(view, SessionView)
        frozen = resolve(market.POLICY, market.LISTING)
        assert not isinstance(frozen, Invalid)
        ask = evaluate(market.POLICY, caller, frozen)
        assert isinstance(ask, Ask)
        before = {str(row["id"]) for row in self.hall.registry.grant_listing(view.id)}
        self._do(lambda: self.hall.registry.make_grant(ask, frozen, self._under(caller, view.id)))
        (made,) = {str(row["id"]) for row in self.hall.registry.grant_listing(view.id)} - before
        anchor = next(other for other in self.alive if other.facts.key == caller.anchor_process.key)
        anchor.granted[made] = anchor.facts.run

    @precondition(lambda self: any(not one.was_execed for one in self.alive))
    @rule(which=st.integers(0, PROCESSES_MAX), program=st.integers(0, 1))
    def execs(self, which: int, program: int) -> None:
        """Another program, or the same one again."""
        fresh = [one for one in self.alive if not one.was_execed]
        one = fresh[which % len(fresh)]
        before = one.facts.run
        self._tell(one, self.programs[program])
        while (now := facts_of(one.process.pid)).run == before or now.argv[-1:] != ("read word",):
            assert one.process.poll() is None
        one.facts, one.was_execed = now, True
        one.granted = {}

    @precondition(lambda self: self.alive)
    @rule(which=st.integers(0, PROCESSES_MAX), again=st.booleans(), at_once=st.booleans())
    def exits(self, which: int, *, again: bool, at_once: bool) -> None:
        """And its pid may be another's at once, before or after the loop has seen the end."""
        one = self.alive.pop(which % len(self.alive))
        self.gone.append((one, self._caller(one)))
        ended(one.process)
        if not at_once:
            self._pump()
        if again and (process := reusing(one.process.pid, [self.programs[0], "-c", _LIVES])) is not None:
            self.reused += 1
            self._took(process, None)
        if at_once:
            self._pump()

    @precondition(lambda self: self.gone)
    @rule(which=st.integers(0, 100))
    def the_dead_ask_again(self, which: int) -> None:
        """A connection that a child held on, or a descriptor that was passed: what it says is of who is gone.

        Where a launcher above it lives on, it is that one's session at most (and the connection is cut before).
        """
        _, caller = self.gone[which % len(self.gone)]
        entered = self._do(lambda: self.hall.registry.enter(caller))
        if caller.anchor_process.key in {one.facts.key for one in self.alive}:
            assert isinstance(entered, SessionView)
            assert caller.anchor.pid == entered.anchor_pid
        else:
            assert isinstance(entered, Refusal)

    @rule(why=st.sampled_from([Ended.LOCKED, Ended.FROZEN]))
    def all_end(self, why: Ended) -> None:
        self._do(lambda: self.hall.registry.end_all(why))
        for one in self.alive:
            one.granted = {}

    @rule(which=st.integers(0, 100))
    def is_revoked(self, which: int) -> None:
        rows = self.hall.registry.listing()
        if rows:
            row = rows[which % len(rows)]
            assert self._do(lambda: self.hall.registry.end(str(row["id"]), Ended.REVOKED))
            gone = {str(grant["id"]) for grant in self.hall.registry.grant_listing()}
            for one in self.alive:
                one.granted = {key: run for key, run in one.granted.items() if key in gone}

    @rule(which=st.integers(0, 100), heard=st.booleans())
    def is_muted_or_heard(self, which: int, *, heard: bool) -> None:
        rows = self.hall.registry.listing()
        if not rows:
            return
        session_id = str(rows[which % len(rows)]["id"])
        session = self.hall.registry.get(session_id)
        assert session is not None
        self.muted = self.muted - {*session.muted_by} if heard else self.muted | {*session.muted_by}
        change = self.hall.registry.unmute if heard else lambda one: self.hall.registry.mute(one, "by the human")
        assert self._do(lambda: change(session_id))

    @invariant()
    def no_grant_outlives_its_session(self) -> None:
        sessions = {str(row["id"]): row for row in self.hall.registry.listing()}
        for grant in self.hall.registry.grant_listing():
            assert str(grant["session_id"]) in sessions
        alive = {one.process.pid for one in self.alive}
        assert {row["pid"] for row in sessions.values()} <= alive

    @invariant()
    def a_grant_covers_whom_it_was_given_to_and_nobody_else(self) -> None:
        frozen = resolve(market.POLICY, market.LISTING)
        assert not isinstance(frozen, Invalid)
        for one in self.alive:
            caller = self._caller(one)
            view = self.hall.registry.find(caller)
            if view is None:
                continue
            session = self.hall.registry.get(view.id)
            assert session is not None
            ask = evaluate(market.POLICY, caller, frozen)
            assert isinstance(ask, Ask)
            under = self._under(caller, view.id)
            covering = {key for key, grant in session.grants.items() if grants.covers(grant, ask, frozen, under)}
            anchor = next(other for other in self.alive if other.facts.key == caller.anchor_process.key)
            assert covering <= {key for key, run in anchor.granted.items() if run == anchor.facts.run}

    @invariant()
    def no_two_agents_share_a_session(self) -> None:
        shared: dict[str, tuple[int, int, int]] = {}
        for one in self.alive:
            caller = self._caller(one)
            view = self.hall.registry.find(caller)
            if view is not None:
                assert caller.anchor_process.key == shared.setdefault(view.id, caller.anchor_process.key)
                if caller.anchor_process.key != one.facts.key:
                    assert one.parent is not None
                    assert one.parent.is_launcher


SessionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestSessions = SessionMachine.TestCase

"""Sessions and grants on real processes: who holds one, what ends it, and what ends with it."""

import asyncio
import os
import select
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.grants import Circumstances
from broker.core.identity import Caller, Span, identify
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import AgentProgram, Ask
from broker.core.refusals import Refusal
from broker.core.resolve import Invalid, resolve
from broker.ports import SessionView
from broker.server import launchers, mutes
from broker.server import sessions as sessions_module
from broker.server.peer import inspect
from broker.server.sessions import Ended, SessionRegistry
from tests.fakes import market
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.policy_port import HeldPolicy
from tests.fakes.processes import Peer, connected, listening, other_program

IMAGE = Path(sys.executable).resolve()


class Hall:
    """A registry, and whom it tells."""

    def __init__(self) -> None:
        self.audit = MemoryAudit()
        self.clock = SetClock()
        self.ended: list[tuple[str, Ended]] = []
        self.registry = SessionRegistry(
            audit=self.audit,
            clock=self.clock,
            policies=HeldPolicy(market.POLICY),
            ended=lambda session_id, why: self.ended.append((session_id, why)),
            changed=lambda session_id, state: None,  # noqa: ARG005
        )

    def enter(self, caller: Caller, label: str | None = None) -> SessionView:
        view = self.registry.enter(caller, label=label)
        assert isinstance(view, SessionView)
        return view

    def grant(self, caller: Caller, view: SessionView) -> bool:
        """Whether a read would pass on a grant; makes one where there is none."""
        frozen = resolve(market.POLICY, market.LISTING)
        assert not isinstance(frozen, Invalid)
        ask = evaluate(market.POLICY, caller, frozen)
        assert isinstance(ask, Ask)
        under = Circumstances(
            session_id=view.id,
            policy_digest=market.DIGEST,
            credential_version=1,
            run=caller.anchor_process.run,
            now_ms=self.clock.now_ms(),
        )
        if self.registry.use_grant(ask, frozen, under):
            return True
        self.registry.make_grant(ask, frozen, under)
        return False

    def names(self) -> list[str]:
        return [event.name.value for event in self.audit.events]


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    made = Hall()
    yield made
    made.registry.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with listening(tmp_path / "s") as made:
        yield made


def caller_of(peer: Peer, hall: Hall | None = None) -> Caller:
    pinned = inspect(peer.link, boot="boot")
    pinned.close()
    return identify(pinned.facts, agents={}, holders={} if hall is None else hall.registry.holders)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_session_is_of_one_process_and_found_again(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as one, connected(listener) as other:
        view = hall.enter(caller_of(one), label="x" * 500)

        assert view.id == hall.enter(caller_of(one)).id
        assert view.id != hall.enter(caller_of(other)).id
        assert (one.pid, "unidentified", "x" * 200) == (view.anchor_pid, view.agent, view.label)
        assert view == hall.registry.find(caller_of(one))
        assert hall.registry.alive(view.id)
        assert 2 == len(hall.registry) == len(hall.registry.listing())
        assert ["session.opened"] * 2 == hall.names()


async def test_a_session_ends_with_the_very_event_of_its_process(hall: Hall, listener: socket.socket) -> None:
    """No timer stands between an exit and the end of what was granted: the loop's next look at its events is enough."""
    with connected(listener) as child:
        view = hall.enter(caller_of(child))
        hall.grant(caller_of(child), view)
        assert 1 == len(hall.registry.grant_listing())
        pidfd = os.pidfd_open(child.pid)
        child.process.kill()  # not waited for: a zombie has ended as well
        assert select.select([pidfd], [], [], 15)[0]
        os.close(pidfd)
        assert [] == hall.ended, "the loop had no turn since"
        for _ in range(2):  # one to look at what happened, one to do what is to be done then
            await asyncio.sleep(0)

        assert [(view.id, Ended.EXITED)] == hall.ended
        assert not hall.registry.alive(view.id)
        assert [] == hall.registry.grant_listing()


async def test_nothing_of_a_session_is_left_for_a_later_process(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        view = hall.enter(caller)
        assert not hall.grant(caller, view)
        assert hall.grant(caller, view)
        child.kill()
        await until_ended(hall, view)

        assert hall.registry.find(caller) is None
        assert isinstance(hall.registry.enter(caller), Refusal)
        assert not hall.grant(caller, view)
    with connected(listener) as later:
        fresh = hall.enter(caller_of(later))
        assert not hall.grant(caller_of(later), fresh)


async def test_an_anchor_that_exited_unseen_is_noticed_at_the_next_request(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        view = hall.enter(caller)
        child.kill()  # the loop has not run since

        assert not hall.registry.alive(view.id)
        assert isinstance(hall.registry.enter(caller), Refusal)
        assert [(view.id, Ended.EXITED)] == hall.ended


async def test_a_reused_number_is_another_process(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        hall.enter(caller)
        ticks = replace(caller.anchor_process, start_ticks=1, inode=caller.anchor_process.inode and 1)
        stranger = replace(caller, anchor_process=ticks)

        assert hall.registry.find(stranger) is None
        assert isinstance(hall.registry.enter(stranger), Refusal)
        assert 1 == len(hall.registry)


@pytest.mark.parametrize("why", list(Ended))
async def test_whatever_ends_a_session_ends_its_grants(hall: Hall, listener: socket.socket, why: Ended) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        view = hall.enter(caller)
        hall.grant(caller, view)

        assert hall.registry.end(view.id, why)
        assert not hall.registry.end(view.id, why)
        assert [] == hall.registry.grant_listing() == hall.registry.listing()
        assert {"agent": "unidentified", "why": why.value, "grants": 1} == hall.audit.events[-1].fields


async def test_a_session_ends_though_the_audit_log_is_dead(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        view = hall.enter(caller_of(child))
        hall.audit.broken = True

        assert 1 == hall.registry.end_all(Ended.LOCKED)
        assert [view.id] == [session_id for session_id, _ in hall.ended]


@pytest.mark.parametrize("same", [False, True], ids=["another program", "another script of the same interpreter"])
async def test_a_process_that_became_another_program_keeps_no_grant(
    hall: Hall, listener: socket.socket, tmp_path: Path, *, same: bool
) -> None:
    """T42."""
    program = Path(sys.executable) if same else other_program(tmp_path)
    with connected(listener) as child:
        before = caller_of(child)
        view = hall.enter(before)
        hall.grant(before, view)
        assert hall.registry.exe_unchanged(before)
        assert "became" == child.tell(f"exec {program}")

        assert not hall.registry.exe_unchanged(before)
        after = caller_of(child)
        assert view.id == hall.enter(after).id
        assert [] == hall.registry.grant_listing()
        assert {"agent", "grant", "why"} == set(hall.audit.events[-1].fields)


async def test_a_name_is_gone_with_the_program_that_gave_it(
    hall: Hall, listener: socket.socket, tmp_path: Path
) -> None:
    """The launcher of a tree stays what it is; the agent in it, whose name the rules go by, became another program."""
    with connected(listener) as agent, connected(listener) as launcher:
        hall.registry.declare_tree(caller_of(launcher).anchor_process)
        inside, above = caller_of(agent).peer, caller_of(launcher).anchor_process
        named = {"snake": AgentProgram(name="snake", exe="*", argv="*")}
        caller = identify(replace(inside, ancestors=(above,)), agents=named, holders=hall.registry.holders)
        assert ("snake", launcher.pid, agent.pid) == (caller.agent, caller.anchor.pid, caller.program.pid)
        assert hall.registry.exe_unchanged(caller)
        agent.tell(f"exec {other_program(tmp_path)}")

        assert not hall.registry.exe_unchanged(caller)


async def test_a_listener_stands_for_a_container_and_for_nothing_else(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as one, connected(listener) as other:
        process, launcher = caller_of(one).anchor_process, caller_of(other).anchor_process
        before = hall.enter(caller_of(one))
        assert hall.registry.declare_listener(process, "box")
        assert hall.registry.declare_listener(process, "box")
        assert not hall.registry.declare_listener(process, "another")
        assert not hall.registry.declare_tree(process)
        assert hall.registry.declare_tree(launcher)
        assert not hall.registry.declare_listener(launcher, "box")
        caller = identify(
            caller_of(one).peer, agents={}, holders=hall.registry.holders, listeners=hall.registry.listeners
        )
        view = hall.enter(caller)
        (row,) = [row for row in hall.registry.listing() if row["id"] == view.id]

        assert [(before.id, Ended.WIDENED)] == hall.ended
        assert ("box", "container", "listener", "box", None) == (
            row["agent"], row["span"], row["named_by"], row["container"], row["naming"],
        )  # fmt: skip
        assert hall.registry.anchors(process.key)
        one.kill()
        await until_ended(hall, view)
        assert {} == hall.registry.listeners
        assert not hall.registry.declare_listener(process, "box"), "it is gone"


async def test_a_row_tells_who_it_is_and_what_it_could_be_called(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as one:
        view = hall.enter(caller_of(one))
        hall.registry.count(view.id, denied=True)
        hall.registry.mute(view.id, "8 cards in a minute")
        (row,) = hall.registry.listing()
        chain = row["chain"]
        assert isinstance(chain, list)

        assert (None, None, True, False) == (row["named_by"], row["digest_ok"], row["interpreter"], row["cgroup"])
        assert {"pid": one.pid, "name": IMAGE.name, "never": False} == chain[0]
        assert len(chain) > 1
        now = hall.clock.now_ms()
        assert (now, now, "8 cards in a minute") == (
            row["last_denied_at_ms"], row["muted_at_ms"], row["muted_why"],
        )  # fmt: skip
        assert ([], 0, {"read": 0, "write": 0, "exec": 0}) == (row["in_flight"], row["in_flight_more"], row["done"])


async def test_a_tree_is_one_session_and_its_launchers_end_ends_it(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as launcher:
        caller = caller_of(launcher)
        assert hall.registry.declare_tree(caller.anchor_process)
        assert hall.registry.declare_tree(caller.anchor_process)
        assert Span.TREE is hall.registry.holders[caller.anchor_process.key]
        view = hall.enter(caller_of(launcher, hall))
        assert "tree" == view.span
        hall.registry.end(view.id, Ended.LOCKED)
        assert Span.TREE is hall.registry.holders[caller.anchor_process.key], "a lock leaves the tree"
        launcher.kill()
        async with asyncio.timeout(60):
            while hall.registry.holders:  # noqa: ASYNC110 - the registry tells nobody of this
                await asyncio.sleep(0.001)


async def test_what_a_human_approved_for_a_process_does_not_cover_a_tree(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        view = hall.enter(caller)
        hall.grant(caller, view)
        assert hall.registry.declare_tree(caller.anchor_process)

        assert [(view.id, Ended.WIDENED)] == hall.ended
        assert not hall.registry.grant_listing()
        assert Span.TREE is hall.registry.holders[caller.anchor_process.key]


async def test_there_are_so_many_sessions_and_trees_and_no_descriptor_is_lost(
    hall: Hall, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "SESSIONS_MAX", 1)
    monkeypatch.setattr(launchers, "LAUNCHERS_MAX", 1)
    with connected(listener) as one, connected(listener) as other:
        hall.registry.declare_tree(caller_of(one).anchor_process)
        hall.enter(caller_of(one, hall))
        before = descriptors()
        assert isinstance(hall.registry.open(caller_of(other)), Refusal)
        assert not hall.registry.declare_tree(caller_of(other).anchor_process)

        assert before == descriptors()


async def test_a_process_that_is_gone_declares_no_tree(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        process = caller_of(child).anchor_process
        child.kill()

        assert not hall.registry.declare_tree(process)


async def test_closing_lets_go_of_everything(listener: socket.socket) -> None:
    hall = Hall()
    with connected(listener) as child:
        before = descriptors()
        hall.enter(caller_of(child))
        hall.registry.declare_tree(caller_of(child).anchor_process)
        hall.registry.close()

        assert before == descriptors()
        assert {} == hall.registry.holders


async def test_a_mute_is_no_matter_of_one_process(hall: Hall, listener: socket.socket) -> None:
    """T43: forking away from a mute is no way round it; another user is not concerned."""
    with connected(listener) as one, connected(listener) as other:
        view = hall.enter(caller_of(one))
        beside = hall.enter(caller_of(other))
        assert hall.registry.mute(view.id, "30 cards wait already")
        assert hall.enter(caller_of(one)).muted
        assert hall.enter(caller_of(other)).muted
        hall.registry.end(view.id, Ended.EXITED)
        assert hall.enter(caller_of(one)).muted, "a new session of the program begins muted"

        foreign = replace(caller_of(other), program=replace(caller_of(other).program, uid=4711))
        hall.registry.end(beside.id, Ended.EXITED)
        assert not hall.enter(foreign).muted
        (muted,) = [row["id"] for row in hall.registry.listing() if row["muted"]]
        assert hall.registry.unmute(str(muted))
        assert not hall.enter(caller_of(one)).muted
        assert ["session.muted"] * 2 == [name for name in hall.names() if "mute" in name]


async def test_whoever_makes_services_echo_the_credential_is_let_in_no_more(
    hall: Hall, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T45: the third hit mutes, for all processes of the program, and nothing but a human's signed word undoes it."""
    monkeypatch.setattr(mutes, "MUTES_KEPT", 1)
    with connected(listener) as one, connected(listener) as other:
        view, beside = hall.enter(caller_of(one)), hall.enter(caller_of(other))
        for echoing in (beside, view, view):
            hall.registry.count(echoing.id, denied=False)
            hall.registry.count(echoing.id, denied=False, echoed=True)
        assert hall.registry.mute(view.id, "muted by the human")

        refused = hall.registry.open(caller_of(one))
        assert isinstance(refused, Refusal)
        assert ("session_denied", "muted", "after_human") == (refused.category, refused.code, refused.retry)
        assert hall.registry.unmute(view.id)
        assert not hall.enter(caller_of(one)).muted
        hall.registry.count(view.id, denied=False, echoed=True)
        assert not hall.enter(caller_of(one)).muted, "it is counted anew"
        elsewhere = replace(caller_of(other), program=replace(caller_of(other).program, uid=4711))
        hall.registry._by_id[view.id].caller = elsewhere
        hall.registry.count(view.id, denied=False, echoed=True)
        assert mutes.KEYS_EACH == len(hall.registry._mutes._echoes)


async def test_a_mute_is_undone_by_the_session_it_was_told_of_also_when_that_has_ended(
    hall: Hall, listener: socket.socket
) -> None:
    with connected(listener) as one:
        view = hall.enter(caller_of(one))
        hall.registry.mute(view.id, "30 cards wait already")
        hall.registry.end(view.id, Ended.REVOKED)
        assert hall.registry.is_muted(view.id)
        born_muted = hall.enter(caller_of(one))
        hall.registry.end(born_muted.id, Ended.REVOKED)

        assert hall.registry.unmute(born_muted.id)
        assert not hall.registry.is_muted(view.id)
        assert not hall.registry.unmute(view.id), "there is nothing left to undo"
        assert not hall.enter(caller_of(one)).muted


async def test_nobody_is_muted_who_is_not_there(hall: Hall) -> None:
    assert not hall.registry.mute("se_none", "why")
    assert not hall.registry.unmute("se_none")
    assert hall.registry.get("se_none") is None


async def test_mutes_are_remembered_within_bounds(
    hall: Hall, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutes, "MUTES_KEPT", 1)
    with connected(listener) as one:
        caller = caller_of(one)
        view = hall.enter(caller)
        hall.registry.mute(view.id, "first")
        hall.registry._by_id[view.id].caller = replace(caller, program=replace(caller.program, uid=4711))
        hall.registry.mute(view.id, "second")

        assert ["second"] * mutes.KEYS_EACH == [mute.why for mute in hall.registry._mutes._mutes.values()]


async def test_grants_can_be_dropped_one_by_one_by_credential_or_all(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        view = hall.enter(caller)
        hall.grant(caller, view)
        (row,) = hall.registry.grant_listing(view.id)

        assert [] == hall.registry.grant_listing("se_none")
        assert 0 == hall.registry.drop_grants(credential="another")
        assert 0 == hall.registry.drop_grants(grant_id="gr_none")
        assert 1 == hall.registry.drop_grants(grant_id=str(row["id"]))
        hall.grant(caller, view)
        assert 1 == hall.registry.drop_grants(credential="market")
        hall.grant(caller, view)
        assert 1 == hall.registry.drop_grants()


async def test_calls_and_denials_are_counted(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        view = hall.enter(caller_of(child))
        hall.registry.count(view.id, denied=False)
        hall.registry.count(view.id, denied=True)
        hall.registry.count("se_none", denied=True)

        found = hall.registry.find(caller_of(child))
        assert found is not None
        assert (2, 1) == (found.calls, found.denied)
        assert child.pid == view.anchor_pid


async def test_a_grant_for_nobody_is_made_for_nobody(hall: Hall, listener: socket.socket) -> None:
    with connected(listener) as child:
        caller = caller_of(child)
        view = hall.enter(caller)
        hall.registry.end(view.id, Ended.REVOKED)
        hall.grant(caller, view)

        assert [] == hall.registry.grant_listing()


async def until_ended(hall: Hall, view: SessionView) -> None:
    async with asyncio.timeout(60):
        while hall.registry.alive(view.id) or view.id not in {row[0] for row in hall.ended}:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

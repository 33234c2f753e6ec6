"""How often a human is asked: budgets that forking does not evade, and the memory of denials."""

from dataclasses import replace

import pytest

from broker.approvals import prompts as prompts_module
from broker.approvals.prompts import Over, Prompts
from broker.core.identity import UNIDENTIFIED, Span
from broker.core.policy.model import Limits
from broker.ports import Question
from tests.fakes import market
from tests.fakes.clock import SetClock
from tests.fakes.questions import question

TWO = Limits(prompts_per_minute=2)


def asked(
    session: str = "se_1", *, pid: int = 4711, exe: int = 1, uid: int = 1000, agent: str = UNIDENTIFIED
) -> Question:
    made = question(session=session, caller=market.agent(pid, name=agent), limits=TWO)
    program = replace(made.caller.program, exe_id=(8, exe), uid=uid)
    return replace(made, caller=replace(made.caller, program=program))


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def prompts(clock: SetClock) -> Prompts:
    return Prompts(monotonic_s=clock.monotonic_s)


def test_a_session_has_so_many_prompts_a_minute(prompts: Prompts, clock: SetClock) -> None:
    assert [None, None, Over(limit="2 cards in a minute", shared=False)] == [prompts.count(asked()) for _ in range(3)]
    clock.advance(seconds=60)
    assert prompts.count(asked()) is not None
    clock.advance(seconds=1)
    assert prompts.count(asked()) is None


@pytest.mark.parametrize("agent", [UNIDENTIFIED, "claude-code"])
def test_new_processes_and_copies_of_a_program_share_twice_as_many(prompts: Prompts, agent: str) -> None:
    """T43: neither a fork nor a copy of the executable is a way round."""
    told = [prompts.count(asked(f"se_{n}", pid=5000 + n, exe=n, agent=agent)) for n in range(5)]

    assert [None] * 4 == told[:4]
    assert Over(limit="4 cards in a minute", shared=False) == told[4]


def test_all_programs_of_a_user_share_four_times_as_many(prompts: Prompts) -> None:
    told = [prompts.count(asked(f"se_{number}", agent=f"agent-{number}")) for number in range(9)]

    assert [None] * 8 == told[:8]
    assert Over(limit="8 cards in a minute", shared=True) == told[8]
    assert prompts.count(asked("se_other", exe=1, uid=1001)) is None, "another user is not concerned"


def test_what_was_refused_is_not_counted(prompts: Prompts) -> None:
    for _ in range(10):
        prompts.count(asked())

    assert prompts.count(asked("se_2")) is None


def test_nothing_is_kept_of_those_who_left(prompts: Prompts, clock: SetClock) -> None:
    for number in range(8):
        prompts.count(asked(f"se_{number}", agent=f"agent-{number}"))
    clock.advance(seconds=61)
    prompts.count(asked("se_last"))

    assert 3 == len(prompts)


def test_a_denial_is_remembered_for_the_change_and_not_for_its_words(prompts: Prompts, clock: SetClock) -> None:
    prompts.deny(question())
    other_words = market.ask("orders.create", stall="s1", name="leek", note="please!", trace="7")

    assert prompts.denied_recently(question(other_words, session="se_2", caller=market.agent(5000)))
    assert not prompts.denied_recently(question(market.JOB))
    assert not prompts.denied_recently(question(market.ask("orders.create", stall="s1", name="kale")))
    clock.advance(seconds=market.POLICY.limits.denial_memory_s)
    assert not prompts.denied_recently(question())


def test_a_denial_does_not_carry_over_to_another_target(prompts: Prompts) -> None:
    prompts.deny(question(market.ask("orders.cancel", order="o-1")))

    assert prompts.denied_recently(question(market.ask("orders.cancel", order="o-1"), session="se_2"))
    assert not prompts.denied_recently(question(market.ask("orders.cancel", order="o-2")))


def test_a_copy_of_the_program_is_no_way_round_a_denial(prompts: Prompts) -> None:
    """T43."""
    prompts.deny(asked(exe=1))

    assert prompts.denied_recently(asked("se_2", pid=5000, exe=2))
    assert not prompts.denied_recently(asked("se_3", agent="claude-code")), "another agent was not denied it"
    assert not prompts.denied_recently(asked("se_4", uid=1001))


def test_a_denied_read_is_remembered_as_well(prompts: Prompts) -> None:
    prompts.deny(question(market.LISTING))

    assert prompts.denied_recently(question(market.ask("prices.list", page="2")))
    assert not prompts.denied_recently(question(market.CREATE))


def test_denials_are_remembered_within_bounds(prompts: Prompts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts_module, "DENIALS_KEPT", 1)
    prompts.deny(question())
    prompts.deny(question(market.JOB))
    assert 1 == len(prompts._denials)

    assert [False, True] == [prompts.denied_recently(question(ask)) is not None for ask in (market.CREATE, market.JOB)]


def test_a_container_uses_up_nothing_of_the_users_and_is_one_whatever_runs_in_it(prompts: Prompts) -> None:
    def inside(session: str, *, name: str = "build", pid: int = 4711) -> Question:
        made = asked(session, pid=pid, exe=pid, agent="claude-code")
        return replace(made, caller=replace(made.caller, span=Span.CONTAINER, agent=name))

    told = [prompts.count(inside(f"se_{number}", pid=5000 + number)) for number in range(5)]

    assert [None] * 4 == told[:4]
    assert told[4] is not None
    assert prompts.count(inside("se_other", name="test")) is None, "another container"
    assert prompts.count(asked("se_mine")) is None, "the user's own programs"
    prompts.deny(inside("se_1"))
    assert prompts.denied_recently(inside("se_9", pid=6000)) is not None
    assert prompts.denied_recently(inside("se_9", name="test")) is None

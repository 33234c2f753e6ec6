"""Nonces and control sessions: good once, for one process, and gone with it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server import challenges as challenges_module
from broker.server.challenges import Challenges
from tests.fakes.clock import SetClock
from tests.fakes.processes import Peer, connected, listening

ME, YOU = (1, 2, 3), (1, 2, 4)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def challenges(clock: SetClock) -> Iterator[Challenges]:
    made = Challenges(monotonic_s=clock.monotonic_s)
    yield made
    made.close_all()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Peer]:
    with listening(tmp_path / "s") as listener, connected(listener) as made:
        yield made


def pidfd_of(pid: int) -> int:
    return os.pidfd_open(pid)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_nonce_is_good_once_and_for_its_process(challenges: Challenges) -> None:
    nonce = challenges.issue(ME)

    assert not challenges.use(nonce, YOU)
    assert challenges.use(nonce, ME)
    assert not challenges.use(nonce, ME)
    assert not challenges.use("0" * 32, ME)
    assert 32 == len(nonce) == len(challenges.issue(ME))


def test_a_nonce_ages(challenges: Challenges, clock: SetClock) -> None:
    old = challenges.issue(ME)
    clock.advance(seconds=59)
    fresh = challenges.issue(ME)
    clock.advance(seconds=1)

    assert not challenges.use(old, ME)
    assert challenges.use(fresh, ME)


def test_old_nonces_are_not_kept(challenges: Challenges, clock: SetClock) -> None:
    for _ in range(10):
        challenges.issue(ME)
    clock.advance(seconds=61)
    challenges.issue(YOU)

    assert 1 == len(challenges._nonces)
    assert {YOU: 1} == dict(challenges._held)


def test_one_process_uses_up_its_own_nonces_alone(challenges: Challenges) -> None:
    mine = challenges.issue(ME)
    theirs = [challenges.issue(YOU) for _ in range(challenges_module.NONCES_PER_PROCESS + 1)]

    assert challenges.use(mine, ME)
    assert not challenges.use(theirs[0], YOU)
    assert challenges.use(theirs[1], YOU)


def test_there_are_so_many_nonces_in_all(challenges: Challenges, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(challenges_module, "NONCES_MAX", 2)
    first = challenges.issue((0, 0, 0))
    rest = [challenges.issue((number, 0, 0)) for number in (1, 2)]

    assert not challenges.use(first, (0, 0, 0))
    assert [True, True] == [challenges.use(nonce, (number, 0, 0)) for number, nonce in zip((1, 2), rest, strict=True)]


def test_a_control_session_ends_with_its_process(challenges: Challenges, child: Peer) -> None:
    pidfd = pidfd_of(child.pid)
    before = descriptors()
    challenges.open(ME, "key-1", pidfd)
    os.close(pidfd)  # it holds one of its own

    found = challenges.session(ME)
    assert found is not None
    assert ("key-1", 1) == (found.key_id, len(challenges))
    assert challenges.session(YOU) is None
    child.kill()
    assert challenges.session(ME) is None
    assert 0 == len(challenges)
    assert before - 1 == descriptors()


def test_the_dead_are_not_counted(challenges: Challenges, child: Peer) -> None:
    pidfd = pidfd_of(child.pid)
    challenges.open(ME, "key-1", pidfd)
    child.kill()

    assert 0 == len(challenges)
    os.close(pidfd)


def test_opening_once_more_takes_the_place_of_the_first(challenges: Challenges) -> None:
    own = pidfd_of(os.getpid())
    before = descriptors()
    challenges.open(ME, "key-1", own)
    challenges.open(ME, "key-2", own)

    found = challenges.session(ME)
    assert found is not None
    assert "key-2" == found.key_id
    assert before + 1 == descriptors()
    os.close(own)


def test_there_are_so_many_control_sessions(challenges: Challenges, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(challenges_module, "SESSIONS_MAX", 1)
    own = pidfd_of(os.getpid())
    challenges.open(ME, "key-1", own)
    challenges.open(YOU, "key-1", own)
    os.close(own)

    assert challenges.session(ME) is None
    assert challenges.session(YOU) is not None


def test_a_lock_closes_all_of_it(challenges: Challenges) -> None:
    own = pidfd_of(os.getpid())
    before = descriptors()
    nonce = challenges.issue(ME)
    challenges.open(ME, "key-1", own)
    challenges.close_all()

    assert challenges.session(ME) is None
    assert not challenges.use(nonce, ME)
    assert before == descriptors()
    challenges.close(ME)
    os.close(own)


def test_a_process_is_told_apart_by_more_than_its_number(challenges: Challenges) -> None:
    own = pidfd_of(os.getpid())
    challenges.open((1, 2, 3), "key-1", own)
    os.close(own)

    assert [None] * 3 == [challenges.session(other) for other in ((1, 2, 4), (1, 3, 3), (2, 2, 3))]

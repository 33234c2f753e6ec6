"""What commands leave on a real host, through the real daemon: fences, the output of detached ones, old markers."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.core.ssh.wrapper import SPOOL_BYTES
from tests.live.house import until
from tests.live.ssh_house import SshHouse, begin, gist, open_ssh_house, reconcile, run, settled
from tests.live.sshd import NORMAL, Lab, NotHere, Sshd, open_lab
from tests.live.tcp_cuts import Cut, CutProxy, How

pytestmark = pytest.mark.live

NUMBERS = itertools.count(1)
LATER = ("-I", str(Path(__file__).with_name("later_daemon.py")))
DAY_S = 25 * 3600
FIRST = "echo ran >> ran; true"
SHORT_BY_BYTES = 700  # so much of what is sent last is the end of the command's own packet
SEED_LINE = 4  # of a key's file: the lines before hold what is public
JOB = (
    "echo before; echo bad >&2; cat .key; : >begun; while ! [ -e go ]; do sleep 0.05; done; echo after; exit {status}\n"
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    try:
        with open_lab() as made:
            yield made
    except NotHere as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def server(lab: Lab) -> Sshd:
    return lab.start(NORMAL)


@pytest.fixture
def at(tmp_path: Path, lab: Lab, server: Sshd) -> Iterator[SshHouse]:
    account = lab.account("bash", mark=f"l{next(NUMBERS)}")
    with open_ssh_house(tmp_path / "h", lab, server, account, texts=(FIRST,)) as made:
        yield made


@pytest.fixture
def proxied(tmp_path: Path, lab: Lab, server: Sshd) -> Iterator[tuple[SshHouse, CutProxy]]:
    with ExitStack() as stack:
        proxy = stack.enter_context(CutProxy(("127.0.0.1", server.port)))
        account = lab.account("bash", mark=f"p{next(NUMBERS)}")
        home = tmp_path / "h"
        made = stack.enter_context(open_ssh_house(home, lab, server, account, texts=(FIRST,), port=proxy.port))
        yield made, proxy


def markers(at: SshHouse) -> set[str]:
    ops = at.here(".doorward") / "ops"
    return {path.name for path in ops.iterdir()} if ops.exists() else set()


def place(at: SshHouse, name: str, text: str) -> None:
    """A file of the account's."""
    at.here(name).write_text(text, encoding="utf-8")
    at.here(name).chmod(0o644)


def sent_by_a_first_command(at: SshHouse, proxy: CutProxy) -> int:
    """How many bytes go to a host by a first command there and all that comes before it."""
    with at.agent() as agent:
        assert "success" == run(agent, command=FIRST)["category"]
    return proxy.links[-1].up


def test_a_first_command_that_never_reached_its_host_is_told_to_be_fenced(
    tmp_path: Path, lab: Lab, server: Sshd, proxied: tuple[SshHouse, CutProxy]
) -> None:
    """The store that the probe saw was noted before the command was sent, so a fence there is proof."""
    measured, measuring = proxied
    whole = sent_by_a_first_command(measured, measuring)
    with ExitStack() as stack:
        proxy = stack.enter_context(CutProxy(("127.0.0.1", server.port)))
        account = lab.account("bash", mark=f"p{next(NUMBERS)}")
        home = tmp_path / "second"
        at = stack.enter_context(open_ssh_house(home, lab, server, account, texts=(FIRST,), port=proxy.port))
        agent = stack.enter_context(at.agent())
        proxy.plan = Cut(how=How.RST, up=whole - SHORT_BY_BYTES)
        lost = run(agent, command=FIRST)
        assert ("outcome_unknown", "reconcile_first", "unknown") == (
            lost["category"], lost["retry"], lost["remote_effect"],
        ), lost  # fmt: skip
        assert (True, set()) == (at.here(".doorward/store").exists(), markers(at)), "the probe came before"
        proxy.plan = Cut()
        told = reconcile(agent, lost["correlation_id"])

        assert ("confirmed_failure", "not_found", "never", "none") == gist(told), told
        assert "never_started" == told["ssh"]["marker"]
        assert not at.here("ran").exists()
        again = run(agent, command=FIRST)
        assert ("success", "ran\n") == (again["category"], at.text("ran")), "and it may be asked for anew"
        assert {lost["correlation_id"], again["correlation_id"]} == markers(at)


def test_a_first_command_that_outlives_the_daemon_is_looked_up_in_the_store_it_was_sent_to(at: SshHouse) -> None:
    place(at, "job", JOB.format(status=0))
    place(at, ".key", "")
    with at.agent() as agent:
        number = begin(agent, operation="job", args={"script": "job"})
        until(at.here("begun").exists)
        at.house.kill()
        agent.hang_up(number)
    at.house.open()
    (doubt,) = until(lambda: at.house.human.client.operations(state="in_doubt"))
    told = at.house.human.client.reconcile(str(doubt["correlation_id"]))
    assert ("outcome_unknown", "still_running") == (told["category"], told["code"]), told
    for path in (at.here(".doorward") / "ops").iterdir():  # as if it had never come there
        path.unlink()
    told = at.house.human.client.reconcile(str(doubt["correlation_id"]))
    at.here("go").touch()

    assert ("confirmed_failure", "not_found") == (told["category"], told["code"]), told


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (0, ("success", "reconciled", "never", "applied")),
        (5, ("command_failed", "exit_status", "after_human", "unknown")),
    ],
)
def test_what_a_detached_command_wrote_after_its_connection_was_lost_is_read_back(
    proxied: tuple[SshHouse, CutProxy], status: int, ending: tuple[str, str, str, str]
) -> None:
    at, proxy = proxied
    place(at, "job", JOB.format(status=status))
    place(at, ".key", "")
    with at.agent() as agent:
        number = begin(agent, operation="job", args={"script": "job"})
        until(at.here("begun").exists)
        proxy.cut_now()
        lost = agent.end_act(number)
        assert "outcome_unknown" == lost["category"], lost
        running = reconcile(agent, lost["correlation_id"])
        assert ("outcome_unknown", "still_running", None) == (
            running["category"], running["code"], running["completeness"],
        )  # fmt: skip
        assert not {"stdout", "stdout_b64"} & set(running["ssh"]), "what is there so far is not shown as if it were all"
        at.here("go").touch()
        told = settled(agent, lost["correlation_id"])

    assert ending == gist(told), told
    assert ("before\nafter\n", "bad\n", 13, 4, "finished", status) == tuple(
        told["ssh"][name] for name in ("stdout", "stderr", "stdout_bytes", "stderr_bytes", "marker", "exit_status")
    )
    assert told["completeness"]["complete"]


def test_what_is_read_back_is_scrubbed_and_says_where_it_was_cut(proxied: tuple[SshHouse, CutProxy], lab: Lab) -> None:
    at, proxy = proxied
    place(at, ".key", lab.user_key.read_text(encoding="ascii") + "x" * (SPOOL_BYTES + 10))
    place(at, "job", JOB.format(status=0))
    with at.agent() as agent:
        number = begin(agent, operation="job", args={"script": "job"})
        until(at.here("begun").exists)
        proxy.cut_now()
        lost = agent.end_act(number)
        at.here("go").touch()
        told = settled(agent, lost["correlation_id"])

    secret = lab.user_key.read_text(encoding="ascii").splitlines()[SEED_LINE]
    assert ("partial", "applied") == (told["category"], told["remote_effect"]), told
    assert secret not in str(told)
    assert {"OUTPUT_TRUNCATED"} == {reason["code"] for reason in told["completeness"]["incomplete_reasons"]}
    assert SPOOL_BYTES == told["ssh"]["stdout_bytes"]


def test_a_day_later_settled_markers_are_gone_and_fences_and_doubts_stay(proxied: tuple[SshHouse, CutProxy]) -> None:
    at, proxy = proxied
    with at.agent() as agent:
        old = {run(agent, command=FIRST)["correlation_id"] for _ in range(3)}
        place(at, "job", "sleep 600\n")
        number = begin(agent, operation="job", args={"script": "job"})
        until(lambda: len(markers(at) - old) > 0)
        proxy.cut_now()
        doubted = agent.end_act(number)["correlation_id"]
    fence = at.here(f".doorward/ops/op_{'f' * 44}")
    fence.write_text("fence a b end\n", encoding="ascii")
    fence.chmod(0o666)
    at.house.kill()
    at.house.start(str(DAY_S), program=LATER).open()
    with at.agent() as agent:
        run(agent, operation="uptime")
        assert old <= markers(at), "a command without a marker asks for nothing"
        at.house.human.client.settle(doubted, "not_applied", "so that the next may run", at.house.key)
        told = run(agent, command=FIRST)
        assert "success" == told["category"], told
        (asked,) = until(lambda: at.house.human.events("markers.collected"))

    left = {name.partition(".")[0] for name in markers(at)}
    assert {doubted, told["correlation_id"], fence.name} == left
    assert (3, 3, "web-1") == tuple(asked["fields"][name] for name in ("asked", "gone", "host"))
    assert 1 == len(at.house.human.events("markers.asked"))

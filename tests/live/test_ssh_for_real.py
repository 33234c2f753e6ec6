"""Commands on a real sshd through a real daemon: gates, grants, host keys, files, and what became of what was cut."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import Agent, until
from tests.live.ssh_house import SshHouse, begin, gist, open_ssh_house, reconcile, run
from tests.live.sshd import NORMAL, Lab, NotHere, open_lab

pytestmark = pytest.mark.live

NUMBERS = itertools.count(1)
TEXTS = (
    "echo out; echo err >&2; exit 3",
    "sleep 3; echo late > late; exit 7",
    "echo $$ > pid; sleep 60; echo never > never",
    "cat id_copy",
    "env > seen; cat /proc/self/cmdline >> seen",
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    try:
        with open_lab() as made:
            yield made
    except NotHere as why:
        pytest.skip(str(why))


@pytest.fixture
def at(tmp_path: Path, lab: Lab) -> Iterator[SshHouse]:
    """Each test has a user of its own."""
    server, account = lab.start(NORMAL), lab.account("bash", mark=str(next(NUMBERS)))
    with open_ssh_house(tmp_path / "h", lab, server, account, texts=TEXTS) as made:
        yield made
    server.stop()


@pytest.fixture
def agent(at: SshHouse) -> Iterator[Agent]:
    with at.agent() as made:
        yield made


def test_a_declared_read_runs_and_leaves_nothing(at: SshHouse, agent: Agent) -> None:
    told = run(agent, operation="uptime")

    assert ("success", "ok", "never", "none") == gist(told), told
    assert "load average" in told["ssh"]["stdout"]
    assert (0, None, True) == (told["ssh"]["exit_status"], told["ssh"]["marker"], told["completeness"]["complete"])
    assert "web.uptime" == run(agent, command="uptime")["operation"]
    assert not at.here(".doorward").exists()


def test_a_shell_text_that_a_rule_spells_runs_and_its_streams_come_apart(agent: Agent) -> None:
    told = run(agent, command=TEXTS[0])

    assert ("command_failed", "exit_status", "reconcile_first", "unknown") == gist(told), told
    assert (3, "out\n", "err\n", "started") == tuple(
        told["ssh"][name] for name in ("exit_status", "stdout", "stderr", "marker")
    )
    told = reconcile(agent, told["correlation_id"])
    assert told["ssh"] is not None, told
    assert ("command_failed", "finished") == (told["category"], told["ssh"]["marker"]), told


def test_the_same_id_gives_the_record_and_runs_nothing_again(agent: Agent) -> None:
    first = run(agent, command=TEXTS[0], request_id="r1")
    again = run(agent, command=TEXTS[0], request_id="r1")

    assert first == again
    assert "request_id_conflict" == run(agent, operation="uptime", request_id="r1")["code"]


def test_a_denied_command_reaches_the_server_with_no_byte(at: SshHouse, agent: Agent) -> None:
    """T10: neither by policy nor by a human's no is anything sent, not even a connection made."""
    before = at.connections()
    for request in ({"argv": ["rm", "-rf", "x"]}, {"argv": ["touch", "/forbidden"]}, {"command": "uptime; id"}):
        assert "policy_denied" == run(agent, **request)["category"]
    number = begin(agent, operation="note", args={"name": "seen"}, reason="leave a note")
    card = at.house.human.wait_for_card()
    served = at.house.human.client.approval(card)
    at.house.human.deny(card, "not today")
    told = agent.end_act(number)

    assert ("call_denied", "declined", "never", "none") == gist(told), told
    assert before == at.connections()
    assert not at.here("seen").exists()
    ssh = served.card.ssh
    assert ssh is not None
    assert ("touch seen", at.account.name, "127.0.0.1", at.server.port, "required", "known_hosts") == (
        ssh.what, ssh.user, ssh.address, ssh.port, ssh.marker, ssh.host_key and ssh.host_key.state,
    )  # fmt: skip
    assert "RUN" != served.card.summary.effect == "WRITE"


def test_an_approved_command_runs_once_and_leaves_a_marker(at: SshHouse, agent: Agent) -> None:
    number = begin(agent, operation="note", args={"name": "noted"})
    at.house.human.approve(at.house.human.wait_for_card())
    told = agent.end_act(number)

    assert ("success", "ok", "never", "applied") == gist(told), told
    assert at.here("noted").exists()
    assert [told["correlation_id"]] == [path.name for path in (at.here(".doorward") / "ops").iterdir()]


def test_a_yes_for_the_session_covers_this_command_on_this_host_and_no_other(at: SshHouse, agent: Agent) -> None:
    """T03: not the first word, not another argument, not the same words with other input."""
    number = begin(agent, argv=["echo", "one"])
    card = at.house.human.wait_for_card()
    assert "this very command" in at.house.human.client.approval(card).card.yes.session.what  # type: ignore[operator]
    at.house.human.approve(card, scope="session")
    assert "success" == agent.end_act(number)["category"]

    assert "success" == run(agent, argv=["echo", "one"])["category"]
    others = ({"argv": ["echo", "two"]}, {"argv": ["echo", "one", "two"]}, {"argv": ["echo", "one"], "stdin": "x"})
    for other in others:
        number = begin(agent, **other)
        at.house.human.approve(at.house.human.wait_for_card())
        assert "success" == agent.end_act(number)["category"], "it was asked about anew"


def test_eight_arrivals_of_one_id_have_one_effect(at: SshHouse, agent: Agent) -> None:
    text = "sleep 3; echo late > late; exit 7"
    numbers = [begin(agent, command=text, request_id="once") for _ in range(8)]
    answers = [agent.end_act(number) for number in numbers]

    assert {"command_failed"} == {told["category"] for told in answers}
    assert 1 == len({told["correlation_id"] for told in answers})
    assert 1 == len(list((at.here(".doorward") / "ops").iterdir()))


def test_a_file_is_put_whole_and_got_as_it_is(at: SshHouse, agent: Agent) -> None:
    put = agent.ask("POST", "/v1/ssh/put", {"host": "web-1", "path": "box/a.txt", "content": "one\n"})["value"]
    assert "confirmed_failure" == put["category"], put
    at.here("box").mkdir()
    at.here("box").chmod(0o777)
    put = agent.ask("POST", "/v1/ssh/put", {"host": "web-1", "path": "box/a.txt", "content": "one\n", "mode": "0640"})[
        "value"
    ]
    got = agent.ask("POST", "/v1/ssh/get", {"host": "web-1", "path": "box/a.txt"})["value"]

    assert ("success", "ok", "never", "applied") == gist(put), put
    assert "yes" == put["ssh"]["transfer"]["replaced"]
    assert 0o640 == at.here("box/a.txt").stat().st_mode & 0o777
    assert ("success", "one\n", "none") == (got["category"], got["ssh"]["stdout"], got["remote_effect"])
    assert ["a.txt"] == [path.name for path in at.here("box").iterdir()]


def test_a_command_that_outlives_the_daemon_is_found_running_and_then_with_its_end(at: SshHouse, agent: Agent) -> None:
    """C06, first half: the local side dies after the remote start; nothing is repeated, the end is learnt."""
    number = begin(agent, command=TEXTS[1], request_id="c06")
    until(lambda: _marked(at), limit_s=20)
    at.house.kill()
    agent.hang_up(number)
    at.house.open()
    (doubt,) = until(lambda: at.house.human.client.operations(state="in_doubt"))
    told = reconcile_by_human(at, str(doubt["correlation_id"]))
    if told["code"] == "still_running":
        assert ("outcome_unknown", "still_running", "after_delay", "unknown") == gist(told), told
        told = until(lambda: _not_running(at, str(doubt["correlation_id"])), limit_s=20, every_s=0.2)

    assert ("command_failed", "exit_status") == (told["category"], told["code"]), told
    assert (7, "finished") == (told["ssh"]["exit_status"], told["ssh"]["marker"])
    assert "late\n" == at.text("late")
    assert [] == at.house.human.client.operations(state="in_doubt")


def _marked(at: SshHouse) -> bool:
    ops = at.here(".doorward") / "ops"
    return ops.exists() and any(path.read_bytes().startswith(b"start ") for path in ops.iterdir())


def reconcile_by_human(at: SshHouse, correlation_id: str) -> dict[str, Any]:
    return dict(at.house.human.client.reconcile(correlation_id))


def _not_running(at: SshHouse, correlation_id: str) -> dict[str, Any]:
    told = reconcile_by_human(at, correlation_id)
    return {} if told["code"] == "still_running" else told

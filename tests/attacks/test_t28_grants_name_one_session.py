"""T28: a grant is one process's; no other, no child outside its tree, no shell and no later program has part in it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.pids import LAST, ended, reusing
from tests.fakes.processes import other_program
from tests.live.house import AGENT, Agent, House
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

LOOK: dict[str, Any] = {"service": "shop", "operation": "orders.list"}
HURRIED = {**LOOK, "wait_s": 0}


def granted(house: House, agent: Agent) -> None:
    """Let a human grant this agent to look, for as long as its session lasts."""
    asking = agent.begin_act(**LOOK)
    house.human.approve(house.human.wait_for_card(), scope="session")
    assert "success" == agent.end_act(asking)["category"]
    assert "success" == agent.act(**LOOK)["category"]


def gist(envelope: dict[str, Any]) -> str:
    found: str = envelope["category"]
    return found


def test_another_process_of_the_same_program_has_no_part_in_a_grant(house: House, upstream: Upstream) -> None:
    with house.agent() as agent, house.agent() as other:
        granted(house, agent)
        assert "approval_pending" == gist(other.act(**HURRIED))
        child = agent.child(house.places.agent_socket, "POST", "/v1/http", HURRIED)
        assert "approval_pending" == gist(child["value"])
        orphan = agent.child(house.places.agent_socket, "POST", "/v1/http", HURRIED, orphan=True)
        assert "approval_pending" == gist(orphan["value"])
    assert 2 == len(upstream.requests)


def test_a_tree_shares_its_grant_and_what_left_it_does_not(house: House) -> None:
    with house.agent() as agent:
        agent.ask("POST", "/v1/session", {"tree": True})
        granted(house, agent)
        child = agent.child(house.places.agent_socket, "POST", "/v1/http", HURRIED)
        assert "success" == gist(child["value"])
        orphan = agent.child(house.places.agent_socket, "POST", "/v1/http", HURRIED, orphan=True)
        assert "approval_pending" == gist(orphan["value"])


def test_declaring_a_tree_takes_no_grant_of_the_process_along(house: House) -> None:
    with house.agent() as agent:
        granted(house, agent)
        agent.ask("POST", "/v1/session", {"tree": True})

        assert "approval_pending" == gist(agent.act(**HURRIED))


def test_a_later_process_inherits_nothing(house: House) -> None:
    with house.agent() as agent:
        granted(house, agent)
    with house.agent() as later:
        assert "approval_pending" == gist(later.act(**HURRIED))


def test_a_process_with_a_pid_that_was_used_before_inherits_nothing(house: House, upstream: Upstream) -> None:
    """For real where this user may choose the next pid, which root may; a new process is a new one in any case."""
    with house.agent() as agent:
        granted(house, agent)
        pid = agent.pid
    before = len(upstream.requests)
    waiting = 'read word; exec "$0" -I "$1" "$2"'
    words = ["/bin/sh", "-c", waiting, sys.executable, str(AGENT), house.places.agent_socket]
    later = reusing(pid, words) or subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert (later.pid == pid) is os.access(LAST, os.W_OK)
        order = {"id": 1, "do": "ask", "method": "POST", "path": "/v1/http", "body": HURRIED}
        assert later.stdin is not None
        assert later.stdout is not None
        later.stdin.write(b"go\n" + json.dumps(order).encode() + b"\n")
        later.stdin.flush()
        assert later.pid == json.loads(later.stdout.readline())["pid"]

        assert "approval_pending" == json.loads(later.stdout.readline())["value"]["category"]
        assert before == len(upstream.requests)
    finally:
        ended(later)


def test_a_process_that_becomes_another_program_keeps_no_grant(house: House, tmp_path: Path) -> None:
    """T42."""
    program = str(other_program(tmp_path))
    with house.agent() as agent:
        granted(house, agent)
        agent.become(program, "-I", str(AGENT), house.places.agent_socket)

        assert "approval_pending" == gist(agent.act(**HURRIED))
        assert [] == house.human.client.grants()


SHELL = ("/bin/sh", "-c", f'"{sys.executable}" -I "$0" "$1"; true')


def test_two_agents_in_one_shell_share_nothing(house: House) -> None:
    """T41."""
    both = f'"{sys.executable}" -I "{AGENT}" "$0" GET /v1/session; "{sys.executable}" -I "{AGENT}" "$0" GET /v1/session'
    told = subprocess.run(
        ["/bin/sh", "-c", both, house.places.agent_socket], capture_output=True, check=True, timeout=60
    )
    first, second = told.stdout.decode().splitlines()

    assert first != second
    assert '"span": "connection"' in first
    assert f'"pid": {os.getpid()}' not in first + second


def test_a_shell_anchors_nothing_though_it_is_claimed(house: House) -> None:
    """T41: nor does anything that is not among the claimer's own ancestors."""
    with Agent(house.places.agent_socket, SHELL) as agent:
        shell = int(Path(f"/proc/{agent.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[1])
        assert "sh" in os.path.basename(os.readlink(f"/proc/{shell}/exe"))  # noqa: PTH119, PTH115 - a link of /proc
        for claimed in (shell, os.getppid(), 2):
            told = agent.ask("POST", "/v1/session", {"ancestor_pid": claimed})["value"]
            if claimed != os.getppid():
                assert (agent.pid, "connection") == (told["anchor"]["pid"], told["span"]), claimed

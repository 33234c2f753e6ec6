"""T42: whoever a process becomes, also another script of the same interpreter, has nothing of what it was granted."""

import sys
from pathlib import Path

import pytest

from tests.live.house import AGENT, open_house, until
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

READ = {"service": "shop", "operation": "orders.list", "args": {}}
CREATE = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}


def test_what_was_asked_before_an_exec_is_not_sent_after_it(tmp_path: Path) -> None:
    """The human says yes to a program that is not there any more when they do."""
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as house, house.agent() as agent:
        agent.begin_act(**CREATE)
        card = house.human.wait_for_card()
        agent.become(sys.executable, "-I", str(AGENT), house.places.agent_socket)
        house.human.approve(card)
        (result,) = until(lambda: house.human.events("action.result"))

        assert ("session_denied", "none") == tuple(result["fields"][name] for name in ("category", "remote_effect"))
        assert [] == upstream.requests


def test_a_process_that_execs_the_same_interpreter_asks_anew(tmp_path: Path) -> None:
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as house, house.agent() as agent:
        asked = agent.begin_act(**READ)
        house.human.approve(house.human.wait_for_card(), scope="session")
        assert "success" == agent.end_act(asked)["category"]
        assert "success" == agent.act(**READ, wait_s=0)["category"]
        agent.become(sys.executable, "-I", str(AGENT), house.places.agent_socket)

        assert "approval_pending" == agent.act(**READ, wait_s=0)["category"]
        assert 2 == len(upstream.requests)

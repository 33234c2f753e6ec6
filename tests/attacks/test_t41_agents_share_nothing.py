"""T41, T28: agents below one editor or terminal have no session in common, whatever one of them says of itself."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import AGENT, Agent, House, open_house, until
from tests.live.plain_upstream import Upstream
from tests.live.terminal import Terminal

pytestmark = pytest.mark.live

READ = {"service": "shop", "operation": "orders.list", "args": {}, "wait_s": 0}


def session_of_child(house: House, parent: Agent, body: dict[str, Any] | None = None) -> dict[str, Any]:
    method = "GET" if body is None else "POST"
    told: dict[str, Any] = parent.child(house.places.agent_socket, method, "/v1/session", body)["value"]
    return told


def test_who_claims_a_common_ancestor_draws_nobody_else_into_its_session(house: House) -> None:
    with house.agent() as editor:
        claimed = session_of_child(house, editor, {"ancestor_pid": editor.pid})
        sibling = session_of_child(house, editor)

        assert (editor.pid, "tree") == (claimed["anchor"]["pid"], claimed["span"])
        assert (None, "connection") == (sibling["session"], sibling["span"])
        assert editor.pid != sibling["anchor"]["pid"]


def test_a_child_that_claims_its_parent_has_nothing_of_what_the_parent_alone_was_granted(
    house: House, upstream: Upstream
) -> None:
    with house.agent() as parent:
        asked = parent.begin_act(**{**READ, "wait_s": 30})
        house.human.approve(house.human.wait_for_card(), scope="session")
        assert "success" == parent.end_act(asked)["category"]
        claimed = session_of_child(house, parent, {"ancestor_pid": parent.pid})

        assert [] == claimed["grants"]
        assert claimed["session"]["id"] != parent.ask("GET", "/v1/session")["value"]["session"]["id"]
        assert (
            "approval_pending" == parent.child(house.places.agent_socket, "POST", "/v1/http", READ)["value"]["category"]
        )
    assert 1 == len(upstream.requests)


def test_a_claim_keeps_the_whole_tree_from_deciding(house: House) -> None:
    with house.agent() as editor:
        session_of_child(house, editor, {"ancestor_pid": editor.pid})
        link = editor.child(house.places.control_socket, "GET", "/v1/approvals")

        # The claim ended with its connection, and the session hangs on the editor for as long as that lives.
        assert (403, "agent_session") == (link["status"], link["value"]["error"]["code"])


def test_a_multiplexer_anchors_nothing_though_it_is_named_and_claimed(tmp_path: Path, upstream: Upstream) -> None:
    """Two agents in one tmux, below a server that the policy calls an agent and that both say they belong to."""
    policy = """
version = 1

[agents.everybody]
exe = "*/tmux*"

[agents.shell]
exe = "*/*sh"

[services.open]
kind = "http"
base_url = "{origin}/open"
ad_hoc = ["GET"]

[[rules]]
id = "free"
services = ["open"]
agents = ["everybody", "shell"]
approval = "none"
"""
    script = tmp_path / "both.sh"
    asking = f'"{sys.executable}" -I "{AGENT}" "$1" POST /v1/session "{{\\"ancestor_pid\\": $PPID}}"'
    script.write_text(f'echo $PPID > "$2/server"\n{asking} > "$2/1"\n{asking} > "$2/2"\nexec sleep 600\n')
    with open_house(tmp_path / "h", origin=upstream.origin, policy=policy) as house:
        command = ["sh", str(script), house.places.agent_socket, str(tmp_path)]
        with Terminal("t41", command, environ=dict(os.environ), size=(80, 24)):
            second = tmp_path / "2"
            until(lambda: second.exists() and second.read_text(encoding="utf-8").endswith("\n"))
        told = [json.loads((tmp_path / name).read_text(encoding="utf-8"))["value"] for name in ("1", "2")]
        server = int((tmp_path / "server").read_text(encoding="ascii"))

    assert [("unidentified", "connection")] * 2 == [(one["agent"], one["span"]) for one in told]
    assert 3 == len({server, *(one["anchor"]["pid"] for one in told)})
    assert told[0]["session"]["id"] != told[1]["session"]["id"]


def test_an_agent_that_asked_first_holds_no_other_named_agent_below_it(tmp_path: Path, upstream: Upstream) -> None:
    policy = """
version = 1

[agents.outer]
exe = "*/python3*"
argv = "*agent_process.py"

[agents.inner]
exe = "*/python3*"
argv = "*/v1/session"

[services.open]
kind = "http"
base_url = "{origin}/open"
ad_hoc = ["GET"]

[[rules]]
id = "free"
services = ["open"]
agents = ["outer"]
approval = "session"
"""
    with open_house(tmp_path / "n", origin=upstream.origin, policy=policy) as house, house.agent() as outer:
        assert "outer" == outer.ask("POST", "/v1/session", {})["value"]["agent"]
        # A word of the command line names the inner one as well: the nearer name counts, and has its own session.
        inner = session_of_child(house, outer)

        assert ("inner", None) == (inner["agent"], inner["session"])
        assert outer.pid != inner["anchor"]["pid"]

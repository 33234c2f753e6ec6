"""T38: after an unlock another process of the same user reads nothing that is sealed, whatever this one may."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import AGENT, House, open_house
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

SEALED = [
    ("GET", "/v1/credentials", None),
    ("GET", "/v1/operations", None),
    ("GET", "/v1/audit/events", None),
    ("GET", "/v1/approvals/{id}", None),
    ("POST", "/v1/explain", {"request": {"service": "shop", "operation": "orders.list"}}),
    ("POST", "/v1/operations/op_00000000000000000000000000000000000000000000/reconcile", {}),
]


def stranger(house: House, method: str, path: str, body: object = None) -> Any:
    """What another process of this user is told."""
    words = [sys.executable, "-I", str(AGENT), house.places.control_socket, method, path]
    done = subprocess.run(
        [*words, *([] if body is None else [json.dumps(body)])], capture_output=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_another_process_reads_nothing_sealed(tmp_path: Path) -> None:
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as house, house.agent() as agent:
        asking = agent.begin_act(service="shop", operation="orders.create", args={"name": "canary-order"})
        card = house.human.wait_for_card()
        for method, template, body in SEALED:
            path = template.replace("{id}", card)
            told = stranger(house, method, path, body)
            assert (401, "control_session_required") == (told["status"], told["value"]["error"]["code"]), path
            assert house.human.ask(method, path, body)[0] == 200, "this process may, on any connection"
        listed = stranger(house, "GET", "/v1/approvals")
        assert "canary-order" not in listed["text"], "a list shows no body"
        house.human.deny(card)
        agent.end_act(asking)
        refused = house.human.events("control.refused")

    assert [path for _, path, _ in SEALED[:3]] == [event["fields"]["route"] for event in refused[:3]]
    assert {"control_session_required"} == {event["fields"]["code"] for event in refused}


def test_a_child_of_the_approver_is_not_the_approver(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        assert 200 == house.human.ask("GET", "/v1/credentials")[0]
        assert 401 == stranger(house, "GET", "/v1/credentials")["status"], "it is a child of this very process"


def test_an_answer_to_a_challenge_opens_for_who_was_asked_alone(tmp_path: Path) -> None:
    """A signature that another process sends on is worth nothing: nonce and pid are not its own."""
    with open_house(tmp_path / "h") as house:
        house.human.client.lock()
        house.human.unlock()
        nonce = house.human.ask("GET", "/v1/nonce")[1]["nonce"]
        for pid in (1, 2):
            signature = house.key.sign_control({"nonce": nonce, "pid": pid, "log_id": house.log_id})
            told = stranger(house, "POST", "/v1/control-session", {"nonce": nonce, "signature": b64(signature)})
            assert (409, "stale_nonce") == (told["status"], told["value"]["error"]["code"])
        assert 401 == house.human.ask("GET", "/v1/credentials")[0]


def b64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()

"""T04: agent.sock has no verb that decides; a decision from the requester's own tree is refused and recorded."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import AGENT, Agent, House, open_house
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

CREATE = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("t04") / "h", origin=upstream.origin) as made:
        yield made


def decisions_of(house: House, card: str) -> list[tuple[str, dict[str, object]]]:
    """A no, and a yes as it would be sent by whoever has the approver's key."""
    served = house.human.client.approval(card)
    statement: dict[str, Any] = {
        "approval_id": card,
        "request_digest": served.card.request_digest,
        "card_digest": served.digest,
        "decision": "approve",
        "choice": None,
        "scope": "once",
        "max_uses": None,
        "max_age_s": None,
        "reason": None,
        "policy_digest": served.card.why.policy,
        "log_id": house.log_id,
        "vault_term": served.card.vault_term,
        "nonce": served.nonce,
        "decided_at_ms": served.served_at_ms,
    }
    yes: dict[str, object] = {
        "decision": "approve",
        "scope": "once",
        "statement": statement,
        "signature": "A" * 86 + "==",
    }
    return [("deny", {"decision": "deny"}), ("approve", yes)]


def test_neither_the_requester_nor_what_it_started_decides(house: House, upstream: Upstream) -> None:
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        card = house.human.wait_for_card()
        before = len(house.human.events("control.refused"))
        for _, decision in decisions_of(house, card):
            path = f"/v1/approvals/{card}/decision"
            own = agent.ask("POST", path, decision, socket=house.places.control_socket)
            child = agent.child(house.places.control_socket, "POST", path, decision)
            for told in (own, child):
                assert (403, "agent_session") == (told["status"], told["value"]["error"]["code"])
        assert [card] == [row["id"] for row in house.human.cards()]
        refused = house.human.events("control.refused")[before:]
        house.human.deny(card)
        agent.end_act(asking)

    assert ["/v1/approvals/{id}/decision"] * 4 == [event["fields"]["route"] for event in refused]
    assert ["agent_session"] * 4 == [event["fields"]["code"] for event in refused]
    assert agent.pid in {event["fields"]["pid"] for event in refused}
    assert [] == upstream.requests


def test_who_left_the_tree_still_needs_the_approvers_key(house: House, upstream: Upstream) -> None:
    """A child that was forked away is nobody's: it may take away, as anybody may, and can approve nothing."""
    with house.agent() as agent:
        asking = agent.begin_act(**{**CREATE, "args": {"name": "two"}})
        card = house.human.wait_for_card()
        ((_, _), (_, yes)) = decisions_of(house, card)
        path = f"/v1/approvals/{card}/decision"
        orphan = agent.child(house.places.control_socket, "POST", path, yes, orphan=True)
        assert (401, "control_session_required") == (orphan["status"], orphan["value"]["error"]["code"])
        shown = agent.child(house.places.control_socket, "GET", f"/v1/approvals/{card}", orphan=True)
        assert 401 == shown["status"]
        house.human.deny(card)
        agent.end_act(asking)
    assert [] == upstream.requests


def test_a_tree_that_was_declared_is_an_agents_down_to_its_leaves(house: House) -> None:
    with Agent(house.places.agent_socket) as launcher:
        launcher.ask("POST", "/v1/session", {"label": "run", "tree": True})
        nested = launcher.run(
            sys.executable,
            "-c",
            "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)",
            *(sys.executable, "-I", str(AGENT), house.places.control_socket, "GET", "/v1/approvals"),
        )

    assert '"status": 403' in nested["out"]


@pytest.mark.parametrize("word", ["approve", "deny", "decision", "approvals", "grant"])
def test_there_is_no_way_to_decide_on_the_agents_socket(house: House, word: str) -> None:
    with house.agent() as agent:
        for method in ("POST", "PUT", "GET", "DELETE"):
            assert 404 == agent.ask(method, f"/v1/{word}")["status"]
            assert 404 == agent.ask(method, f"/v1/approvals/ap_000000000000/{word}")["status"]


def test_the_house_is_where_it_was_put(house: House) -> None:
    assert Path(house.places.control_socket).is_socket()

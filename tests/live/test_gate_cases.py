"""Every no of our own: nothing is dialled, the agent is told which no it is, and the trail ends with it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.findings import breaches, canaries, gist, in_doubt, trail, verdict
from tests.live.house import Agent, House, open_house
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-gate-cases"
SERVICES = {"asked": "per_call", "trusted": "session", "barred": "deny", "hasty": "per_call"}
POLICY = """
version = 1

[limits]
prompts_per_minute = 60

[[rules]]
id = "ask-each-time"
services = ["asked"]
approval = "per_call"

[[rules]]
id = "ask-once"
services = ["trusted"]
approval = "session"

[[rules]]
id = "never"
services = ["barred"]
approval = "deny"

[[rules]]
id = "be-quick"
services = ["hasty"]
approval = "per_call"
expires_s = 5
"""
SERVICE = """
[services.{name}]
kind = "http"
base_url = "{origin}/{name}"
credential = "releases"
ad_hoc = ["GET"]

[services.{name}.operations."releases.delete"]
request = {{ method = "DELETE", path = "/v1/releases/{{id}}" }}
effect = "write"
destructive = true
"""

BEFORE_NAMES = ["action.requested", "action.result"]
BEFORE_THE_CARD = ["action.requested", "policy.decided", "action.result"]
WITH_A_CARD = ["action.requested", "policy.decided", "approval.requested", "approval.decided", "action.result"]


class World:
    """A house, and an upstream that notices the least byte."""

    def __init__(self, house: House, upstream: RoughUpstream) -> None:
        self.house = house
        self.human = house.human
        self.upstream = upstream

    def refused(self, envelope: dict[str, Any], *, expected: tuple[str, str, str], next_step: dict[str, Any]) -> None:
        """The no is the expected one, and nothing of the request is to be found anywhere but in the trail."""
        assert (*expected, "none") == gist(envelope)
        assert [] == breaches(envelope)
        assert (False, "failure", None, None) == tuple(envelope[key] for key in ("ok", "status", "http", "ssh"))
        assert next_step == envelope["next"]
        assert set() == in_doubt(self.house)
        assert "canary-" not in json.dumps(envelope)

    def left(self, envelope: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
        """The trail in order, ended by the very result that the agent was told."""
        events = trail(self.house, envelope["correlation_id"])
        assert names == [event["event"] for event in events]
        last = events[-1]["fields"]
        assert [] == [key for key in ("category", "code", "retry", "remote_effect") if last[key] != envelope[key]]
        assert "canary-" not in json.dumps(events)
        return events

    @property
    def reached(self) -> tuple[int, int]:
        """Connections and bytes that came to the upstream."""
        return self.upstream.accepted, self.upstream.bytes_received


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with misbehaving() as upstream, open_house(tmp_path_factory.mktemp("gates") / "h") as house:
        house.human.add_bearer("releases", TOKEN, upstream.origin)
        services = [SERVICE.format(name=name, origin=upstream.origin) for name in [*SERVICES, "unruled"]]
        house.human.write_policy("gates.toml", POLICY + "".join(services))
        house.human.trust()
        yield World(house, upstream)


@pytest.fixture
def world(built: World) -> Iterator[World]:
    """The world, with nothing dialled while the test runs."""
    before = built.reached
    yield built
    assert before == built.reached


@pytest.fixture
def agent(built: World) -> Iterator[Agent]:
    with built.house.agent() as asking:
        yield asking


def delete(service: str, release: object) -> dict[str, Any]:
    return {"service": service, "operation": "releases.delete", "args": {"id": release}}


ASK_HUMAN_TO_UNLOCK = {"action": "ask_human", "command": "doorward unlock"}
NONE = {"action": "none", "command": None}


def test_a_locked_vault_is_no_network_error(world: World, agent: Agent) -> None:
    world.human.client.lock()
    envelope = agent.act(**delete("asked", "r1"))

    assert (*("vault_locked", "locked", "after_human"), "none") == gist(envelope)
    assert ("locked", "not_needed", "not_needed") == tuple(
        envelope["gate"][key] for key in ("vault", "session", "call")
    )
    world.human.unlock()
    world.human.open_session()
    world.refused(envelope, expected=("vault_locked", "locked", "after_human"), next_step=ASK_HUMAN_TO_UNLOCK)
    world.left(envelope, BEFORE_NAMES)


def test_a_vault_that_is_locked_while_the_card_waits_ends_the_card_as_that(world: World, agent: Agent) -> None:
    asked = agent.begin_act(**delete("asked", "r2"))
    world.human.wait_for_card()
    world.human.client.lock()
    envelope = agent.end_act(asked)
    world.human.unlock()
    world.human.open_session()

    world.refused(envelope, expected=("vault_locked", "locked", "after_human"), next_step=ASK_HUMAN_TO_UNLOCK)
    events = world.left(envelope, WITH_A_CARD)
    assert "locked" == events[3]["fields"]["decision"]
    assert [] == world.human.cards()


def test_a_session_that_a_person_refused_is_not_tried_again_in_other_words(world: World, agent: Agent) -> None:
    asked = agent.begin_act(**delete("trusted", "r3"))
    world.human.deny(world.human.wait_for_card(), "not in this session")
    envelope = agent.end_act(asked)
    reworded = agent.act(service="trusted", method="DELETE", path="/v1/releases/r3", query={"force": "1"})
    by_path = agent.act(service="trusted", method="DELETE", path="/v1/releases/r3")

    world.refused(envelope, expected=("session_denied", "declined", "never"), next_step=NONE)
    assert ("denied", "not_needed", ["ask-once"]) == tuple(
        envelope["gate"][key] for key in ("session", "call", "rules")
    )
    assert "not in this session" in envelope["message"]
    events = world.left(envelope, WITH_A_CARD)
    assert ("deny", "not in this session") == tuple(events[3]["fields"][key] for key in ("decision", "reason"))
    assert ("invalid_request", "schema") == gist(reworded)[:2]
    world.refused(by_path, expected=("call_denied", "denied_recently", "never"), next_step=NONE)
    world.left(by_path, BEFORE_THE_CARD)


def test_a_person_who_ends_the_session_with_their_no_ends_it(world: World, agent: Agent) -> None:
    asked = agent.begin_act(**delete("trusted", "r4"))
    card = world.human.wait_for_card()
    (before,) = [row for row in world.human.client.sessions() if row["pid"] == agent.pid]
    world.human.deny(card, end_session=True)
    envelope = agent.end_act(asked)

    world.refused(envelope, expected=("session_denied", "declined", "never"), next_step=NONE)
    world.left(envelope, WITH_A_CARD)
    assert before["id"] not in {row["id"] for row in world.human.client.sessions()}


def test_a_session_that_is_revoked_while_the_card_waits_is_told_as_ended(world: World, agent: Agent) -> None:
    asked = agent.begin_act(**delete("asked", "r5"))
    world.human.wait_for_card()
    (session,) = [row for row in world.human.client.sessions() if row["pid"] == agent.pid]
    world.human.client.revoke_session(str(session["id"]))
    envelope = agent.end_act(asked)

    world.refused(envelope, expected=("session_denied", "session_ended", "never"), next_step=NONE)
    world.left(envelope, WITH_A_CARD)


def test_a_call_that_a_person_refused_is_refused_alone(built: World, agent: Agent) -> None:
    before = built.reached
    asked = agent.begin_act(**delete("asked", "r6"))
    built.human.deny(built.human.wait_for_card(), "keep that one")
    envelope = agent.end_act(asked)
    repeated = agent.act(**delete("asked", "r6"))

    built.refused(envelope, expected=("call_denied", "declined", "never"), next_step=NONE)
    assert ("not_needed", "denied") == tuple(envelope["gate"][key] for key in ("session", "call"))
    assert "keep that one" in envelope["message"]
    built.left(envelope, WITH_A_CARD)
    built.refused(repeated, expected=("call_denied", "denied_recently", "never"), next_step=NONE)
    built.left(repeated, BEFORE_THE_CARD)
    assert before == built.reached

    asked = agent.begin_act(**delete("asked", "r7"))
    built.human.approve(built.human.wait_for_card())
    other = agent.end_act(asked)
    assert ("confirmed_failure", "not_found", "never", "none") == gist(other)
    assert [["DELETE", f"Bearer {TOKEN}"]] == [
        [seen.method, seen.headers["authorization"]] for seen in built.upstream.seen("/asked/v1/releases/r7")
    ]
    assert [] == built.upstream.seen("/asked/v1/releases/r6")


@pytest.mark.parametrize(
    ("service", "code", "rules"), [("barred", "rule_denied", ["never"]), ("unruled", "no_rule", [])]
)
def test_what_the_policy_denies_is_no_answer_of_the_upstream(
    world: World, agent: Agent, service: str, code: str, rules: list[str]
) -> None:
    envelope = agent.act(**delete(service, "r8"))

    world.refused(envelope, expected=("policy_denied", code, "never"), next_step=NONE)
    assert (rules, "not_needed") == (envelope["gate"]["rules"], envelope["gate"]["call"])
    events = world.left(envelope, BEFORE_THE_CARD)
    assert "deny" == events[1]["fields"]["decision"]


def test_a_card_that_nobody_answers_is_no_refusal_and_no_network_timeout(world: World, agent: Agent) -> None:
    asked = agent.begin_act(**delete("hasty", "r9"))
    world.human.client.approval(world.human.wait_for_card())
    envelope = agent.end_act(asked)

    world.refused(
        envelope,
        expected=("approval_timeout", "approval_expired", "after_human"),
        next_step={"action": "ask_human", "command": "doorward ui"},
    )
    assert ("expired", ["be-quick"]) == (envelope["gate"]["call"], envelope["gate"]["rules"])
    events = world.left(envelope, WITH_A_CARD)
    assert "expired" == events[3]["fields"]["decision"]


def test_a_policy_that_changes_while_the_card_waits_voids_it(world: World, agent: Agent) -> None:
    asked = agent.begin_act(**delete("asked", "r10"))
    world.human.wait_for_card()
    world.human.write_policy("more.toml", "version = 1\n")
    world.human.trust()
    envelope = agent.end_act(asked)

    world.refused(
        envelope,
        expected=("approval_timeout", "approval_void", "after_human"),
        next_step={"action": "ask_human", "command": "doorward ui"},
    )
    world.left(envelope, WITH_A_CARD)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"service": "asked", "operation": "releases.delete", "args": {}}, "schema"),
        (delete("asked", {"v": "r11"}), "schema"),
        (delete("asked", "../r11"), "schema"),
        (delete("asked", "r11") | {"args": {"id": "r11", "force": True}}, "schema"),
        ({"service": "asked", "operation": "releases.erase", "args": {"id": "r11"}}, "unknown_operation"),
        (delete("nowhere", "r11"), "unknown_service"),
        (delete("asked", "r11") | {"method": "DELETE"}, "schema"),
        ({"service": "asked", "method": "GET", "path": "/", "headers": {"cookie": "a=b"}}, "reserved_header"),
    ],
    ids=["missing", "type", "path", "more", "operation", "service", "two forms", "credential"],
)
def test_a_request_that_is_wrong_in_itself_is_no_400_of_the_upstream(
    world: World, agent: Agent, request_: dict[str, Any], code: str
) -> None:
    envelope = agent.act(**request_)

    world.refused(
        envelope,
        expected=("invalid_request", code, "never"),
        next_step={"action": "fix_request", "command": None},
    )
    world.left(envelope, BEFORE_NAMES)


def test_bytes_that_are_no_json_are_on_record_too(world: World, agent: Agent) -> None:
    told = agent.ask("POST", "/v1/http", raw="eyJzZXJ2aWNlIjo=")

    assert 400 == told["status"]
    world.refused(
        told["value"],
        expected=("invalid_request", "unreadable", "never"),
        next_step={"action": "fix_request", "command": None},
    )
    world.left(told["value"], BEFORE_NAMES)


def test_after_all_of_it_the_log_verifies_offline_and_nothing_holds_the_credential(built: World) -> None:
    assert "canary-" not in built.house.log()
    built.house.stop()

    assert "OK" == verdict(built.house)
    assert [] == canaries(built.house)

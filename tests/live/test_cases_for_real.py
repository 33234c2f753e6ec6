"""Every case of tests/cases through a real daemon and real sockets: result, next action, far side, and trail.

One daemon serves them all. The far side keeps a log of its own, and what each case is held to stands in case_claims.py;
further tests plant lies and expect them to be told.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.cases.table import print_table
from tests.fakes.authority import Authority
from tests.live.case_claims import told_wrong
from tests.live.case_world import Real, Step, World, every_case
from tests.live.fault_server import FaultServer, Scripted
from tests.live.findings import breaches, canaries, verdict
from tests.live.house import open_house

pytestmark = pytest.mark.live

CASES = every_case()
SEEN: dict[str, list[Step]] = {}
GREEN: Counter[str] = Counter()


def each() -> list[Any]:
    return [
        pytest.param(
            one,
            id=f"{one.name}: {one.case['claim']}",
            marks=[pytest.mark.xfail(strict=True, reason=one.case["missing"])] if "missing" in one.case else [],
        )
        for one in CASES
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    stranger = Authority("nobody's CA").server(addresses=("127.0.0.1",)).context
    with (
        FaultServer() as far,
        FaultServer(narrow=True) as narrow,
        FaultServer(tls=stranger) as unknown,
        open_house(tmp_path_factory.mktemp("cases") / "h") as house,
        house.agent() as agent,
    ):
        made = World(house, {"far": far, "narrow": narrow, "stranger": unknown}, agent)
        made.furnish()
        yield made
        print_table(request.config, GREEN, Counter(one.group for one in CASES))


@pytest.mark.parametrize("one", each())
def test_result_next_action_far_side_and_trail_hold(world: World, one: Real) -> None:
    world.enter(one.group, CASES)
    steps = SEEN[one.name] = world.run(one)

    assert [] == told_wrong(one, steps)
    assert [] == [breach for step in steps for breach in breaches(step.envelope)]
    GREEN[one.group] += 1


def test_a_change_is_logged_by_the_far_side_itself(world: World) -> None:
    logged = Counter(one.what for one in world.servers["far"].log())

    assert {"received", "committed", "answered", "broke", "repeated"} <= set(logged)


def test_a_batch_that_an_agent_parts_is_accounted_for_part_by_part(world: World) -> None:
    """What the broker is asked for goes out as it is: one lost part is in doubt, the next waits, none goes twice."""
    one = _named("malf-028")
    world.enter(one.group, CASES)
    entries = [{"Id": str(number), "MessageBody": "m"} for number in range(30)]
    taken = {"Successful": [{"Id": entry["Id"]} for entry in entries[:10]], "Failed": []}
    body_b64 = base64.b64encode(json.dumps(taken).encode()).decode()
    fine = Scripted(headers=(("content-type", "application/json"),), body_b64=body_b64, commits=True)
    far = world.server_of(one)
    far.plan(one.service, (fine, Scripted(fault="close", commits=True)))
    before = len(far.log(one.service))
    parts = [{**one.args, "Entries": entries[start : start + 10]} for start in (0, 10, 20)]
    told = [world.agent.act(service=one.service, operation=one.name, args=part) for part in parts]

    assert ["success", "outcome_unknown", "reconcile_required"] == [envelope["category"] for envelope in told]
    assert ["applied", "unknown", "unknown"] == [envelope["remote_effect"] for envelope in told]
    assert told[1]["correlation_id"] == told[2]["previous_correlation_id"]
    assert 2 == sum(logged.what == "received" for logged in far.log(one.service)[before:])


def _named(name: str) -> Real:
    return next(one for one in CASES if one.name == name)


def _told(steps: list[Step], **changes: Any) -> list[Step]:
    """The same with another envelope for the first."""
    return [replace(steps[0], envelope={**steps[0].envelope, **changes}), *steps[1:]]


def _seen(steps: list[Step], **changes: Any) -> list[Step]:
    return [replace(steps[0], **changes), *steps[1:]]


def _whole(steps: list[Step]) -> list[Step]:
    return _told(steps, completeness={**steps[0].envelope["completeness"], "complete": True})


def _unanswered(steps: list[Step]) -> list[Step]:
    return _seen(steps, trail=tuple(event for event in steps[0].trail if event["event"] != "remote.answered"))


def _without_credential(steps: list[Step]) -> list[Step]:
    return _seen(steps, far=tuple(replace(one, credential=None) for one in steps[0].far))


def _twice(steps: list[Step]) -> list[Step]:
    return _seen(steps, far=(*steps[0].far, *steps[0].far))


def _sent_again(steps: list[Step]) -> list[Step]:
    return [steps[0], replace(steps[1], far=steps[0].far)]


LIES: dict[str, Any] = {
    "a change in doubt that is said not to have been made": (
        "unc-009", "far side", lambda steps: _told(steps, remote_effect="none"),
    ),
    "a change that is claimed and was not made": ("unc-052", "far side", lambda steps: _seen(steps, far=())),
    "a change that was made twice": ("unc-052", "far side", _twice),
    "a repeat that went out": ("unc-009", "next", _sent_again),
    "a failure that is told as a success": ("auth-001", "result", lambda steps: _told(steps, category="success")),
    "another next action": ("auth-002", "next", lambda steps: _told(steps, next={"action": "retry"})),
    "a result that the log does not have": ("auth-001", "trail", lambda steps: _seen(steps, trail=())),
    "a result that the log has otherwise": ("auth-001", "trail", lambda steps: _told(steps, code="revoked")),
    "an answer that the log does not have": ("auth-001", "trail", _unanswered),
    "a list that is whole and is not": ("comp-017", "result", _whole),
    "a request without the credential": ("auth-001", "far side", _without_credential),
    "an answer that holds it": ("auth-001", "far side", lambda steps: _told(steps, message=steps[0].far[0].credential)),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_planted_lie_is_told(world: World, lie: str) -> None:
    name, breaks, doctor = LIES[lie]
    world.enter(_named(name).group, CASES)
    steps = SEEN.get(name) or world.run(_named(name))

    assert [] == told_wrong(_named(name), steps)
    assert any(fault.startswith(breaks) for fault in told_wrong(_named(name), doctor(steps)))


def test_after_all_of_it_the_log_verifies_offline_and_nothing_holds_the_credential(world: World) -> None:
    assert "canary-" not in world.house.log()
    world.house.stop()

    assert verdict(world.house) in {"OK", "OK_UNANCHORED"}
    assert [] == canaries(world.house)

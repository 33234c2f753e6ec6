"""What a look-up on its host proves of an SSH attempt in doubt, and what it never does."""

import pytest

from broker.contract.wire import JsonObject, JsonValue
from broker.core.ssh.frozen import Exec, Get, LookUp
from broker.core.ssh.recall import look_ups, remembered
from broker.core.ssh.resolve import LookUpAsk, SshAsk
from broker.operations.ssh_look_up import Proof, proof_of
from tests.fakes.attempts import OP, attempt
from tests.fakes.hosts import POLICY, STORE, command, frozen, operation, put


def ways(ask: SshAsk) -> list[LookUpAsk]:
    made = frozen(ask)
    service = made.service.name
    name = made.operation.removeprefix(f"{service}.")
    return look_ups(POLICY, remembered(made, STORE), service=service, operation=name, correlation_id=OP)


def proof(way: LookUpAsk, ssh: JsonValue, args: JsonObject | None = None) -> Proof:
    answer: JsonObject = {"category": "success", "code": "ok", "ssh": ssh, "completeness": {"complete": True}}
    return proof_of(way, attempt(args=args or {}), answer)


def gist(found: Proof) -> tuple[object, ...]:
    told = found.envelope
    return told["category"], told["code"], told["remote_effect"], found.settles


def test_a_marker_is_looked_up_first_and_then_the_declared_command() -> None:
    marker, declared = ways(operation("wipe", site="a b"))

    assert LookUp(operation_id=OP, since=STORE, detached=True) == marker.action
    assert isinstance(declared.action, Exec)
    assert b"test -d '/srv/a b'" == declared.action.command


def test_without_a_marker_or_a_command_there_is_no_way() -> None:
    assert [] == ways(operation("status", unit="x"))
    assert [LookUp] == [type(way.action) for way in ways(command("touch x"))]
    assert [Get(path="/etc/nginx/a")] == [way.action for way in ways(put("/etc/nginx/a"))]


@pytest.mark.parametrize(
    ("marker", "settles"),
    [("finished", True), ("never_started", True), ("running", False), ("died", False), ("gone", False), (None, False)],
)
def test_a_marker_settles_by_an_end_or_a_fence_alone(marker: str | None, *, settles: bool) -> None:
    found = proof(ways(command("touch x"))[0], {"marker": marker})

    assert settles is found.settles
    assert "ok" == found.envelope["code"], "the answer was judged as the attempt's end; it is told on"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, ("success", "reconciled", "applied", True)),
        (1, ("confirmed_failure", "not_found", "none", True)),
        (2, ("outcome_unknown", "unrecorded", "unknown", False)),
        (255, ("outcome_unknown", "unrecorded", "unknown", False)),
        (None, ("outcome_unknown", "unrecorded", "unknown", False)),
    ],
)
def test_a_declared_command_proves_by_0_and_1_alone(status: JsonValue, expected: tuple[object, ...]) -> None:
    declared = ways(operation("wipe", site="a"))[1]

    assert expected == gist(proof(declared, {"exit_status": status}))
    assert None is proof(declared, {"exit_status": status}).envelope["ssh"]


@pytest.mark.parametrize(
    ("ssh", "category"),
    [
        ({"transfer": {"sha256": "x"}}, "outcome_unknown"),
        ({"transfer": {"sha256": None}}, "outcome_unknown"),
        ({"transfer": None}, "outcome_unknown"),
        (None, "outcome_unknown"),
    ],
)
def test_a_file_proves_by_its_digest_alone(ssh: JsonValue, category: str) -> None:
    ask = put("/etc/nginx/a", b"content")
    (way,), args = ways(ask), remembered(frozen(ask), None)
    about = args["@ssh"]
    assert isinstance(about, dict)

    assert (category, False) == (proof(way, ssh, args).envelope["category"], proof(way, ssh, args).settles)
    same = proof(way, {"transfer": {"sha256": about["sha256"]}}, args)
    assert ("success", "reconciled", "applied", True) == gist(same)


def test_an_attempt_that_is_of_no_file_is_never_proven_by_one() -> None:
    (way,) = ways(put("/etc/nginx/a"))

    assert not proof(way, {"transfer": {"sha256": None}}).settles

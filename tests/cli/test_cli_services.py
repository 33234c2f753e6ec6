from pathlib import Path

import jsonschema_rs
import pytest

from broker.contract.schemas import schema
from broker.contract.wire import JsonValue, parse_object
from tests.fakes.command_line import CommandLine
from tests.fakes.envelopes import ID, envelope
from tests.fakes.unix_daemon import RawServer

SERVICES: dict[str, JsonValue] = {
    "vault": "ready",
    "services": [
        {
            "service": "github",
            "ad_hoc": ["GET"],
            "operations": [
                {
                    "operation": "user.get",
                    "effect": "read",
                    "destructive": False,
                    "gate": "none",
                    "method": "GET",
                    "path": "/user",
                    "parameters": {"path": [], "query": [], "body": None, "required": []},
                    "completeness_declared": False,
                    "mcp": None,
                },
                {
                    "operation": "releases.delete",
                    "effect": "write",
                    "destructive": True,
                    "gate": "per_call",
                    "method": "DELETE",
                    "path": "/r/{id}",
                    "parameters": {"path": ["id"], "query": ["x\x1b"], "body": ["why"], "required": ["id", "why"]},
                    "completeness_declared": False,
                    "mcp": None,
                },
                {
                    "operation": "notes.put",
                    "effect": "write",
                    "destructive": False,
                    "gate": "per_call",
                    "method": "PUT",
                    "path": "/n/{id}",
                    "parameters": {"path": ["id"], "query": [], "body": "object", "required": ["id"]},
                    "completeness_declared": False,
                    "mcp": None,
                },
            ],
        }
    ],
}


def test_services_are_listed_with_effect_gate_and_arguments(cli: CommandLine) -> None:
    jsonschema_rs.validator_for(schema("services")).validate(SERVICES)

    with cli.agent_daemon() as daemon:
        daemon.replies["GET /v1/services"] = (200, SERVICES)
        code, out, _ = cli.run("services")

    assert 0 == code
    assert [
        "github",
        "  user.get         READ   GET /user; runs without asking",
        "  releases.delete  DELETE DELETE /r/{id}; asks each time",
        "                   takes id [x\\u{1b}] why",
        "  notes.put        WRITE  PUT /n/{id}; asks each time",
        "                   takes id and any others",
        "  any path by GET; its answers are never known to be complete",
    ] == out.splitlines()


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        ({"vault": "locked", "services": []}, 30, "the vault is locked"),
        ({"vault": "ready", "services": []}, 0, "no rule opens anything"),
    ],
)
def test_nothing_to_ask_for_says_why(cli: CommandLine, value: dict[str, JsonValue], code: int, shown: str) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies["GET /v1/services"] = (200, value)
        found, out, _ = cli.run("services")

    assert (code, True) == (found, shown in out)


def test_the_machine_form_is_the_daemons(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies["GET /v1/services"] = (200, SERVICES)
        code, out, _ = cli.run("services", "--json")

    assert (0, SERVICES) == (code, parse_object(out.encode()))


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("odd", 31)])
def test_health_tells_version_and_vault(cli: CommandLine, state: str, code: int) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies["GET /v1/health"] = (200, {"status": state, "version": "0.1.0", "vault": "locked"})
        found, out, _ = cli.run("health")

    assert (code, f"{state}: doorward 0.1.0, vault locked\n") == (found, out)


@pytest.mark.parametrize("verb", [["services"], ["health"], ["result", ID], ["reconcile", ID]])
def test_nobody_there_is_31_for_every_verb(cli: CommandLine, verb: list[str]) -> None:
    code, out, _ = cli.run(*verb)

    assert (31, True) == (code, out.startswith("x broker_unavailable (not_running)"))


def test_a_question_that_changes_nothing_may_be_asked_again(cli: CommandLine) -> None:
    with RawServer(Path(cli.places.agent_socket), b""):
        code, out, _ = cli.run("result", ID)

    assert 31 == code
    assert "retry: after_delay (5 s)" in out
    assert f"next: doorward result {ID}" in out


def test_results_are_fetched_again_and_waited_for(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies[f"GET /v1/results/{ID}"] = (200, envelope("approval_pending", code="waiting"))
        code, _, _ = cli.run("result", ID, "--wait", "3")

        assert [f"/v1/results/{ID}?wait_s=3"] == [asked.target for asked in daemon.asked]
    assert 24 == code


def test_reconcile_asks_for_the_read_back(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/reconcile"] = (200, envelope(code="reconciled", remote_effect="applied"))
        code, out, _ = cli.run("reconcile", ID)

        assert [{"correlation_id": ID, "wait_s": 150.0}] == daemon.bodies("POST /v1/reconcile")
    assert (0, True) == (code, "success (reconciled)" in out)

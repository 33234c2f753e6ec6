"""`doorward collect`: how a command line spells a collection, and how its answer is shown."""

from typing import Any

import jsonschema_rs
import pytest

from broker.contract.exits import USAGE
from broker.contract.schemas import schema
from broker.contract.wire import JsonValue
from tests.fakes.command_line import CommandLine
from tests.fakes.envelopes import envelope

ROUTE = "POST /v1/collect"


def asked(cli: CommandLine, *line: str) -> dict[str, JsonValue]:
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, envelope())
        code, _, err = cli.run(*line)

        assert (0, "") == (code, err)
        body = daemon.bodies(ROUTE)[0]
    assert isinstance(body, dict)
    jsonschema_rs.validator_for(schema("collect-request")).validate(body)
    return body


@pytest.mark.parametrize(
    ("line", "request_body"),
    [
        ("collect github.issues.list owner=acme", {"args": {"owner": "acme"}}),
        ("collect github.issues.list n:=3 --pages 5 --items 9", {"args": {"n": 3}, "budget": {"pages": 5, "items": 9}}),
        ("collect github.issues.list --bytes 1000 --seconds 7", {"args": {}, "budget": {"bytes": 1000, "seconds": 7}}),
        (
            "collect github.issues.list --cursor cur_0123456789abcdef0123456789abcdef --reason why --request-id r1",
            {"args": {}, "cursor": "cur_0123456789abcdef0123456789abcdef", "reason": "why", "request_id": "r1"},
        ),
        ("collect github.issues.list --wait 3", {"args": {}, "wait_s": 3.0}),
    ],
)
def test_a_command_line_spells_one_collection(cli: CommandLine, line: str, request_body: dict[str, Any]) -> None:
    expected = {"service": "github", "operation": "issues.list", **request_body}

    assert expected == asked(cli, *line.split())


@pytest.mark.parametrize(
    "line",
    ["collect", "collect github", "collect github.x --pages 0", "collect github.x --items -1", "collect github.x y"],
)
def test_what_is_no_collection_is_a_mistake_of_usage(cli: CommandLine, line: str) -> None:
    code, _, err = cli.run(*line.split())

    assert USAGE == code
    assert err


def test_a_collection_can_be_explained_first(cli: CommandLine) -> None:
    told = {"decision": "ask", "message": "A human would be asked.", "operation": "github.issues.list", "rules": []}
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, told)
        code, out, _ = cli.run("explain", "collect", "github.issues.list", "--pages", "3")
        body = daemon.bodies("POST /v1/explain")[0]

    assert 0 == code
    assert out.startswith("ask: A human would be asked.")
    request = {"service": "github", "operation": "issues.list", "args": {}, "budget": {"pages": 3}}
    assert {"action": "collect", "request": request} == body

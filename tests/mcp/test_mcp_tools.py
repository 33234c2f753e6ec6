"""The tools' schemas stand alone; an operation's arguments and words about the call keep out of each other's way."""

import json
from typing import Any

import pytest

from broker.mcp.tools import ArgumentError, Tool, declared, verbs, wait_of


class Recorder:
    """In place of a client: keeps what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def http(self, request: Any) -> dict[str, Any]:
        self.asked.append(request)
        return {"category": "success"}


def operation(**more: Any) -> dict[str, Any]:
    return {
        "operation": "issues.create", "effect": "write", "destructive": False, "gate": "per_call", "method": "POST",
        "path": "/repos/{owner}/issues", "completeness_declared": False,
        "parameters": {"path": ["owner"], "query": [], "body": ["title", "reason"], "required": ["owner", "title"]},
        "mcp": {"name": None, "description": ""}, **more,
    }  # fmt: skip


def listed(*operations: dict[str, Any], taken: tuple[str, ...] = ()) -> list[Tool]:
    return declared({"services": [{"service": "git-hub", "operations": list(operations)}]}, taken)


@pytest.mark.parametrize("tool", verbs(), ids=lambda tool: tool.name)
def test_a_schema_stands_alone(tool: Tool) -> None:
    schema: Any = tool.schema
    spelled = json.dumps(schema)

    assert '"$ref"' not in spelled
    assert ("object", False) == (schema["type"], schema["additionalProperties"])
    assert not {"oneOf", "anyOf", "allOf"} & set(schema)
    assert set(schema["required"]) <= set(schema["properties"])


def test_an_operation_is_called_after_its_service_and_takes_its_arguments() -> None:
    (tool,) = listed(operation())

    assert "git_hub_issues_create" == tool.name
    properties: Any = tool.schema["properties"]
    assert {"owner", "title", "reason", "request_id", "deadline", "evidence", "wait_s"} == set(properties)
    assert ["owner", "title"] == tool.schema["required"]
    assert (True, False, False) == (tool.acts, tool.reads_only, tool.idempotent)


def test_an_argument_of_the_operation_keeps_its_name_before_words_about_the_call() -> None:
    (tool,) = listed(operation())
    recorder: Any = Recorder()
    tool.ask(recorder, {"owner": "acme", "title": "t", "reason": "of the issue", "request_id": "r1"})

    assert [
        {
            "service": "git-hub", "operation": "issues.create", "request_id": "r1",
            "args": {"owner": "acme", "title": "t", "reason": "of the issue"},
        }
    ] == recorder.asked  # fmt: skip


def test_what_is_not_listed_is_no_tool_and_no_name_is_given_twice() -> None:
    assert [] == listed(operation(mcp=None))
    assert [] == listed(operation(mcp={"name": "http", "description": ""}), taken=("http",))
    assert 1 == len(listed(operation(), operation()))


def test_a_path_that_is_written_out_takes_anything() -> None:
    (tool,) = listed(operation(parameters=None))

    assert True is tool.schema["additionalProperties"]


@pytest.mark.parametrize("wrong", [-1, 601, True, "5", None])
def test_a_wait_is_a_number_of_seconds(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="wait_s: expected 0 to 600 seconds"):
        wait_of({"wait_s": wrong}, 150.0)  # type: ignore[dict-item]  # what an agent may send

"""Why an answer is not whole reaches the agent unshortened, whatever way it asks: every reason, with rows and without.

The same envelope goes through the client library, the command line (text and --json) and MCP (structured and text).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.agent import AgentClient
from broker.client.places import Places
from broker.contract.reasons import IncompleteCode
from broker.contract.wire import JsonValue
from broker.mcp.answers import told
from tests.fakes.command_line import CommandLine
from tests.fakes.envelopes import ID, answer, envelope
from tests.fakes.unix_daemon import UnixDaemon

ROWS: list[JsonValue] = [{"id": 1}, {"id": 2}, {"id": 3}]
CASES = [(code, rows, by) for code in IncompleteCode for rows in ([], ROWS) for by in ("provider", "broker")]


def cut(code: IncompleteCode, rows: list[JsonValue], by: str) -> dict[str, JsonValue]:
    reason: dict[str, JsonValue] = {
        "code": code.value, "message": f"Told about {code.value}.", "limit": 10, "unit": "s", "by": by,
    }  # fmt: skip
    return {
        "complete": False,
        "truncated": True,
        "returned": len(rows),
        "total": None,
        "incomplete_reasons": [reason],
        "work": {"pages": 9, "items": len(rows), "bytes": 81234, "seconds": 10.0},
        "next_cursor": "cur_" + "0" * 32,
        "continuation": {"kind": "next_cursor"},
        "scope": {"resource": "accounts", "visibility": "this credential", "snapshot": None, "defaults": []},
    }


def result(code: IncompleteCode, rows: list[JsonValue], by: str) -> dict[str, JsonValue]:
    return envelope(
        "partial", code="incomplete", retry="bounded", completeness=cut(code, rows, by), http=answer(body_json=rows),
        next={"action": "continue", "command": "doorward collect up.items.list"},
        message="The answer is not whole.",
    )  # fmt: skip


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def daemon(cli: CommandLine) -> Iterator[UnixDaemon]:
    with cli.agent_daemon() as daemon:
        yield daemon


@pytest.mark.parametrize(("code", "rows", "by"), CASES, ids=lambda value: str(value)[:24])
def test_every_face_says_all_of_it(
    cli: CommandLine, daemon: UnixDaemon, code: IncompleteCode, rows: list[JsonValue], by: str
) -> None:
    sent: Any = result(code, rows, by)
    daemon.replies[f"GET /v1/results/{ID}"] = (200, sent)
    with AgentClient(Places({"DOORWARD_HOME": str(cli.home)})) as client:
        library = client.result(ID)
    as_json = cli.run("result", ID, "--json")
    as_text = cli.run("result", ID)
    tool = told(library, [])
    spoken = "".join(part.text for part in tool.content if part.type == "text")

    assert sent == library == json.loads(as_json[1]) == tool.structured_content
    assert (3, 3, False) == (as_json[0], as_text[0], tool.is_error)
    for text in (as_text[1], spoken):
        assert f"{code.value}: Told about {code.value}. (by the {by}, limit 10 s)" in text
        assert "INCOMPLETE" in text
        assert f"seen: {len(rows)} of an unknown number" in text
        assert "next: doorward collect up.items.list" in text
    assert spoken.startswith(f"! {code.value}")  # what is missing comes before anything else


@pytest.mark.parametrize("rows", [[], ROWS], ids=["empty", "full"])
def test_a_whole_list_is_called_whole_by_every_face(
    cli: CommandLine, daemon: UnixDaemon, rows: list[JsonValue]
) -> None:
    whole = {**cut(IncompleteCode.IN_PROGRESS, rows, "broker"), "complete": True, "truncated": False}
    whole |= {"incomplete_reasons": [], "next_cursor": None, "total": len(rows), "continuation": {"kind": "none"}}
    sent: Any = envelope("success", completeness=whole, http=answer(body_json=rows))
    daemon.replies[f"GET /v1/results/{ID}"] = (200, sent)
    as_text = cli.run("result", ID)
    tool = told(sent, [])

    assert (0, False, sent) == (as_text[0], tool.is_error, tool.structured_content)
    for text in (as_text[1], "".join(part.text for part in tool.content if part.type == "text")):
        assert ", complete;" in text
        assert "INCOMPLETE" not in text

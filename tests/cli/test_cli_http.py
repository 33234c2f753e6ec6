import json
from pathlib import Path

import jsonschema_rs
import pytest

from broker.contract.exits import EXIT_CODES
from broker.contract.schemas import schema
from broker.contract.wire import JsonValue, parse_object
from tests.fakes.command_line import CommandLine
from tests.fakes.envelopes import ID, answer, envelope
from tests.fakes.unix_daemon import RawServer

ROUTE = "POST /v1/http"


def asked(cli: CommandLine, *line: str) -> dict[str, JsonValue]:
    """What the daemon got for a command line that it answers with success."""
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, envelope())
        code, _, err = cli.run(*line)

        assert (0, "") == (code, err)
        body = daemon.bodies(ROUTE)[0]
    assert isinstance(body, dict)
    jsonschema_rs.validator_for(schema("http-request")).validate(body)
    return body


@pytest.mark.parametrize(
    ("line", "request_body"),
    [
        ("http GET github /user", {"service": "github", "method": "GET", "path": "/user"}),
        ("http get github /user", {"service": "github", "method": "GET", "path": "/user"}),
        ("http GET https://api.github.com/user?x=1", {"method": "GET", "url": "https://api.github.com/user?x=1"}),
        (
            "http GET github /user?a=1&a=2&b= -q c=3 -q b=x=y",
            {
                "service": "github",
                "method": "GET",
                "path": "/user",
                "query": {"a": ["1", "2"], "b": ["", "x=y"], "c": "3"},
            },
        ),
        (
            "http -q a=b GET https://h/p?x=1 -q c=d",
            {"method": "GET", "url": "https://h/p?x=1&a=b&c=d"},
        ),
        (
            "http POST github /x -d text -H X-One:1 -H X-Two:2",
            {
                "service": "github",
                "method": "POST",
                "path": "/x",
                "body": "text",
                "headers": {"X-One": "1", "X-Two": "2"},
            },
        ),
        (
            'http POST github /x --json-body {"a":[1]} --request-id r1 --reason why --evidence e1 --evidence e2',
            {
                "service": "github",
                "method": "POST",
                "path": "/x",
                "body": {"a": [1]},
                "request_id": "r1",
                "reason": "why",
                "evidence": ["e1", "e2"],
            },
        ),
        (
            "http GET github /x --wait 0 --deadline 2.5",
            {"service": "github", "method": "GET", "path": "/x", "wait_s": 0, "deadline": {"total_s": 2.5}},
        ),
        (
            "call github.issues.list owner=acme n:=3 tags:=[1,2] empty= eq=a=b",
            {
                "service": "github",
                "operation": "issues.list",
                "args": {"owner": "acme", "n": 3, "tags": [1, 2], "empty": "", "eq": "a=b"},
            },
        ),
        ("call github.user.get", {"service": "github", "operation": "user.get", "args": {}}),
    ],
)
def test_a_command_line_becomes_one_request(cli: CommandLine, line: str, request_body: dict[str, JsonValue]) -> None:
    assert request_body == asked(cli, *line.split())


def test_files_are_read_by_the_client(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("ä\n")
    (tmp_path / "bytes").write_bytes(b"\x00\xff")
    (tmp_path / "json").write_text('{"a": 1}')

    assert "ä\n" == asked(cli, "http", "POST", "x", "/", "-d", f"@{tmp_path}/text")["body"]
    assert "AP8=" == asked(cli, "http", "POST", "x", "/", "-d", f"@{tmp_path}/bytes")["body_b64"]
    assert {"a": 1} == asked(cli, "http", "POST", "x", "/", "--json-body", f"@{tmp_path}/json")["body"]


@pytest.mark.parametrize(
    "line",
    [
        ["http", "GET", "github", "user"],
        ["http", "GET", "github", "/a", "/b"],
        ["http", "GET", "github", "/a#b"],
        ["http", "GET", "github", "/a?b"],
        ["http", "GET", "github", "/a", "-q", "novalue"],
        ["http", "GET", "https://h/#f", "-q", "a=b"],
        ["http", "GET", "github", "/a", "-H", "nocolon"],
        ["http", "GET", "github", "/a", "-H", "A: 1", "-H", "a: 2"],
        ["http", "POST", "github", "/a", "-d", "x", "--json-body", "{}"],
        ["http", "POST", "github", "/a", "--json-body", "{"],
        ["http", "POST", "github", "/a", "--json-body", "5"],
        ["http", "POST", "github", "/a", "--json-body", '{"a":1,"a":2}'],
        ["http", "POST", "github", "/a", "-d", "@/does/not/exist"],
        ["http", "POST", "github", "/a", "-d", "@/dev/zero"],
        ["http", "GET", "github", "/a", "--wait", "long"],
        ["http", "GET", "github", "/a", "--wait", "nan"],
        ["http", "GET", "github", "/a", "--deadline", "-1"],
        ["http", "GET", "github", "/a", "--reason", "\udcff"],
        ["call"],
        ["call", "github"],
        ["call", "github.", "a=1"],
        ["call", "github.x", "novalue"],
        ["call", "github.x", "a=1", "a=2"],
        ["call", "github.x", "a:={"],
        ["explain"],
        ["result", "op_1"],
        ["result", "op_" + "G" * 44],
        ["reconcile", "../x"],
    ],
)
def test_a_request_that_cannot_be_meant_is_usage_and_nothing_is_sent(cli: CommandLine, line: list[str]) -> None:
    with cli.agent_daemon() as daemon:
        code, out, err = cli.run(*line)

        assert [] == daemon.asked
    assert (64, "") == (code, out)
    assert err.startswith("doorward: ")


def test_usage_with_json_gives_an_envelope_too(cli: CommandLine) -> None:
    code, out, _ = cli.run("http", "GET", "github", "--json")
    made = parse_object(out.encode())

    jsonschema_rs.validator_for(schema("result")).validate(made)
    assert (64, "invalid_request", None) == (code, made["category"], made["correlation_id"])


@pytest.mark.parametrize("category", EXIT_CODES)
def test_each_category_has_its_exit_code(cli: CommandLine, category: str) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, envelope(category))
        code, out, _ = cli.run("http", "GET", "github", "/user")

    assert EXIT_CODES[category] == code
    assert category in out.splitlines()[0]


@pytest.mark.parametrize("status", [400, 413, 422, 429, 503])
def test_a_refusal_by_status_is_shown_by_its_envelope(cli: CommandLine, status: int) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (status, envelope("broker_unavailable", code="local_limit"))
        code, out, _ = cli.run("http", "GET", "github", "/user")

    assert 31 == code
    assert "local_limit" in out


def test_json_prints_the_envelope_as_the_daemon_spelled_it(cli: CommandLine) -> None:
    spelled = json.dumps(
        envelope(http=answer(body_json={"n": 1.10, "big": 10**30, "s": "\u202eä"})), ensure_ascii=False
    )
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, spelled.encode())
        code, out, _ = cli.run("http", "GET", "github", "/user", "--json")

    assert 0 == code
    assert spelled.replace("\u202e", "\\u202e") + "\n" == out


def test_no_daemon_is_31_with_an_envelope_of_our_own(cli: CommandLine) -> None:
    code, out, _ = cli.run("http", "GET", "github", "/user", "--json", "--request-id", "r1")
    made = parse_object(out.encode())

    jsonschema_rs.validator_for(schema("result")).validate(made)
    assert 31 == code
    assert ("broker_unavailable", "not_running", None, "r1", "none") == tuple(
        made[name] for name in ("category", "code", "correlation_id", "request_id", "remote_effect")
    )


def test_a_socket_of_doubtful_mode_is_31_and_nothing_is_sent(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.path.chmod(0o666)
        code, out, _ = cli.run("http", "POST", "github", "/x", "-d", "canary")

        assert [] == daemon.asked
    assert 31 == code
    assert "written by others" in out
    assert "remote effect: none" in out


@pytest.mark.parametrize(
    ("extra", "retry", "command"),
    [
        ([], "after_human", "doorward operations list --in-doubt"),
        (
            ["--request-id", "r1", "--reason", "a b"],
            "reconcile_first",
            "doorward http POST github /x --request-id r1 --reason 'a b' --json",
        ),
    ],
)
def test_an_answer_lost_on_the_way_is_an_unknown_outcome(
    cli: CommandLine, extra: list[str], retry: str, command: str
) -> None:
    with RawServer(Path(cli.places.agent_socket), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"):
        code, out, _ = cli.run("http", "POST", "github", "/x", *extra, "--json")
    made = parse_object(out.encode())

    assert 16 == code
    assert ("outcome_unknown", "unknown", retry) == (made["category"], made["remote_effect"], made["retry"])
    assert isinstance(made["next"], dict)
    assert command == made["next"]["command"]


PENDING = envelope("approval_pending", code="waiting")


@pytest.mark.parametrize(
    ("taken_back", "code", "told"),
    [
        (envelope("approval_timeout", code="withdrawn"), 23, True),
        (envelope("call_denied", code="declined"), 22, False),
    ],
)
def test_what_nobody_could_fetch_later_is_taken_back(
    cli: CommandLine, taken_back: dict[str, JsonValue], code: int, *, told: bool
) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, PENDING)
        daemon.replies["GET /v1/session"] = (200, {"span": "connection"})
        daemon.replies[f"DELETE /v1/results/{ID}"] = (200, taken_back)
        found, out, err = cli.run("http", "GET", "github", "/user", "--wait", "1", "--json")

    assert (code, taken_back) == (found, parse_object(out.encode()))
    assert told == ("doorward run" in err)


def test_what_was_sent_while_it_was_taken_back_is_waited_for(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, PENDING)
        daemon.replies["GET /v1/session"] = (200, {"span": "connection"})
        daemon.replies[f"DELETE /v1/results/{ID}"] = (200, envelope("outcome_unknown", code="still_running"))
        daemon.replies[f"GET /v1/results/{ID}"] = (200, envelope())

        assert 0 == cli.run("http", "GET", "github", "/user", "--wait", "1")[0]


def test_what_waits_under_run_goes_on_waiting(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies[ROUTE] = (200, PENDING)
        daemon.replies["GET /v1/session"] = (200, {"span": "tree"})

        code, out, _ = cli.run("http", "GET", "github", "/user", "--wait", "0", "--json")

        assert (24, PENDING) == (code, parse_object(out.encode()))
        assert {"doorward-cli"} == {asked.headers.get("user-agent") for asked in daemon.asked}


@pytest.mark.parametrize(
    ("decision", "code"), [("allow", 0), ("ask", 0), ("deny", 20), ("invalid", 64), ("something new", 20)]
)
def test_explain_tells_the_decision_and_sends_nothing(cli: CommandLine, decision: str, code: int) -> None:
    told = {
        "decision": decision,
        "gate": "session",
        "code": None,
        "rules": ["github-read"],
        "operation": "github.user.get",
        "effect": "read",
        "evidence": [],
        "card": decision == "ask",
        "trace": [],
        "message": "A human would be asked.",
    }
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, told)
        found, out, _ = cli.run("explain", "GET", "github", "/user")
        cli.run("explain", "call", "github.user.get", "a=b")

        assert [
            {"action": "http", "request": {"service": "github", "method": "GET", "path": "/user"}},
            {"action": "http", "request": {"service": "github", "operation": "user.get", "args": {"a": "b"}}},
        ] == daemon.bodies("POST /v1/explain")
    asks = "a human would be asked now" if decision == "ask" else "no human would be asked"
    assert code == found
    assert [
        f"{decision}: A human would be asked.",
        "operation: github.user.get (read)",
        f"gate: session; rules: github-read; {asks}",
    ] == out.splitlines()


def test_explain_tells_how_each_need_stands_and_what_would_collect_it(cli: CommandLine) -> None:
    need: dict[str, JsonValue] = {"operation": "cloud.accounts.list", "claim": "present"}
    missing = {**need, "state": "stale", "command": "doorward collect cloud.accounts.list project=acme"}
    told: dict[str, JsonValue] = {
        "decision": "deny",
        "gate": None,
        "code": "stale",
        "rules": [],
        "operation": None,
        "message": "No.",
        "evidence": [{**need, "state": "complete", "command": None}, missing, "no need"],
    }
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, told)
        _, out, _ = cli.run("explain", "GET", "cloud", "/accounts")

    assert [
        "evidence: cloud.accounts.list (present): complete",
        "evidence: cloud.accounts.list (present): stale",
        "  collect it with: doorward collect cloud.accounts.list project=acme",
    ] == out.splitlines()[3:]


@pytest.mark.parametrize(
    ("why", "code"),
    [("locked", 30), ("quarantined", 30), ("frozen", 31), ("in_doubt", 26), ("no_rule", 20)],
)
def test_an_explained_refusal_ends_as_the_request_itself_would(cli: CommandLine, why: str, code: int) -> None:
    told: dict[str, JsonValue] = {
        "decision": "deny",
        "gate": None,
        "code": why,
        "rules": [],
        "operation": None,
        "message": "No.",
    }
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, told)

        assert code == cli.run("explain", "GET", "github", "/user")[0]


def test_explain_on_a_locked_vault_is_the_envelope(cli: CommandLine) -> None:
    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, envelope("vault_locked", code="locked"))
        code, out, _ = cli.run("explain", "http", "GET", "github", "/user")

    assert (30, True) == (code, out.startswith("x vault_locked (locked)"))

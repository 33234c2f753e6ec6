import pytest

from broker.contract.wire import JsonValue, parse_object
from tests.fakes.cards import NOW_MS
from tests.fakes.command_line import PASSPHRASE, CommandLine

SESSION: dict[str, JsonValue] = {
    "id": "se_1",
    "agent": "unidentified",
    "identified": False,
    "span": "tree",
    "pid": 4711,
    "exe": None,
    "cwd": None,
    "container": "build\u202e-box",
    "label": "x\u202e",
    "opened_at_ms": NOW_MS,
    "calls": 3,
    "denied": 1,
    "muted": True,
    "grants": 2,
}
GRANT: dict[str, JsonValue] = {
    "id": "gr_1",
    "session_id": "se_1",
    "agent": "codex",
    "rule": "github-read",
    "per": "rule",
    "scope": "github-read",
    "effect": "read",
    "used": 42,
    "max_uses": 200,
    "made_at_ms": NOW_MS,
    "expires_at_ms": 10**14,
}


def test_sessions_are_listed_with_what_is_doubtful_marked(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/sessions"] = (200, {"sessions": [SESSION]})
        code, out, _ = cli.run("sessions", "list")
        machine = cli.run("sessions", "list", "--json")[1]

    row = out.splitlines()[1].split()
    assert 0 == code
    assert ["se_1", "!", "unidentified", "4711", "tree"] == row[:5]
    assert ["3", "1", "2", "MUTED", "container", "build\\u{202e}-box", "x\\u{202e}"] == row[-7:]
    assert {"sessions": [SESSION]} == parse_object(machine.encode())


def test_how_to_name_an_unnamed_program_is_told_once(cli: CommandLine) -> None:
    script: dict[str, JsonValue] = {**SESSION, "naming": {"exe": "/usr/bin/node", "argv": "/opt/x\u202e.js"}}
    binary: dict[str, JsonValue] = {**SESSION, "naming": {"exe": "/opt/tool", "argv": None}}
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/sessions"] = (200, {"sessions": [script, script, binary, {**SESSION, "naming": None}]})
        out = cli.run("sessions", "list")[1]

    assert [
        "",
        'to name it, under [agents] of a policy: NAME = { exe = "/usr/bin/node", argv = "/opt/x\\u{202e}.js" }',
        'to name it, under [agents] of a policy: NAME = { exe = "/opt/tool" }',
    ] == out.splitlines()[-3:]


def test_grants_are_listed_as_used_of_how_many(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/grants"] = (200, {"grants": [GRANT]})
        _, out, _ = cli.run("grants", "list")

    assert out.splitlines()[1].startswith("gr_1  codex  github-read  read    42/200  ")


@pytest.mark.parametrize("noun", ["sessions", "grants"])
def test_an_empty_list_says_so(cli: CommandLine, noun: str) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies[f"GET /v1/{noun}"] = (200, {noun: []})

        assert f"no {noun.removesuffix('s')}\n" == cli.run(noun, "list")[1]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("sessions revoke se_1", "DELETE /v1/sessions/se_1"),
        ("sessions revoke se_1 --kill", "DELETE /v1/sessions/se_1?kill=1"),
        ("sessions mute se_1", "POST /v1/sessions/se_1/mute"),
        ("grants revoke gr_1", "DELETE /v1/grants/gr_1"),
    ],
)
def test_taking_away_needs_no_passphrase(cli: CommandLine, line: str, asked: str) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies[asked.partition("?")[0]] = (200, {"killed": True})
        code, _, _ = cli.run(*line.split())

        assert [asked] == [f"{request.method} {request.target}" for request in daemon.asked]
    assert 0 == code


@pytest.mark.parametrize(
    ("kill", "killed", "code", "said"),
    [
        (
            {"way": "cgroup", "processes": 3, "left": 0, "escape": "Only\u202e these."},
            True,
            0,
            ["killed 3 processes with the tree's own cgroup", "Only\\u{202e} these."],
        ),
        (
            {"way": "tree", "processes": 1, "left": 2, "escape": "E."},
            False,
            1,
            ["killed 1 process by its process tree", "! 2 still run: another user's, or not gone in time", "E."],
        ),
        (
            {"way": "none", "processes": 0, "left": 1, "escape": "E."},
            False,
            1,
            ["killed 0 processes: nothing could be sent", "! 1 still run: another user's, or not gone in time", "E."],
        ),
    ],
)
def test_a_kill_says_what_was_reached_and_what_may_be_left(
    cli: CommandLine, kill: dict[str, JsonValue], code: int, said: list[str], *, killed: bool
) -> None:
    answer: dict[str, JsonValue] = {"id": "se_1", "ended": True, "killed": killed, "kill": kill}
    with cli.control_daemon() as daemon:
        daemon.replies["DELETE /v1/sessions/se_1"] = (200, answer)
        ended, out, _ = cli.run("sessions", "revoke", "se_1", "--kill")
        machine = cli.run("sessions", "revoke", "se_1", "--kill", "--json")

    assert (code, ["ended se_1", *said]) == (ended, out.splitlines())
    assert (code, answer) == (machine[0], {**parse_object(machine[1].encode())} | {"kill": kill})


def test_hearing_again_is_signed(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/sessions/se_1/unmute"] = (200, {})
        code, _, _ = cli.run("sessions", "unmute", "se_1", passphrase=PASSPHRASE)

        body = daemon.bodies("POST /v1/sessions/se_1/unmute")[0]
    assert (0, "session.unmute", {"id": "se_1"}) == (code, body["statement"]["verb"], body["statement"]["params"])

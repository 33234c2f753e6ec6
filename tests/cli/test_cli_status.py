import pytest

from broker.contract.wire import JsonValue, parse_object
from tests.fakes.command_line import LOG_ID, CommandLine, status


def test_a_status_reads_so(cli: CommandLine) -> None:
    with cli.control_daemon():
        code, out, _ = cli.run("status")

    assert 0 == code
    assert [
        f"doorward 0.1.0, log {LOG_ID}",
        "+ vault    ready, term 12",
        "+ policy   sha256:3f9c21ab, counter 17",
        "+ audit    4212 records, anchored",
        "! waiting  2 for an answer",
        "? in doubt 1: doorward operations list --in-doubt",
        "  sessions 3",
        "  daemon   pid unknown; to stop it: kill that, or Ctrl-C where it was started by serve",
        f"  data     {cli.places.data} (audit/, audit.pin, audit-seed/, vault.db)",
        f"  anchor   {cli.places.anchor_head}",
        f"  policies {cli.places.policies}",
        f"  agents   {cli.places.agent_socket}",
    ] == out.splitlines()


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"vault": {"state": "locked", "term": 3}}, "! vault    locked, term 3"),
        ({"policy": {"digest": None, "pending": True}}, "! policy   none trusted yet"),
        (
            {"policy": {"digest": "sha256:3f", "counter": 1, "pending": True}},
            "! policy   the files differ from what is trusted: doorward policy diff",
        ),
        (
            {"policy": {"digest": "sha256:3f", "counter": 1, "pending": True, "state": "refused"}},
            "! policy   the files do not load, and the old one stays in force: doorward policy check",
        ),
        (
            {"policy": {"digest": None}, "vault": {"state": "locked"}},
            "! policy   sealed while the vault is locked",
        ),
        ({"audit": {"seq": 1, "anchored": False}}, "! audit    2 records, NOT anchored"),
        (
            {"audit": {"seq": 1, "anchored": False, "trouble": "unwritable"}},
            "! audit    CAN'T BE WRITTEN: nothing runs until the disk is mended and the daemon started again",
        ),
        (
            {"audit": {"seq": 1, "anchored": True, "trouble": "disk_low"}},
            "! audit    its disk is nearly full: nothing runs until there is room",
        ),
        ({"audit": {"seq": -1, "anchored": False}}, "! audit    unknown records, NOT anchored"),
        ({"frozen": True}, "! FROZEN   nothing runs: doorward thaw"),
        ({"warnings": ["disk \x1b[2J"]}, "! disk \\u{1b}[2J"),
    ],
)
def test_what_needs_the_eye_is_marked(cli: CommandLine, changed: dict[str, JsonValue], line: str) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/status"] = (200, {**status(), **changed})
        _, out, _ = cli.run("status")

    assert line in out.splitlines()


def test_the_process_that_holds_the_state_is_named(cli: CommandLine) -> None:
    with cli.control_daemon():
        cli.places.lock.parent.mkdir(parents=True, exist_ok=True)
        cli.places.lock.write_text("4711\n", encoding="ascii")
        _, out, _ = cli.run("status")

    assert any(line.startswith("  daemon   pid 4711;") for line in out.splitlines())


def test_the_machine_form_is_the_daemons(cli: CommandLine) -> None:
    with cli.control_daemon():
        code, out, _ = cli.run("status", "--json")

    assert (0, status()) == (code, parse_object(out.encode()))


@pytest.mark.parametrize(
    "verb",
    [
        ["status"],
        ["lock"],
        ["freeze"],
        ["sessions", "list"],
        ["grants", "list"],
        ["approvals", "list"],
        ["approvals", "deny", "ap_1"],
    ],
)
def test_no_daemon_is_31_with_one_line(cli: CommandLine, verb: list[str]) -> None:
    code, out, err = cli.run(*verb)

    assert (31, "") == (code, out)
    assert "doorward up" in err


def test_no_daemon_in_the_machine_form_is_an_error_object(cli: CommandLine) -> None:
    code, out, _ = cli.run("status", "--json")
    made = parse_object(out.encode())

    assert 31 == code
    assert isinstance(made["error"], dict)
    assert "not_running" == made["error"]["code"]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("vault_locked", 30), ("frozen", 31), ("limit", 31), ("schema", 64), ("settled", 1), ("agent_session", 20)],
)
def test_a_refusal_has_its_exit_code_and_names_every_fault(cli: CommandLine, code: str, exit_code: int) -> None:
    fault = {"path": "a.toml:3", "problem": "odd \x1b", "expected": "even"}
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/lock"] = (409, {"error": {"code": code, "message": "No.", "faults": [fault]}})
        found, out, err = cli.run("lock")

    assert (exit_code, "") == (found, out)
    assert "doorward: No.\na.toml:3: odd \\u{1b} (expected: even)\n" == err

from pathlib import Path

import jsonschema_rs
import pytest

from broker.contract.schemas import schema
from broker.contract.wire import JsonValue, parse_object
from broker.policyfiles.shipped import pack_bytes, pack_names, schema_bytes
from tests.fakes.command_line import LOG_ID, PASSPHRASE, CommandLine, status

DIGEST = "sha256:b7d0412e" + "0123456789abcdef" * 3 + "01234567"
GOOD = b"""version = 1
[[rules]]
id = "r"
services = ["s"]
approval = "per_call"
[services.s]
kind = "http"
base_url = "https://s.example"
ad_hoc = ["GET"]
"""
BAD = b"""version = 1
nonsense = true
[[rules]]
id = "r"
approval = "sometimes"
[services.s]
kind = "carrier pigeon"
"""


def change(direction: str, subject: str, was: str, becomes: str, place: str | None) -> JsonValue:
    return {
        "direction": direction,
        "subject": subject,
        "was": was,
        "becomes": becomes,
        "place": place,
        "rule": "r",
        "was_place": place,
        "lines": [{"sign": "+", "text": 'approval = "session"'}],
    }


def pending(**changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "digest": DIGEST,
        "counter": 18,
        "state": "changed",
        "edited": [{"name": "github.toml", "status": "changed", "modified_at_ms": 1_763_130_000_000, "uid": 1000}],
        "unchanged": 34,
        "voids": {"cards": 0, "grants": 2},
        "files": [{"name": "github.toml", "sha256": "0" * 64}],
        "faults": [],
        "warnings": [],
        "changes": [
            change("tightens", "any DELETE github releases.delete", "ask each", "denied", None),
            change("loosens", "claude-* WRITE github\x1b", "ask each", "session 50", "github.toml:31"),
            change("loosens", "any READ shop orders.get", "denied", "session 5", "shop.toml:3"),
            change("loosens", "any READ shop orders.list", "denied", "session 5", "shop.toml:3"),
        ],
        "same": False,
        **changes,
    }


def test_what_these_tests_serve_is_what_the_contract_says() -> None:
    jsonschema_rs.validator_for(schema("policy-pending")).validate(pending())


def written(cli: CommandLine, name: str, content: bytes) -> Path:
    cli.places.policies.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = cli.places.policies / name
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_checking_needs_no_daemon(cli: CommandLine) -> None:
    written(cli, "a.toml", GOOD)
    code, out, _ = cli.run("policy", "check")

    assert 0 == code
    assert out.splitlines()[-1].startswith("0 faults, ")


def test_every_fault_is_told_with_file_and_line_and_exit_1(cli: CommandLine) -> None:
    written(cli, "a.toml", BAD)
    code, out, _ = cli.run("policy", "check")
    _, machine, _ = cli.run("policy", "check", "--json")

    assert 1 == code
    lines = out.splitlines()
    assert all(line.startswith("a.toml:") for line in lines[:-1])
    assert lines[-1].startswith(f"{len(lines) - 1} faults, ")
    faults = parse_object(machine.encode())["faults"]
    assert isinstance(faults, list)
    assert 3 <= len(faults) == len(lines) - 1


def test_what_is_bound_is_looked_at_where_that_is_wanted(cli: CommandLine) -> None:
    cli.make_key()
    written(cli, "a.toml", GOOD)
    warning: JsonValue = {
        "file": "a.toml",
        "line": 6,
        "key": "services.s.credential",
        "problem": "odd",
        "expected": "b",
    }
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy/pending"] = (200, pending(warnings=[warning]))
        assert "odd" not in cli.run("policy", "check")[1]
        code, out, _ = cli.run("policy", "check", "--vault", passphrase=PASSPHRASE)
        machine = cli.run("policy", "check", "--vault", "--json", passphrase=PASSPHRASE)[1]

    assert (0, "warning: a.toml:6: services.s.credential: odd, expected b") == (code, out.splitlines()[0])
    assert [warning] == parse_object(machine.encode())["warnings"]


def test_files_and_directories_can_be_named(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(GOOD)

    assert 0 == cli.run("policy", "check", str(path))[0]
    assert 1 == cli.run("policy", "check", str(tmp_path / "none.toml"))[0]


@pytest.mark.parametrize("name", pack_names())
def test_a_shipped_pack_is_copied_once(cli: CommandLine, name: str) -> None:
    code, out, _ = cli.run("policy", "add", name)
    target = cli.places.policies / f"{name}.toml"

    assert 0 == code
    assert "policy trust" in out
    assert pack_bytes(name) == target.read_bytes()
    assert 0o600 == target.stat().st_mode & 0o777
    target.write_bytes(b"mine")
    assert 1 == cli.run("policy", "add", name)[0]
    assert b"mine" == target.read_bytes()
    assert 0 == cli.run("policy", "add", name, "--force")[0]
    assert pack_bytes(name) == target.read_bytes()


def test_a_directory_that_can_not_be_made_is_told(cli: CommandLine) -> None:
    cli.places.policies.parent.parent.mkdir(parents=True, exist_ok=True)
    cli.places.policies.parent.write_bytes(b"a file stands where the directory belongs")
    code, _, err = cli.run("policy", "add", "github")

    assert (1, True) == (code, f"{cli.places.policies} can't be made: " in err)


@pytest.mark.parametrize("name", ["no-such-pack", "../github", "/etc/passwd"])
def test_a_pack_that_is_not_shipped_is_refused(cli: CommandLine, name: str) -> None:
    code, _, err = cli.run("policy", "add", name)

    assert (64, True) == (code, "github" in err)


def test_the_schema_that_packs_name_comes_with_them(cli: CommandLine) -> None:
    written(cli, "github.toml", GOOD)
    cli.run("policy", "add", "agents")

    assert schema_bytes() == (cli.places.policies / "policy.schema.json").read_bytes()
    assert 0 == cli.run("policy", "check")[0]


def test_a_directory_that_is_not_there_yet_is_told_with_what_makes_it(cli: CommandLine) -> None:
    code, _, err = cli.run("policy", "check")

    assert (1, True) == (code, "doorward setup github" in err)


def test_the_schema_is_printed(cli: CommandLine) -> None:
    code, out, _ = cli.run("policy", "schema")

    assert (0, True) == (code, "$schema" in parse_object(out.encode()))


def test_trusting_shows_what_loosens_first_and_signs_the_digest_that_was_shown(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy/pending"] = (200, pending())
        daemon.replies["POST /v1/policy/trust"] = (200, {"digest": DIGEST, "counter": 18})
        code, out, _ = cli.run("policy", "trust", "--yes", passphrase=PASSPHRASE)

        body = daemon.bodies("POST /v1/policy/trust")[0]
    assert 0 == code
    assert (DIGEST, 18) == (body["policy_digest"], body["counter"])
    edited = out.splitlines()[1]
    assert (edited.startswith("  changed: github.toml, 2025-11-"), edited.endswith(", by uid 1000")) == (True, True)
    assert [
        f"{DIGEST}, counter 18: github.toml",
        edited,
        "! loosens: claude-* WRITE github\\u{1b}: ask each -> session 50  (github.toml:31)",
        "! loosens: any READ shop orders.get, orders.list: denied -> session 5  (shop.toml:3)",
        "  tightens: any DELETE github releases.delete: ask each -> denied",
        "34 other decisions stay as they are",
        "trusting ends 0 waiting cards and 2 grants",
        "trusted sha256:b7d0412e, counter 18; it is in force now",
    ] == out.splitlines()


def test_the_lines_of_a_change_are_shown_where_that_is_wanted(cli: CommandLine) -> None:
    odd: JsonValue = {"name": "b.toml", "status": "removed", "modified_at_ms": None, "uid": None}
    strange: JsonValue = {"name": "c.toml", "status": "added", "modified_at_ms": 1 << 62, "uid": 0}
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy/pending"] = (
            200,
            pending(edited=[odd, strange], voids={"cards": 0, "grants": 0}),
        )
        plain = cli.run("policy", "diff")[1]
        out = cli.run("policy", "diff", "--lines")[1]

    assert ["  removed: b.toml", "  added: c.toml, at an odd time, by uid 0"] == out.splitlines()[1:3]
    assert '      + approval = "session"' == out.splitlines()[4]
    assert ("approval =" not in plain, "trusting ends" not in plain) == (True, True)


def test_nothing_new_is_not_signed_again(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy/pending"] = (200, pending(same=True, changes=[]))
        code, _, _ = cli.run("policy", "trust", "--yes", passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/policy/trust")
    assert 0 == code


@pytest.mark.parametrize("verb", ["trust", "diff"])
def test_files_that_do_not_load_are_told_fault_by_fault_once_and_not_signed(cli: CommandLine, verb: str) -> None:
    cli.make_key()
    fault: dict[str, JsonValue] = {
        "file": "a.toml",
        "line": 3,
        "key": "rules.r",
        "problem": "odd\x1b",
        "expected": "even",
    }
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy/pending"] = (200, pending(faults=[fault], changes=[]))
        code, out, err = cli.run("policy", verb, "--yes", passphrase=PASSPHRASE)
        machine = cli.run("policy", verb, "--yes", "--json", passphrase=PASSPHRASE)[1]

        assert [] == daemon.bodies("POST /v1/policy/trust")
    assert 1 == code
    assert 1 == (out + err).count("a.toml:3: rules.r: odd\\u{1b}, expected even")
    assert "the old policy stays in force" in err
    assert parse_object(machine.encode())


def test_an_edit_that_decides_nothing_anew_says_so(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy/pending"] = (200, pending(changes=[]))
        code, out, _ = cli.run("policy", "diff")

    assert (0, "no decision changes") == (code, out.splitlines()[-1])


def test_diff_needs_an_open_vault_to_know_what_is_in_force(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/status"] = (200, status(vault="locked"))

        assert 30 == cli.run("policy", "diff")[0]
        daemon.replies["GET /v1/status"] = (200, status())
        daemon.replies["GET /v1/policy/pending"] = (200, pending())
        assert 0 == cli.run("policy", "diff")[0]


@pytest.mark.parametrize(
    ("answer", "code", "first"),
    [
        ({"decision": "session"}, 0, "session: a human would be asked once in a session"),
        ({"decision": "none"}, 0, "none: it would be sent without asking"),
        ({"decision": "deny"}, 20, "deny: no rule opens it, or one forbids it"),
        (
            {"decision": "invalid", "code": "unknown_service", "message": "No such service."},
            64,
            "invalid: the policy does not know such a request",
        ),
        ({"decision": "odd"}, 20, "odd: it would be refused"),
    ],
)
def test_explain_names_the_decision_and_each_rule(
    cli: CommandLine, answer: dict[str, JsonValue], code: int, first: str
) -> None:
    cli.make_key()
    trace: list[JsonValue] = [
        {"rule": "a", "approval": "deny", "matched": False, "failed": "effects", "place": "a.toml:3"},
        {"rule": "b", "approval": "session", "matched": True, "failed": None, "place": "b.toml:9"},
        {"note": "odd"},
    ]
    told = {
        "operation": "github.user.get",
        "effect": "read",
        "agent": "codex",
        "rules": ["b"],
        "place": "b.toml:9",
        "grant": {"rule": "b", "max_uses": 5},
        "card": {"arming_ms": 1500},
        "needs": [
            {"rule": "b", "kind": "precheck", "operation": "user.get", "expect": "json.id"},
            {
                "rule": "a",
                "kind": "evidence",
                "operation": "users.list",
                "claim": "present",
                "covers": "{id}",
                "max_age_s": 900,
                "otherwise": "ask",
            },
        ],
        "trace": trace,
        **answer,
    }
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/explain"] = (200, told)
        line = "policy explain call github.user.get a=b --agent codex"
        found, out, _ = cli.run(*line.split(), passphrase=PASSPHRASE)

        request = {"service": "github", "operation": "user.get", "args": {"a": "b"}}
        assert [{"request": request, "agent": "codex"}] == daemon.bodies("POST /v1/explain")
    assert (code, first) == (found, out.splitlines()[0])
    if "message" not in answer:
        assert [
            "READ github.user.get, asked by codex",
            "rules: b",
            "in policies/b.toml:9",
            "a grant covers: rule b, max_uses 5",
            "the card: arming_ms 1500",
            "needs (b): user.get just before, whose answer is json.id",
            "needs (a): each of {id} present in a complete users.list, at most 900 s old; else the human is asked",
            "  - a (deny, a.toml:3) does not match: effects",
            "  + b (session, b.toml:9) matches",
            "  - note odd",
        ] == out.splitlines()[1:]


def test_explain_speaks_of_one_log_alone(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/status"] = (200, status(log_id="another"))
        code, _, _ = cli.run("policy", "explain", "GET", "github", "/user", passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/explain")
    assert 31 == code
    assert LOG_ID != "another"

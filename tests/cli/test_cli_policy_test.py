"""`policy test`: what is expected of a policy, held against its files without a daemon."""

from pathlib import Path

import pytest

from broker.contract.wire import parse_object
from tests.fakes.command_line import CommandLine
from tests.fakes.policies import SHOP

RULES = """
[agents]
codex = { exe = "/opt/codex" }

[[rules]]
id = "read"
services = ["shop"]
effects = ["read"]
approval = "session"

[[rules]]
id = "night"
services = ["shop"]
effects = ["read"]
hours = ["22:00-06:00"]
approval = "deny"

[[rules]]
id = "write"
agents = ["codex"]
operations = ["orders.create"]
approval = "per_call"
"""
TESTS = """
[[tests]]
name = "reading is asked once by day"
request = { service = "shop", operation = "orders.list", args = { page = 2 } }
at = "mon 12:00"
expect = "session"
rules = ["read"]

[[tests]]
name = "nobody reads by night"
request = { service = "shop", method = "GET", path = "/orders" }
at = "tue 05:59"
expect = "deny"
code = "rule_denied"

[[tests]]
name = "codex is asked about each order"
agent = "codex"
request = { service = "shop", operation = "orders.create", args = { shop = "a", branch = "b", name = "n" } }
expect = "per_call"

[[tests]]
name = "nobody else orders"
request = { service = "shop", operation = "orders.create", args = { shop = "a", branch = "b", name = "n" } }
expect = "deny"
rules = []
code = "no_rule"

[[tests]]
name = "there is no such service"
request = { service = "nosuch", method = "GET", path = "/" }
expect = "invalid"
code = "unknown_service"

[[tests]]
action = "ssh"
request = { host = "web-1", argv = ["id"] }
expect = "invalid"
"""


def policy(cli: CommandLine, text: str = RULES) -> None:
    cli.places.policies.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in (("shop.toml", SHOP), ("rules.toml", f"version = 1\n{text}")):
        (cli.places.policies / name).write_text(content)
        (cli.places.policies / name).chmod(0o600)


def written_in(tmp_path: Path, text: str) -> str:
    path = tmp_path / "expected.toml"
    path.write_text(f"version = 1\n{text}")
    return str(path)


def test_what_is_as_expected_passes_without_a_daemon(cli: CommandLine, tmp_path: Path) -> None:
    policy(cli)
    file = written_in(tmp_path, TESTS)
    code, out, err = cli.run("policy", "test", file)

    assert (0, "") == (code, err)
    assert "6 tests, 0 failed" == out.splitlines()[-1]
    assert "ok   expected.toml:3: reading is asked once by day" == out.splitlines()[0]
    assert "ok   expected.toml:36: test 6" == out.splitlines()[5]
    assert ["6 tests, 0 failed"] == cli.run("policy", "test", file, "--quiet")[1].splitlines()
    assert 0 == cli.run("policy", "test", file, file)[0]


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ('expect = "session"', 'expect = "none"', "expected none, got session (read in rules.toml:6)"),
        ('rules = ["read"]', 'rules = ["write"]', "expected the rules write, got read (read in rules.toml:6)"),
        ('code = "no_rule"', 'code = "rule_denied"', "expected the code rule_denied, got no_rule (no rule matches)"),
        ('agent = "codex"', 'agent = "claude"', "no program in [agents] is called claude"),
        ("page = 2", "pages = 2", "expected session, got invalid ("),
        ("page = 2", 'page = 2 }, nosuch = { a = "b"', "expected session, got invalid ("),
        ('at = "mon 12:00"', 'at = "mon 22:00"', "expected session, got deny (night in rules.toml:12)"),
    ],
)
def test_what_is_not_as_expected_is_told_with_why(
    cli: CommandLine, tmp_path: Path, was: str, becomes: str, told: str
) -> None:
    policy(cli)
    assert was in TESTS
    file = written_in(tmp_path, TESTS.replace(was, becomes, 1))
    code, out, _ = cli.run("policy", "test", file, "--quiet")
    machine = parse_object(cli.run("policy", "test", file, "--json")[1].encode())

    assert 1 == code
    assert told in out.splitlines()[0]
    assert out.startswith("FAIL expected.toml:")
    assert "6 tests, 1 failed" == out.splitlines()[-1]
    tests = machine["tests"]
    assert isinstance(tests, list)
    assert 5 == sum(row["passed"] is True for row in tests if isinstance(row, dict))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "expected.toml:1: tests: missing, expected [[tests]]"),
        ("[[tests]]\n", "expected.toml:2: tests[0].request: missing, expected a table, as an agent would send it"),
        ('[[tests]]\nrequest = {}\nexpect = "yes"', "expected.toml:4: tests[0].expect: not one of the values"),
        ('[[tests]]\nrequest = {}\nexpect = "deny"\nat = "noon"', "tests[0].at: malformed, expected a day and a time"),
        ('[[tests]]\nrequest = { a = 2026-01-01 }\nexpect = "deny"', "tests[0].request: it holds a date or time"),
        ('[[tests]]\nrequest = 1\nexpect = "deny"', "tests[0].request: it is an integer, expected a table"),
        ('[[tests]]\nrequest = {}\nexpect = "deny"\nagents = 1', "tests[0].agents: unknown key, expected agent"),
        ("[[tests", "expected.toml:2: the file: not TOML"),
        ("[[rules]]\n", "expected.toml:2: rules: unknown key"),
    ],
)
def test_a_file_that_can_not_be_read_is_told_fault_by_fault(
    cli: CommandLine, tmp_path: Path, text: str, fault: str
) -> None:
    policy(cli)
    code, out, _ = cli.run("policy", "test", written_in(tmp_path, text))

    assert 1 == code
    assert fault in out


def test_a_policy_that_does_not_load_is_told_and_a_file_that_is_not_there(cli: CommandLine, tmp_path: Path) -> None:
    policy(cli, "nosuch = 1\n")
    file = written_in(tmp_path, TESTS)

    assert (1, True) == told_by(cli, file, "rules.toml:2: nosuch: unknown key")
    assert (1, True) == told_by(cli, str(tmp_path / "none"), "nosuch")
    other = tmp_path / "other.toml"
    other.write_text(SHOP)
    assert (1, True) == told_by(cli, str(tmp_path / "none"), "none: can't be read", "--policies", str(other))
    assert (64, True) == (cli.run("policy", "test")[0], True)


def told_by(cli: CommandLine, file: str, text: str, *words: str) -> tuple[int, bool]:
    code, out, err = cli.run("policy", "test", file, *words)
    return code, text in out + err


def test_other_files_than_the_own_ones_can_be_tested(cli: CommandLine, tmp_path: Path) -> None:
    where = tmp_path / "elsewhere"
    where.mkdir(mode=0o755)
    for name, content in (("shop.toml", SHOP), ("rules.toml", f"version = 1\n{RULES}")):
        (where / name).write_text(content)
        (where / name).chmod(0o644)

    assert 0 == cli.run("policy", "test", written_in(tmp_path, TESTS), "--policies", str(where))[0]

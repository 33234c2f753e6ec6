"""Values out of files and of programs: taken as they stand, named one by one, checked before the first goes in."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from broker.cli import prompts
from broker.cli.faults import CliError
from broker.cli.value_files import read_values
from tests.fakes.command_line import PASSPHRASE, CommandLine
from tests.fakes.unix_daemon import UnixDaemon

DOTENV = r"""
# tokens
GITHUB=canary-plain-1   # ours
export STRIPE="canary \"two\"\n\\3"
SLACK='canary $(not run) ${nor filled}'
EMPTY_HASH=canary#4
"""


def read(path: Path, content: str, kind: str = "dotenv") -> dict[str, str]:
    file = path / "values"
    file.write_text(content, "utf-8")
    return {name: value.reveal().decode() for name, value in read_values(kind, str(file)).values.items()}


def test_lines_mean_what_they_say(planted: Path) -> None:
    assert {
        "GITHUB": "canary-plain-1",
        "STRIPE": 'canary "two"\n\\3',
        "SLACK": "canary $(not run) ${nor filled}",
        "EMPTY_HASH": "canary#4",
    } == read(planted, DOTENV)


@pytest.mark.parametrize("odd", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85"])
def test_a_line_ends_where_programs_end_it_and_nowhere_else(planted: Path, odd: str) -> None:
    assert {"A": f"canary{odd}B=other", "C": "last"} == read(planted, f"A=canary{odd}B=other\r\nC=last\r\n")


@pytest.mark.parametrize(
    ("content", "kind", "told"),
    [
        ("A=1\nno line\n", "dotenv", ":2: expected NAME=VALUE"),
        ("A=canary\nA=canary\n", "dotenv", ":2: A: stands here a second time"),
        ('A="canary\n', "dotenv", ":1: A: its quotes do not close, or text follows them"),
        ("A='canary' more\n", "dotenv", ":1: A: its quotes do not close, or text follows them"),
        ("A=${OTHER}canary\n", "dotenv", ":1: A: ${...} and $(...) are not filled in here"),
        ('A="$(canary)"\n', "dotenv", ":1: A: ${...} and $(...) are not filled in here"),
        ("A=1\nx\n\ny\n", "dotenv", ":4: expected NAME=VALUE"),
        ("[1]", "json", "expected an object of names and values"),
        ('{"A": 1, "B": "", "C": "c"}', "json", "A: expected a text that is not empty"),
        ('{"A": "canary", "A": "b"}', "json", "values: "),
    ],
)
def test_a_line_that_could_mean_two_things_is_named_and_its_value_is_not(
    planted: Path, content: str, kind: str, told: str
) -> None:
    with pytest.raises(CliError) as refused:
        read(planted, content, kind)

    assert told in str(refused.value)
    assert "canary" not in str(refused.value).replace("$(canary)", "")


def added(daemon: UnixDaemon) -> list[tuple[str, list[str], dict[str, str]]]:
    bodies = daemon.bodies("POST /v1/credentials")
    return [
        (body["statement"]["params"]["name"], body["statement"]["params"]["origins"], body["secret"]) for body in bodies
    ]


def test_what_is_named_goes_in_and_nothing_else(cli: CommandLine, planted: Path) -> None:
    file = planted / "env"
    file.write_text(DOTENV)
    cli.make_key()
    line = f"credential import dotenv {file} --take GITHUB=github --take SLACK=slack --origin https://a --json"
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/credentials"] = (201, {})
        code, out, err = cli.run(*line.split(), passphrase=PASSPHRASE)

        assert [
            ("github", ["https://a"], {"token": "canary-plain-1"}),
            ("slack", ["https://a"], {"token": "canary $(not run) ${nor filled}"}),
        ] == added(daemon)
    assert (0, "", {"added": ["github", "slack"]}) == (code, err, json.loads(out))


def test_the_file_is_said_to_hold_them_still(cli: CommandLine, planted: Path) -> None:
    file = planted / "v.json"
    file.write_text('{"KEY": "ann:canary-pass"}')
    cli.make_key()
    line = f"credential import json {file} --take KEY=ci --kind basic --origin https://a"
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/credentials"] = (201, {})
        code, out, _ = cli.run(*line.split(), passphrase=PASSPHRASE)

        assert [("ci", ["https://a"], {"username": "ann", "password": "canary-pass"})] == added(daemon)
    assert 0 == code
    assert "still holds them in clear" in out
    assert "canary" not in out


@pytest.mark.parametrize(
    ("takes", "told"),
    [
        ("--take GITHUB", "expected VAR=NAME"),
        ("--take GITHUB=Not.A.Name", "is no name"),
        ("--take GITHUB=a --take GITHUB=b", "is said twice"),
        ("--take GITHUB=a --take SLACK=a", "is said twice"),
        ("--take NOBODY=a --take NOTHING=b", "NOBODY, NOTHING"),
    ],
)
def test_what_is_wrong_is_told_before_anybody_is_asked(cli: CommandLine, planted: Path, takes: str, told: str) -> None:
    file = planted / "env"
    file.write_text(DOTENV)
    code, out, err = cli.run("credential", "import", "dotenv", str(file), *takes.split())

    assert (64, "", True) == (code, out, told in err)
    assert "canary" not in err


def test_where_the_daemon_stops_it_what_is_in_is_said(cli: CommandLine, planted: Path) -> None:
    file = planted / "env"
    file.write_text(DOTENV)
    cli.make_key()
    line = f"credential import dotenv {file} --take GITHUB=github --origin https://a"
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/credentials"] = (409, {"error": {"code": "exists", "message": "It is there already."}})
        code, _, err = cli.run(*line.split(), passphrase=PASSPHRASE)

    assert 1 == code
    assert "github was not added" in err
    assert "Nothing was added." in err


def printing(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def test_a_value_may_come_from_what_a_program_prints(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/credentials"] = (201, {})
        code, out, _ = cli.run(
            "credential", "add", "gh", "--origin", "https://a", "--from-command",
            printing("print('canary-of-a-program')"), passphrase=PASSPHRASE,
        )  # fmt: skip

        assert [("gh", ["https://a"], {"token": "canary-of-a-program"})] == added(daemon)
    assert 0 == code
    assert "canary" not in out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (printing("print('canary'); raise SystemExit(3)"), "ended with 3"),
        (printing("print('c' * 100_000)"), "more than 8192 bytes"),
        ("no-such-program-anywhere", "can't be run"),
        ("'open", "No closing quotation"),
        ("", "expected a program"),
        (printing("import sys; sys.stdout.buffer.write(bytes([255]))"), "not UTF-8"),
    ],
)
def test_a_program_that_gives_no_value_changes_nothing(line: str, told: str) -> None:
    with pytest.raises(CliError, match=told):
        prompts.value_from_command(line)


def test_a_program_that_does_not_end_is_ended() -> None:
    with pytest.raises(CliError, match="took over"):
        prompts.value_from_command(printing("import time; time.sleep(60)"), limit_s=0.2)

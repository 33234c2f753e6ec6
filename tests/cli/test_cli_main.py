import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typing_extensions import override

from broker.cli.main import AGENT_VERBS, HUMAN_VERBS, main
from tests.fakes.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging/bin/doorward"


class Exploding(io.StringIO):
    """A stdout that fails in the middle of a verb."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__()
        self._fault = fault

    @override
    def write(self, _: str, /) -> int:
        raise self._fault


def test_help_lists_every_verb(cli: CommandLine) -> None:
    code, out, _ = cli.run("--help")

    assert 0 == code
    for verb in (*AGENT_VERBS, *HUMAN_VERBS):
        assert f"  {verb} " in out


@pytest.mark.parametrize("verb", [*AGENT_VERBS, *HUMAN_VERBS])
def test_every_verb_tells_about_itself(cli: CommandLine, verb: str) -> None:
    code, out, _ = cli.run(verb, "--help")

    assert 0 == code
    assert out.startswith("usage: doorward ")


def test_no_verb_is_usage(cli: CommandLine) -> None:
    code, out, _ = cli.run()

    assert (64, True) == (code, "doorward VERB" in out)


@pytest.mark.parametrize(
    "line",
    [
        ["nonsense"],
        ["http"],
        ["http", "GET"],
        ["status", "--bogus"],
        ["credential"],
        ["credential", "bogus"],
        ["approvals", "show"],
        ["operations", "settle", "op_1", "--as", "maybe"],
        ["http", "--jso", "GET", "x", "/"],  # never abbreviated
    ],
)
def test_a_wrong_command_line_exits_64_with_one_line(cli: CommandLine, line: list[str]) -> None:
    code, out, err = cli.run(*line)

    assert (64, "") == (code, out)
    assert err.startswith("doorward: ")
    assert 1 == err.count("\n")


def test_hostile_words_on_the_command_line_come_back_neutralised(cli: CommandLine) -> None:
    _, _, err = cli.run("\x1b[2J\u202ebogus")

    assert "\x1b" not in err
    assert "\u202e" not in err


def test_a_fault_of_our_own_shows_kind_and_place_but_neither_traceback_nor_content(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Exploding(RuntimeError("canary-content")))
        code = main(["--help"])
    err = capsys.readouterr().err

    assert 1 == code
    assert "RuntimeError" in err
    assert "canary-content" not in err
    assert "Traceback" not in err
    assert 1 == err.count("\n")


def test_an_interrupt_exits_130_in_silence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Exploding(KeyboardInterrupt()))
        code = main(["--help"])

    assert (130, "") == (code, capsys.readouterr().err)


def test_a_reader_that_left_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nowhere:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "broker.cli", "--help"],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            check=False,
            timeout=30,
        )

    assert (141, b"") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('exec "$0" -I -m broker.cli --help > /dev/full', (1, "the output can't be written: No space left on device")),
        (
            'exec "$0" -I -m broker.cli x --json > /dev/full',
            (1, "the output can't be written: No space left on device"),
        ),
        ('exec "$0" -I -m broker.cli --help >&-', (64, "standard output is closed")),
    ],
    ids=["full", "full while a fault is told", "closed"],
)
def test_output_that_goes_nowhere_is_told_in_one_line(line: str, said: tuple[int, str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable], stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )

    assert (said[0], f"doorward: {said[1]}\n") == (done.returncode, done.stderr)


def test_the_version_is_told(cli: CommandLine) -> None:
    code, out, _ = cli.run("--version")

    assert (0, True) == (code, out.startswith("doorward "))


@pytest.mark.parametrize("links", [0, 1, 2])
def test_the_script_runs_the_python_beside_it_also_through_links(tmp_path: Path, links: int) -> None:
    place = tmp_path / "env/bin"
    place.mkdir(parents=True)
    (place / "doorward").write_bytes(SCRIPT.read_bytes())
    (place / "doorward").chmod(0o755)
    (place / "python").write_text('#!/bin/sh\necho "$@"\n')
    (place / "python").chmod(0o755)
    start = place / "doorward"
    for number in range(links):
        link = tmp_path / f"link{number}"
        link.symlink_to(start if number == 0 else start.name)
        start = link

    done = subprocess.run([str(start), "a b", "--c"], capture_output=True, text=True, check=False, timeout=30)

    assert (0, "-I -m broker.cli a b --c\n") == (done.returncode, done.stdout)


def test_the_script_without_a_python_beside_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "doorward").write_bytes(SCRIPT.read_bytes())
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "doorward")], capture_output=True, text=True, check=False, timeout=30
    )

    assert 1 == done.returncode
    assert "uv tool" in done.stderr


def test_the_script_is_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)

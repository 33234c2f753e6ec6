"""Pinentry as a child that is not trusted: what it is told, what it may see, and what it can't do to us."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from broker.cli.assuan import escaped
from broker.cli.faults import CliError
from broker.cli.pinentry import Dialog, PinentryCancelled, ask, environment, has_display
from broker.client.approver import MAX_PASSPHRASE_BYTES
from tests.fakes.pinentries import giving, pinentry

LIMIT_S = 30.0
SHORT_S = 0.3
DIALOG = Dialog(about="100% yours\nof a vault", problem="wrong\x1b[2J")


def record(program: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in program.with_name("record").read_text().splitlines()]


def refused(program: Path, *, limit_s: float = LIMIT_S) -> str:
    """Why there was no passphrase."""
    with pytest.raises(CliError) as fault:
        ask(DIALOG, {}, program=str(program), limit_s=limit_s)
    assert not isinstance(fault.value, PinentryCancelled)
    assert "canary" not in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize(
    ("spelled", "typed"),
    [("canary words", b"canary words"), ("100%25%0A%c3%A4 ", b"100%\n\xc3\xa4 "), ("\u00e4", "\u00e4".encode())],
)
def test_what_was_typed_comes_back_byte_for_byte(tmp_path: Path, spelled: str, typed: bytes) -> None:
    assert typed == ask(DIALOG, {}, program=str(giving(tmp_path, spelled)), limit_s=LIMIT_S).reveal()


def test_data_in_several_lines_is_one_passphrase(tmp_path: Path) -> None:
    program = pinentry(tmp_path, answer="say('D canary ')\nsay('D words')\nsay('OK')")

    assert b"canary words" == ask(DIALOG, {}, program=str(program), limit_s=LIMIT_S).reveal()


def test_it_is_told_in_escaped_text_what_this_is_about(tmp_path: Path) -> None:
    program = giving(tmp_path, "canary")
    ask(DIALOG, {"LANG": "C.UTF-8", "TERM": "xterm"}, program=str(program), limit_s=LIMIT_S)

    lines = [item["line"] for item in record(program) if "line" in item]
    assert {"OPTION ttytype=xterm", "OPTION lc-ctype=C.UTF-8", "SETTIMEOUT 30"} <= set(lines)
    assert "SETDESC 100%25 yours%0Aof a vault" in lines
    assert ["SETERROR wrong\\u{1b}[2J"] == [line for line in lines if line.startswith("SETERROR")]
    assert "GETPIN" == lines[-1]


def test_it_sees_the_display_and_nothing_else(tmp_path: Path) -> None:
    program = giving(tmp_path, "canary")
    environ = {
        "DISPLAY": ":7",
        "WAYLAND_DISPLAY": "wayland-7",
        "XAUTHORITY": "/nowhere",
        "LC_ALL": "C.UTF-8",
        "LD_PRELOAD": "/canary.so",
        "GTK_MODULES": "canary",
        "DOORWARD_HOME": "/canary",
        "GITHUB_TOKEN": "canary",
        "PATH": "/canary",
    }
    ask(DIALOG, environ, program=str(program), limit_s=LIMIT_S)

    seen = record(program)[0]
    assert [] == seen["argv"]
    expected = {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "LC_ALL"}
    assert expected == set(seen["environ"]) - {"LC_CTYPE"}, "LC_CTYPE is the interpreter's own doing"


def test_it_inherits_no_descriptor(tmp_path: Path) -> None:
    program = giving(tmp_path, "canary")
    ours, theirs = socket.socketpair()
    os.set_inheritable(ours.fileno(), True)  # noqa: FBT003 - positional only
    try:
        ask(DIALOG, {}, program=str(program), limit_s=LIMIT_S)
    finally:
        ours.close()
        theirs.close()

    assert [0, 1, 2] == record(program)[0]["descriptors"][:3]
    assert 4 >= len(record(program)[0]["descriptors"]), "the fourth is its own look into /proc"


@pytest.mark.parametrize("code", [83886179, 83886278])
def test_a_closed_dialog_is_cancelled_and_no_fault(tmp_path: Path, code: int) -> None:
    with pytest.raises(PinentryCancelled) as ended:
        ask(DIALOG, {}, program=str(pinentry(tmp_path, answer=f"say('ERR {code} closed')")), limit_s=LIMIT_S)

    assert "cancelled" == ended.value.code


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("say('ERR 83886142 Timeout')", "nobody answered"),
        ("say('ERR 83886165 broken')", "failed with code"),
        ("say('ERR')", "without its number"),
        ("say('ERR 99999999999 far')", "without its number"),
        ("say('OK')", "1 to 1024"),
        (f"say('D ' + 'c' * 900)\nsay('D ' + 'c' * {MAX_PASSPHRASE_BYTES})\nsay('OK')", "too long"),
        ("say('D ' + 'c' * 900)\nsay('D ' + 'c' * 900)\nsay('OK')", "1 to 1024"),
        ("say('D canary%')\nsay('OK')", "can't be read"),
        ("say('D canary%0')\nsay('OK')", "can't be read"),
        ("say('D canary%zz')\nsay('OK')", "can't be read"),
        ("say('INQUIRE canary')", "none of the protocol"),
        ("say('HTTP/1.1 200 canary')", "none of the protocol"),
        ("say('')", "none of the protocol"),
        ("sys.exit(1)", "it ended"),
        ("os.kill(os.getpid(), 9)", "it ended"),
        ("say('D canary')\nsys.exit(0)", "it ended"),
        ("for _ in range(1 << 10): say('# ' + 'flood' * 100)", "far too much"),
        ("sys.stdout.write('x' * (1 << 20))\nsys.stdout.flush()", "too long"),
    ],
)
def test_an_answer_that_is_none_is_told_in_our_words(tmp_path: Path, answer: str, words: str) -> None:
    assert words in refused(pinentry(tmp_path, answer=answer))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "it ended"),
        ("say('ERR 1 no')", "refuses to talk"),
        ("say('canary')", "none of the protocol"),
        ("sys.stdout.write('OK' + 'x' * 5000)\nsys.stdout.flush()\ntime.sleep(60)", "too long"),
        ("say('OK')\nsys.stdin.close()\nos.close(0) if False else None\nsys.exit(0)", "it ended"),
    ],
)
def test_one_that_never_gets_so_far_is_told_too(tmp_path: Path, body: str, words: str) -> None:
    assert words in refused(pinentry(tmp_path, body=body))


@pytest.mark.parametrize("body", ["time.sleep(600)", "say('OK')\ntime.sleep(600)"])
def test_one_that_hangs_is_given_up_and_killed(tmp_path: Path, body: str) -> None:
    program = pinentry(tmp_path, body=f"note(pid=os.getpid())\n{body}")

    assert "took too long" in refused(program, limit_s=SHORT_S)
    (pid,) = [item["pid"] for item in record(program) if "pid" in item]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_ignores_being_hung_up_on_is_killed(tmp_path: Path) -> None:
    answer = "note(pid=os.getpid())\nsay('D canary')\nsay('OK')\ntime.sleep(600)"
    program = pinentry(tmp_path, answer=answer)

    assert b"canary" == ask(DIALOG, {}, program=str(program), limit_s=LIMIT_S).reveal()
    (pid,) = [item["pid"] for item in record(program) if "pid" in item]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("how", ["relative", "missing", "directory", "not executable", "writable by others"])
def test_a_program_that_others_could_have_put_there_is_not_started(tmp_path: Path, how: str) -> None:
    program = giving(tmp_path, "canary")
    match how:
        case "relative":
            program = Path("pinentry")
        case "missing":
            program.unlink()
        case "directory":
            program = tmp_path
        case "not executable":
            program.chmod(0o600)
        case _:
            program.chmod(0o722)

    assert str(program) in refused(program)
    assert not (tmp_path / "record").exists()


def test_what_is_no_program_at_all_is_told(tmp_path: Path) -> None:
    program = tmp_path / "pinentry"
    program.write_text("neither a script nor a binary")
    program.chmod(0o700)

    assert "can't be started" in refused(program)


@pytest.mark.parametrize(
    ("text", "line"), [("plain", "plain"), ("a%b", "a%25b"), ("a\nb\rc", "a%0Ab%0Dc"), ("\x7f\0", "%7F%00")]
)
def test_text_is_escaped_for_a_line(text: str, line: str) -> None:
    assert line == escaped(text)


def test_a_display_is_one_of_two_variables() -> None:
    assert [True, True, False, False] == [
        has_display(environ)
        for environ in ({"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}, {"DISPLAY": ""}, {"TERM": "xterm"})
    ]


def test_the_environment_is_chosen_by_name() -> None:
    assert {"LC_TIME": "C", "TERM": "x"} == environment({"LC_TIME": "C", "TERM": "x", "HOME": "/", "SHELL": "/x"})

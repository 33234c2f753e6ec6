"""The lines themselves; what they do under real shells is shown in tests/live."""

import re
from typing import Any

import pytest

from broker.core.ssh.frozen import MAX_COMMAND_BYTES
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.outcome import MarkerState, StoreSeen
from broker.core.ssh.wrapper import parse_probe, probe, wrap

LONGEST_ARGUMENT_BYTES = 131_072  # of one word, on Linux
OPERATION, NONCE = "op_" + "a" * 44, "0" * 32
HOME = StoreSeen(path="/home/u/.doorward", id="store-id-1", boot="b")
TMP = StoreSeen(path="/var/tmp/.doorward-1000", id="store-id-1", boot="b")  # noqa: S108 - a place on a host


def line(command: bytes = b"true", **changed: Any) -> str:
    asked: dict[str, Any] = {
        "operation_id": OPERATION, "nonce": NONCE, "pty": False, "mode": MarkerMode.REQUIRED, "detach": False,
        "store": HOME,
    }  # fmt: skip
    return wrap(command, **(asked | changed))


@pytest.mark.parametrize("detach", [False, True])
def test_a_line_is_one_quoted_word_for_sh_however_hard_the_command(*, detach: bool) -> None:
    hard = bytes(range(1, 256)) * 4 + b"'\\\n!\"$`@COMMAND@@RUNNER@@ID@"
    for text in (line(hard, detach=detach), line(hard, detach=detach, store=None), probe()):
        assert text.startswith("exec /bin/sh -c '")
        assert text.endswith("'")
        inside = text[len("exec /bin/sh -c '") : -1]
        assert not re.search(r"['!\n]|\\\\|[^ -~]", inside)
        assert "@ID@" not in inside.replace("@COMMAND@@RUNNER@@ID@", "")


@pytest.mark.parametrize("detach", [False, True])
def test_the_longest_command_fits_into_one_word(*, detach: bool) -> None:
    assert LONGEST_ARGUMENT_BYTES > len(line(b"\xff" * MAX_COMMAND_BYTES, detach=detach))


def test_a_short_command_stays_readable_and_short() -> None:
    assert 'printf "systemctl restart web."' in line(b"systemctl restart web")
    assert 1800 > len(line(b"true"))


def test_the_command_is_bound_to_the_store_that_was_seen() -> None:
    assert "d_d=$HOME/.doorward;" in line()
    assert "d_d=/var/tmp/.doorward-1000;" in line(store=TMP)
    assert "= store-id-1 ]" in line()
    for path in (f"{TMP.path}/x", f"{TMP.path}$(id)", "/home/$(reboot)/.doorward"):
        assert "d_d=$HOME/.doorward;" in line(store=StoreSeen(path=path, id="store-id-1", boot="b"))


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": MarkerMode.OFF},
        {"detach": True, "pty": True},
        {"operation_id": "op_x;reboot"},
        {"nonce": "$(reboot)"},
        {"store": StoreSeen(path="/home/u/.doorward", id="$(reboot)", boot="b")},
        {"command": b"a\0b"},
        {"command": b"a\0b", "store": None},
    ],
)
def test_what_can_not_be_carried_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"NUL|form|wrap"):
        line(changed.pop("command", b"true"), **changed)


def test_without_a_store_the_mode_decides() -> None:
    runs = line(store=None, mode=MarkerMode.PREFERRED)
    assert "no_store" in runs
    assert "exec" in runs.removeprefix("exec")
    for refuses in (line(store=None), line(store=None, mode=MarkerMode.PREFERRED, detach=True)):
        assert "exec" not in refuses.removeprefix("exec")


@pytest.mark.parametrize(
    ("stdout", "seen"),
    [
        (b"\x1eDW1 probe store-id-1 boot-1 /home/a b/.doorward\n", StoreSeen(
            path="/home/a b/.doorward", id="store-id-1", boot="boot-1")),
        (b"motd\r\n\x1eDW1 probe store-id-1 boot-1 /h/\xff\r\n", StoreSeen(
            path="/h/\\xff", id="store-id-1", boot="boot-1")),
        (b"\x1eDW1 probe - boot-1 /var/tmp/.doorward-0\n", MarkerState.NO_STORE),
        (b"\x1eDW1 probe ../../etc boot-1 /x\n", MarkerState.NO_STORE),
        (b"\x1eDW1 probe store-id-1 boot-1 /home", MarkerState.MISSING),
        (b"\x1eDW1 probe store-id-1 " + b"b" * 129 + b" /h\n", MarkerState.MISSING),  # it would be kept
        (b"\x1eDW1 probe store-id-1 boot-1 /" + b"h" * 4096 + b"\n", MarkerState.MISSING),
        (b"\x1eDW1 probe store-id-1 boot\x1b[2J /h\n", MarkerState.MISSING),
        (b"This account is currently not available.\n", MarkerState.MISSING),
        (b"", MarkerState.MISSING),
        (probe().encode(), MarkerState.MISSING),  # an echo of what was sent
    ],
)  # fmt: skip
def test_a_probe_is_answered_by_a_store_by_none_or_by_something_else(
    stdout: bytes, seen: StoreSeen | MarkerState
) -> None:
    assert seen == parse_probe(stdout)

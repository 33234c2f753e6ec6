"""Asking for the passphrase for real: at a terminal that is interrupted, by pinentry in a terminal, by a descriptor.

One daemon serves all of it. The passphrase is in no terminal's text, no argument list and no environment meanwhile.
"""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client.control_answers import part
from broker.contract.kdf import STANDARD_FLOOR, KdfParams
from tests.fakes.keyrings import program
from tests.live.house import PASSPHRASE, House, until
from tests.live.terminal import Terminal

pytestmark = pytest.mark.live

UNLOCK = [sys.executable, "-I", "-m", "broker.cli", "unlock"]
SIZE = (80, 24)
STANDARD = KdfParams(
    memory_kib=STANDARD_FLOOR.memory_kib, iterations=STANDARD_FLOOR.iterations, lanes=4, salt=b"a salt of a test"
)
LONG_S = 60.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("prompts") / "h", kdf=STANDARD) as house:
        house.init().start()
        yield house


@pytest.fixture
def house(made: House) -> House:
    """Its vault is locked."""
    made.human.client.lock()
    return made


def state(house: House) -> object:
    return part(house.human.client.status(), "vault")["state"]


def shell(house: House) -> Terminal:
    """A shell of a human in tmux, with job control, that knows `unlock`."""
    environ = {**house.environ, "ENV": ""}
    return Terminal("prompts", ["bash", "--noprofile", "--norc", "-i"], environ=environ, size=SIZE)


def type_line(terminal: Terminal, line: str) -> None:
    terminal.keys("-l", line)
    terminal.keys("Enter")


def test_ctrl_z_and_ctrl_c_give_the_terminal_back_and_nothing_is_ever_echoed(house: House) -> None:
    with shell(house) as terminal:
        terminal.until("bash-")
        type_line(terminal, shlex.join(UNLOCK))
        terminal.until("Passphrase:")
        terminal.keys("-l", "canary-half-ty")
        terminal.keys("C-z")
        terminal.until("Stopped")
        type_line(terminal, "echo the shell ech''oes")
        terminal.until("the shell echoes", "ech''oes")
        type_line(terminal, "fg")
        until(lambda: terminal.screen.count("Passphrase:") == 2, limit_s=LONG_S)
        type_line(terminal, PASSPHRASE)
        terminal.until("the vault is ready", limit_s=LONG_S)
        assert "ready" == state(house)
        house.human.client.lock()

        type_line(terminal, f"clear; {shlex.join(UNLOCK)}")
        terminal.until("Passphrase:")
        terminal.keys("-l", "canary-half-ty")
        terminal.keys("C-c")
        terminal.until("bash-")
        type_line(terminal, "echo code $? ech''oes")
        terminal.until("code 130 echoes", "ech''oes")
        assert "canary" not in terminal.screen
    assert "locked" == state(house)


def test_a_killed_question_leaves_a_terminal_that_echoes(house: House, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with shell(house) as terminal:
        terminal.until("bash-")
        type_line(terminal, f"clear; (echo $BASHPID >{pid}; exec {shlex.join(UNLOCK)})")
        terminal.until("Passphrase:", limit_s=LONG_S)
        os.kill(int(pid.read_text()), signal.SIGTERM)
        terminal.until("Terminated", limit_s=LONG_S)
        type_line(terminal, "echo ech''oes")
        terminal.until("echoes", "ech''oes")


@pytest.mark.parametrize("name", ["pinentry-curses", "pinentry-tty"])
def test_a_pinentry_of_the_terminal_opens_the_vault(house: House, name: str) -> None:
    command = [*UNLOCK, "--pinentry", program(name)]
    with shell(house) as terminal:
        terminal.until("bash-")
        type_line(terminal, shlex.join(command))
        terminal.until("Passphrase", "opens the vault", limit_s=LONG_S)
        for secret in environments(name):
            assert PASSPHRASE.encode() not in secret
            assert b"DOORWARD_HOME" not in secret
        type_line(terminal, "canary of another house")
        terminal.until("does not open", limit_s=LONG_S)
        type_line(terminal, PASSPHRASE)
        terminal.until("the vault is ready", limit_s=LONG_S)
        assert "canary" not in terminal.screen.replace(str(house.places.home), "")
    assert "ready" == state(house)
    house.human.open_session()
    failed = house.human.events("vault.unlock_failed")
    assert failed
    assert "wrong_passphrase" == failed[-1]["fields"]["why"]


def test_a_cancelled_pinentry_is_told_as_that(house: House) -> None:
    with shell(house) as terminal:
        terminal.until("bash-")
        type_line(terminal, shlex.join([*UNLOCK, "--pinentry", program("pinentry-curses")]))
        terminal.until("Passphrase", "Cancel", limit_s=LONG_S)
        terminal.keys("Tab", "Tab", "Enter")
        terminal.until("cancelled; nothing was done", limit_s=LONG_S)
        type_line(terminal, "echo code $? ech''oes")
        terminal.until("code 1 echoes", "ech''oes")
    assert "locked" == state(house)


def environments(name: str) -> list[bytes]:
    """Argument lists and environments of the pinentries that run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == name[:15]:
                found += [(process / "environ").read_bytes(), (process / "cmdline").read_bytes()]
        except OSError:
            continue
    assert found, f"no {name} runs"
    return found

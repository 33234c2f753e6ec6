"""What is asked at a terminal, with a pseudo-terminal in the human's place."""

import os
import pty
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from broker.contract.wire import JsonValue, digest
from tests.fakes.cards import delete_sample, sample
from tests.fakes.command_line import LOG_ID, PASSPHRASE, CommandLine
from tests.fakes.envelopes import envelope
from tests.fakes.unix_daemon import Asked, Reply

LIMIT_S = 30.0
ID = "ap_0123456789ab"


class Terminal:
    """A verb that runs in a terminal of its own."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.seen = ""
        self._pid, self._end = pty.fork()
        if self._pid == 0:
            os.environ["DOORWARD_HOME"] = str(home)
            os.execv(sys.executable, [sys.executable, "-I", "-m", "broker.cli", *arguments])  # noqa: S606 - our own program

    def until(self, words: str) -> None:
        """Read until the words were shown."""
        deadline = time.monotonic() + LIMIT_S
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if not self._read(0.2):
                raise AssertionError(f"it ended before {words!r} was shown: {self.seen}")

    def type(self, line: str) -> None:
        os.write(self._end, line.encode() + b"\n")

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())

    def exit_code(self) -> int:
        deadline = time.monotonic() + LIMIT_S
        while self._read(0.2):
            assert time.monotonic() < deadline, self.seen
        os.close(self._end)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self, wait_s: float) -> bool:
        if not select.select([self._end], [], [], wait_s)[0]:
            return True
        try:
            part = os.read(self._end, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.seen += part.decode("utf-8", "replace")
        return bool(part)


def test_a_passphrase_is_typed_without_echo(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/thaw"] = (200, {"frozen": False})
        terminal = Terminal(cli.home, "thaw")
        terminal.until("Passphrase: ")
        terminal.type(PASSPHRASE)

        assert 0 == terminal.exit_code()
        assert 1 == len(daemon.bodies("POST /v1/thaw"))
    assert PASSPHRASE not in terminal.seen


def test_two_passphrases_that_differ_make_nothing(cli: CommandLine) -> None:
    terminal = Terminal(cli.home, "init", "--kdf-cost", "least")
    terminal.until("New passphrase: ")
    terminal.type("one")
    terminal.until("The same again: ")
    terminal.type("other")

    assert 1 == terminal.exit_code()
    assert not cli.places.vault.exists()


def test_a_new_passphrase_is_explained_and_a_short_one_is_called_short(cli: CommandLine) -> None:
    terminal = Terminal(cli.home, "init", "--kdf-cost", "least")
    terminal.until("Nobody can recover it.")
    terminal.until("New passphrase: ")
    terminal.type("canary")
    terminal.until("The same again: ")
    terminal.type("canary")

    assert 0 == terminal.exit_code()
    assert "! short: " in terminal.seen
    assert "canary" not in terminal.seen
    assert cli.places.vault.exists()


def test_an_interrupted_question_leaves_the_shell_a_line_of_its_own(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon():
        terminal = Terminal(cli.home, "thaw")
        terminal.until("Passphrase: ")
        terminal.press("\x03")

        assert 130 == terminal.exit_code()
    assert terminal.seen.endswith("\r\n")


@pytest.mark.parametrize(("answer", "code", "removed"), [("y", 0, 1), ("", 1, 0), ("n", 1, 0), ("yes please", 1, 0)])
def test_a_question_is_answered_by_y_alone(cli: CommandLine, answer: str, code: int, removed: int) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["DELETE /v1/credentials/gh"] = (200, {})
        terminal = Terminal(cli.home, "credential", "remove", "gh")
        terminal.until("Remove gh for good? [y/N]")
        terminal.type(answer)
        if removed:
            terminal.until("Passphrase: ")
            terminal.type(PASSPHRASE)

        assert code == terminal.exit_code()
        assert removed == len(daemon.bodies("DELETE /v1/credentials/gh"))


@pytest.mark.parametrize(("answer", "code", "added"), [("y", 0, 1), ("", 1, 0)])
def test_a_place_that_the_policy_names_is_bound_after_a_yes(
    cli: CommandLine, answer: str, code: int, added: int
) -> None:
    service: dict[str, JsonValue] = {"name": "deploy", "base_url": "https://d.example:8443/v2", "credential": "deploy"}
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/policy"] = (200, {"services": [service]})
        daemon.replies["POST /v1/credentials"] = (201, {})
        terminal = Terminal(cli.home, "credential", "add", "deploy")
        terminal.until("Passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.until("Bind deploy to https://d.example:8443? [y/N]")
        terminal.type(answer)
        if added:
            terminal.until("Value of deploy (not shown): ")
            terminal.type("canary-value")

        assert code == terminal.exit_code()
        assert [["https://d.example:8443"]] * added == [
            body["statement"]["params"]["origins"] for body in daemon.bodies("POST /v1/credentials")
        ]


@pytest.mark.parametrize(
    ("card", "question", "answer", "approved"),
    [
        (sample(log_id=LOG_ID), "Approve once? [y/N]", "y", True),
        (sample(log_id=LOG_ID), "Approve once? [y/N]", "", False),
        ({**delete_sample(), "log_id": LOG_ID}, "Type 1290 to approve:", "1290", True),
        ({**delete_sample(), "log_id": LOG_ID}, "Type 1290 to approve:", "y", False),
    ],
)
def test_approving_asks_after_the_card_was_shown(
    cli: CommandLine, card: dict[str, JsonValue], question: str, answer: str, *, approved: bool
) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        served = {
            "id": ID,
            "state": "pending",
            "card": card,
            "card_digest": digest("doorward/card/v1", card),
            "nonce": "n" * 22,
            "arming_ms": 0,
            "served_at_ms": 1,
            "expires_at_ms": 1,
            "joined": 1,
        }
        daemon.replies[f"GET /v1/approvals/{ID}"] = (200, served)
        daemon.replies[f"POST /v1/approvals/{ID}/decision"] = (200, {"id": ID, "state": "approved"})
        terminal = Terminal(cli.home, "approvals", "approve", ID)
        terminal.until("Passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.until(question)
        assert "A yes covers" in terminal.seen
        terminal.type(answer)

        assert (0 if approved else 1) == terminal.exit_code()
        assert int(approved) == len(daemon.bodies(f"POST /v1/approvals/{ID}/decision"))


def test_what_was_typed_before_the_question_answers_nothing(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["DELETE /v1/credentials/gh"] = (200, {})
        terminal = Terminal(cli.home, "credential", "remove", "gh")
        terminal.type("y")  # before the program could ask anything
        terminal.until("Remove gh for good? [y/N]")
        terminal.type("n")

        assert 1 == terminal.exit_code()
        assert [] == daemon.bodies("DELETE /v1/credentials/gh")


def test_without_a_terminal_a_question_is_a_refusal_with_the_remedy(cli: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "credential", "remove", "gh"],
        env={**os.environ, "DOORWARD_HOME": str(cli.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=LIMIT_S,
    )

    assert (1, True) == (done.returncode, "--yes" in done.stderr)


def test_a_descriptor_that_is_not_open_is_usage(cli: CommandLine) -> None:
    cli.make_key()

    assert 64 == cli.run("thaw", "--passphrase-fd", "987")[0]


def test_nobody_types_a_passphrase_where_no_daemon_runs(cli: CommandLine) -> None:
    cli.make_key()
    terminal = Terminal(cli.home, "thaw")

    assert 31 == terminal.exit_code()
    assert "Passphrase" not in terminal.seen


def test_a_long_silence_is_explained_at_a_terminal(cli: CommandLine) -> None:
    answered = threading.Event()

    def slow(_: Asked) -> Reply:
        assert answered.wait(LIMIT_S)
        return 200, envelope()

    with cli.agent_daemon() as daemon:
        daemon.replies["POST /v1/http"] = slow
        terminal = Terminal(cli.home, "http", "GET", "github", "/user")
        terminal.until("a human may have to allow it: doorward ui")
        answered.set()

        assert 0 == terminal.exit_code()

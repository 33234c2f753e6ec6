"""`doorward serve`, `ui` and `up`: the daemon, the approval screen, and both with one passphrase.

Each is the same interpreter, isolated (-I). `up` leaves the daemon running when the screen is closed, and says so.
"""

import contextlib
import os
import signal
import subprocess
import sys
from argparse import Namespace

from broker.cli.arguments import Parser, human_parser
from broker.cli.environment import for_daemon
from broker.cli.faults import CliError, UsageError
from broker.cli.prompts import passphrase
from broker.cli.reach import await_ready, daemon_command, holder, key_file, places, running
from broker.client.approver import derive
from broker.client.control import ControlClient
from broker.client.envelope_lines import part
from broker.client.faults import NotRunning
from broker.client.handover import write_line
from broker.client.hardening import harden
from broker.client.places import Places
from broker.core.secret import Secret

LOG_MODE = 0o600


def run(noun: str, arguments: list[str]) -> int:
    if noun == "serve":
        return _serve(arguments)
    if noun == "ui":
        return _ui(arguments)
    return _up(arguments)


def _serve(arguments: list[str]) -> int:
    parser = Parser("doorward serve", "Run the daemon in the foreground.")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    _desktop_options(parser)
    options = parser.parse_args(arguments)
    _become(daemon_command("--log-level", options.log_level, *_desktop_words(options)))
    return 0


def _desktop_options(parser: Parser) -> None:
    parser.add_argument("--no-notices", action="store_true", help="show no desktop notices of waiting cards")
    parser.add_argument("--no-desktop-lock", action="store_true", help="stay open at a screen lock or a sleep")


def _desktop_words(options: Namespace) -> list[str]:
    chosen = [("--no-notices", options.no_notices), ("--no-desktop-lock", options.no_desktop_lock)]
    return [word for word, is_chosen in chosen if is_chosen]


def _ui(arguments: list[str]) -> int:
    parser = Parser("doorward ui", "The approval screen of a daemon that runs.")
    parser.add_argument("--passphrase-fd", type=int, metavar="N", help="read the passphrase's line from descriptor N")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII signs only")
    options = parser.parse_args(arguments)
    if options.passphrase_fd is not None:
        try:
            os.set_inheritable(options.passphrase_fd, True)  # noqa: FBT003 - positional only
        except OSError as cause:
            raise CliError(f"descriptor {options.passphrase_fd}: {cause.strerror}") from None
    _become(_ui_command(options.passphrase_fd, ascii_only=options.ascii))
    return 0


def _up(arguments: list[str]) -> int:
    harden()
    parser = human_parser("doorward up", "Start the daemon if none runs, unlock it, and open the approval screen.")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII signs only")
    options = parser.parse_args(arguments)
    where = places()
    if not where.vault.exists():
        raise CliError("there is no vault yet: doorward setup github makes everything that is needed")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the approval screen needs a terminal; without one: doorward serve, doorward unlock")
    file = key_file()
    given = passphrase(options.passphrase_fd)
    keys = derive(given, file.kdf)
    file.opened(keys.approver_kek).wipe()  # a wrong passphrase ends here
    with ControlClient(where) as control:
        pid = _start_if_needed(control, where)
        stop = "kill the daemon's process" if pid is None else f"kill {pid}"
        try:
            if part(control.status(), "vault").get("state") != "ready":
                control.unlock(keys.vault_kek)
        except Exception:  # whatever it was that is told above us: a daemon runs by now, which is not to be missed
            print(f"The vault stays closed; the daemon goes on. To stop it: {stop}", file=sys.stderr)
            raise
    code = _attend_ui(given, options)
    print(f"The screen is closed; {_left_behind(where, stop)}")
    return code


def _left_behind(where: Places, stop: str) -> str:
    try:
        with running(where) as control:
            control.status()
    except NotRunning:
        return "the daemon has stopped meanwhile. To start it: doorward up"
    return f"the daemon goes on. To close the vault: doorward lock. To stop it: {stop}"


def _start_if_needed(control: ControlClient, where: Places) -> int | None:
    """Start a daemon in a session of its own where none runs; its pid where it is known."""
    with contextlib.suppress(NotRunning):
        control.status()
        return holder(where)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        log = os.open(where.daemon_log, flags, LOG_MODE)
    except OSError as cause:
        raise CliError(f"{where.daemon_log} can't be written: {cause.strerror}") from None
    try:
        child = subprocess.Popen(
            daemon_command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=for_daemon(os.environ),
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(log)
    try:
        await_ready(child, f"see {where.daemon_log}")
    except BaseException:
        child.terminate()
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()
    child.returncode = 0  # it outlives us on purpose: nobody waits for it
    return child.pid


def _attend_ui(given: Secret, options: Namespace) -> int:
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(_ui_command(reading, ascii_only=options.ascii), pass_fds=(reading,))
        os.close(reading)
        with contextlib.suppress(BrokenPipeError):
            write_line(writing, given)
    finally:
        os.close(writing)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the screen asks before it ends
    try:
        return child.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _ui_command(descriptor: int | None, *, ascii_only: bool) -> list[str]:
    command = [sys.executable, "-I", "-m", "ui"]
    if descriptor is not None:
        command += ["--passphrase-fd", str(descriptor)]
    return [*command, "--ascii"] if ascii_only else command


def _become(command: list[str]) -> None:
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - our own program, from a list

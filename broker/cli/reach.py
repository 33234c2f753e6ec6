"""Reaching the daemon as a human: the running one, else, for verbs that need none, a transient one of our own.

A transient daemon serves control.sock alone, holds the state directory's lock like any other, and dies with us.
The approver key is opened here and stays here; it is wiped when the verb is done.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from broker.cli.environment import for_daemon
from broker.cli.faults import CliError
from broker.cli.prompts import passphrase
from broker.client.approver import ApproverKey, KeyFile, Keys, WrongPassphrase, derive, read_key_file, rewrapped_beside
from broker.client.control import ControlClient
from broker.client.faults import NotRunning
from broker.client.places import Places
from broker.contract.wire import WireError, parse_object
from broker.core.secret import Secret

START_S = 30.0
STOP_S = 30.0
_MOST_OUTPUT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A daemon that was reached, and an approver key in use."""

    control: ControlClient
    key: ApproverKey
    transient: bool
    given: Secret | None = None  # a value that came with the command line's options


def places() -> Places:
    return Places(os.environ)


@contextlib.contextmanager
def running(where: Places) -> Iterator[ControlClient]:
    """The daemon that runs. Raises NotRunning where none does."""
    with ControlClient(where) as control:
        yield control


@contextlib.contextmanager
def running_or_transient(where: Places) -> Iterator[tuple[ControlClient, bool]]:
    """The daemon that runs, else one of our own until the end of the block; the flag tells which."""
    with ControlClient(where) as control:
        try:
            control.status()
        except NotRunning:
            control.close()
        else:
            yield control, False
            return
    with _transient(where), ControlClient(where) as control:
        yield control, True


@contextlib.contextmanager
def desk(
    options: Namespace,
    *,
    transient: bool,
    session: bool = False,
    given: Callable[[Namespace], Secret | None] = lambda _: None,
) -> Iterator[Desk]:
    """A daemon and the opened approver key. With `session` this process may also read what is sealed.

    Where a daemon has to run already it is looked for before anybody types in vain. Then the passphrase is read and
    tried on the key's own file, then `given` reads what else was handed in; a transient daemon starts only after that.
    """
    where = places()
    if not transient and options.passphrase_fd is None:
        with running(where) as control:
            control.status()
    keys, key = unlocked_key(options)
    with key:
        value = given(options)
        reached = running_or_transient(where) if transient else _as_pair(where)
        with reached as (control, is_transient):
            if is_transient:
                control.unlock(keys.vault_kek)
            if session:
                control.open_session(key)
            yield Desk(control=control, key=key, transient=is_transient, given=value)


def started_and_stopped(where: Places) -> None:
    """A daemon of our own, for what every start does. Raises CliError with its reason where it does not start."""
    with _transient(where):
        pass


def unlocked_key(options: Namespace) -> tuple[Keys, ApproverKey]:
    """Ask for the passphrase and open the approver key with it. Raises WrongPassphrase."""
    file = key_file(getattr(options, "approver_key", None))
    keys = derive(passphrase(options.passphrase_fd), file.kdf)
    try:
        return keys, file.opened(keys.approver_kek)
    except WrongPassphrase:
        if rewrapped_beside(places().approver_key).exists():
            raise WrongPassphrase(
                "the passphrase does not open the approver key; a change of it was cut off: doorward vault passphrase"
            ) from None
        raise


def holder(where: Places) -> int | None:
    """The pid that the daemon wrote into its lock file; its word while it runs, and nobody's after that."""
    try:
        text = where.lock.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() else None


def key_file(named: str | None = None) -> KeyFile:
    """The approver key's file: the one that was named, else this directory's."""
    return read_key_file(places().approver_key if named is None else Path(named))


def daemon_command(*arguments: str) -> list[str]:
    """How this installation's daemon is started: the same interpreter, isolated."""
    return [sys.executable, "-I", "-m", "broker.daemon", *arguments]


def await_ready(child: "subprocess.Popen[bytes]", more: str) -> None:
    """Wait until a daemon that we started says that it serves. Raises CliError with its reason, and `more`."""
    if child.stdout is None:
        raise CliError("the daemon that was started has no output to wait for")
    readable, _, _ = select.select([child.stdout], [], [], START_S)
    line = os.read(child.stdout.fileno(), _MOST_OUTPUT_BYTES) if readable else b""
    if line.split(b"\n", 1)[0].strip() == b"ready":
        return
    why = reason_of(child, line) if readable else f"it was not ready in {START_S:.0f} s"
    raise CliError(f"the daemon did not start: {why}" + (f"; {more}" if more else ""))


@contextlib.contextmanager
def _as_pair(where: Places) -> Iterator[tuple[ControlClient, bool]]:
    with running(where) as control:
        yield control, False


@contextlib.contextmanager
def _transient(where: Places) -> Iterator[None]:
    if not where.vault.exists():
        raise CliError("there is no vault yet; doorward init makes one")
    with subprocess.Popen(
        daemon_command("--transient"),
        stdin=subprocess.PIPE,  # its end tells the child that we are gone
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=for_daemon(os.environ),
        start_new_session=True,  # Ctrl-C is for us; we stop the child in order
    ) as child:
        try:
            await_ready(child, "")
            yield
        finally:
            _stop(child)


def reason_of(child: "subprocess.Popen[bytes]", output: bytes) -> str:
    """What a child of ours said when it gave up: its JSON error, else the last line of its stderr."""
    with contextlib.suppress(WireError):
        error = parse_object(output.strip() or b"{}").get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return str(error["message"])
    if child.stderr is None:
        return "it did not say why"
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=STOP_S)
    said = b""
    while len(said) < _MOST_OUTPUT_BYTES and select.select([child.stderr], [], [], 0)[0]:
        part = os.read(child.stderr.fileno(), 4096)
        if not part:
            break
        said += part
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it did not say why"


def _stop(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(timeout=STOP_S)

"""Asking the human: passphrases and values without echo, a yes, a word.

From a descriptor that was named, else the terminal; a passphrase also from pinentry, where there is a display alone.
Never from argv or the environment. Questions are neutralised here, whoever spelled them. What was typed before a
question stood there answers nothing.
"""

import os
import shlex
import subprocess
import sys
import termios
import threading
from pathlib import Path

from broker.cli.faults import CliError, UsageError
from broker.cli.pinentry import Dialog, ask, has_display
from broker.cli.terminal import has_terminal, hidden_line, open_terminal
from broker.client.approver import MAX_PASSPHRASE_BYTES
from broker.contract.neutralise import visible
from broker.core.secret import Secret

MAX_VALUE_BYTES = 8192
COMMAND_S = 120.0  # a vault's own program may ask its human
SHORT_BYTES = 12
_ABOUT_NEW = "One passphrase opens the vault and signs your approvals. Nobody can recover it."
ABOUT_PINENTRY = "Your passphrase opens the vault of doorward and signs your approvals."


def passphrase(descriptor: int | None) -> Secret:
    """One line from the descriptor, else typed at the terminal without echo, else asked by the desktop's pinentry."""
    if descriptor is not None:
        return _bounded(_line_of(descriptor, MAX_PASSPHRASE_BYTES), "the passphrase")
    if not has_terminal() and has_display(os.environ):
        return ask(Dialog(about=ABOUT_PINENTRY), os.environ)
    return _bounded(hidden("Passphrase: "), "the passphrase")


def new_passphrase(descriptor: int | None) -> Secret:
    """A passphrase for what is about to be made, typed twice. A short one is taken, and called short."""
    if descriptor is not None:
        return passphrase(descriptor)
    print(_ABOUT_NEW, file=sys.stderr)
    first = hidden("New passphrase: ")
    if first != hidden("The same again: "):
        raise CliError("the two are not the same; nothing was changed")
    if 0 < len(first) < SHORT_BYTES:
        print("! short: whoever gets a copy of the vault can try all of that length", file=sys.stderr)
    return _bounded(first, "the passphrase")


def hidden(question: str) -> bytes:
    """Typed at the terminal without echo; never read from anywhere else."""
    try:
        return hidden_line(visible(question), most_bytes=MAX_VALUE_BYTES)
    except ValueError as cause:
        raise CliError(str(cause)) from None
    except (EOFError, OSError, termios.error):
        raise CliError("there is no terminal to ask at; give the passphrase's line by --passphrase-fd N") from None


def value_from_stdin() -> Secret:
    """A secret value from standard input: all of it, without one line end at its end."""
    if sys.stdin.isatty():
        raise UsageError("--stdin is for a pipe or a file; leave it out to type the value without echo")
    content = sys.stdin.buffer.read(MAX_VALUE_BYTES + 2)
    return _value(content.removesuffix(b"\n").removesuffix(b"\r"))


def value_from_file(name: str) -> Secret:
    """A secret value that lies in a file, such as a private key."""
    try:
        with Path(name).open("rb") as file:
            return _value(file.read(MAX_VALUE_BYTES + 1))
    except OSError as cause:
        raise UsageError(f"{name} can't be read: {cause.strerror}") from None


def value_from_command(line: str, *, limit_s: float = COMMAND_S) -> Secret:
    """A secret value that a program of the administrator's prints, without one line end at its end.

    No shell reads the line. What the program says of itself goes to standard error, as if it had been typed.
    """
    try:
        words = shlex.split(line)
    except ValueError as cause:
        raise UsageError(f"--from-command: {cause}") from None
    if not words:
        raise UsageError("--from-command: expected a program and its words")
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
    except OSError as cause:
        raise CliError(f"{words[0]} can't be run: {cause.strerror}") from None
    late = threading.Timer(limit_s, process.kill)
    late.start()
    with process:
        content = b"" if process.stdout is None else process.stdout.read(MAX_VALUE_BYTES + 3)
        if len(content) > MAX_VALUE_BYTES + 2:
            process.kill()
    late.cancel()
    if len(content) <= MAX_VALUE_BYTES + 2 and process.returncode != 0:
        raise CliError(f"{words[0]} ended with {process.returncode}, or took over {limit_s:g} s; nothing was changed")
    return _value(content.removesuffix(b"\n").removesuffix(b"\r"))


def text_of_file(name: str) -> str:
    """A file that holds no secret, such as a certificate."""
    try:
        return Path(name).read_text(encoding="utf-8")[:MAX_VALUE_BYTES]
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{name} can't be read as text") from None


def value_from_environment(variable: str) -> Secret:
    content = os.environb.get(os.fsencode(variable))
    if content is None:
        raise UsageError(f"there is no variable {variable} in the environment")
    return _value(content)


def typed_value(question: str) -> Secret:
    return _value(hidden(question))


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether the human types `y`. True at once with --yes."""
    return yes or _typed(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def word(question: str) -> str:
    """A word typed in full, with echo."""
    return _typed(f"{question} ").strip()


def _typed(question: str) -> str:
    try:
        descriptor = open_terminal()
    except OSError:
        raise CliError("there is no terminal to ask at; say --yes to go on without a question") from None
    try:
        termios.tcflush(descriptor, termios.TCIFLUSH)
        os.write(descriptor, visible(question, multiline=True).encode("utf-8", "replace"))
        return _line_of(descriptor, 1024).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _line_of(descriptor: int, most_bytes: int) -> bytes:
    """Up to a line end, byte by byte: what stands behind it belongs to another reader."""
    out = bytearray()
    try:
        while (octet := os.read(descriptor, 1)) not in {b"", b"\n"}:
            out += octet
            if len(out) > most_bytes:
                raise CliError(f"the line has more than {most_bytes} bytes")
    except OSError as cause:
        raise UsageError(f"descriptor {descriptor} can't be read: {cause.strerror}") from None
    return bytes(out).removesuffix(b"\r")


def _value(content: bytes) -> Secret:
    if len(content) > MAX_VALUE_BYTES:
        raise CliError(f"the value has more than {MAX_VALUE_BYTES} bytes")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        raise CliError("the value is not UTF-8 text") from None
    return _bounded(content, "the value")


def _bounded(content: bytes, what: str) -> Secret:
    if not content:
        raise CliError(f"{what} is empty; nothing was changed")
    return Secret(content)

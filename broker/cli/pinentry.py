"""The passphrase by pinentry: a dialog of the desktop's, or of a terminal that is not ours.

The program is named by an absolute path and has to be a file that nobody but root or we could have put there. It starts
from an allow-listed environment, with two pipes and no other descriptor, and has one minute.
That a human closed the dialog, that it timed out and that it misbehaved are three different answers. What it says is
shown to nobody.
"""

import contextlib
import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.cli.assuan import AssuanError, Conversation
from broker.cli.faults import CliError
from broker.client.approver import MAX_PASSPHRASE_BYTES
from broker.contract.neutralise import visible
from broker.core.secret import Secret

PINENTRY = "/usr/bin/pinentry"
DIALOG_S = 60.0
LEAVE_S = 2.0
_CANCELLED = frozenset({99, 198})  # the codes of libgpg-error: cancelled, fully cancelled
_TIMED_OUT = 62
_ENVIRONMENT = frozenset(
    {
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
        *("XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP", "LANG", "TERM"),
    }
)


class PinentryCancelled(CliError):  # noqa: N818 - an ending, not an error
    """The human closed the dialog."""

    def __init__(self) -> None:
        super().__init__("cancelled; nothing was done", code="cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """What the human reads. `problem` is about the attempt before."""

    about: str
    prompt: str = "Passphrase:"
    problem: str = ""


def has_display(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("WAYLAND_DISPLAY") or environ.get("DISPLAY"))


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the child sees: where the display and the session bus are, and the language."""
    chosen = {name: value for name, value in environ.items() if name in _ENVIRONMENT or name.startswith("LC_")}
    if "DISPLAY" in chosen and "XAUTHORITY" not in chosen:
        usual = Path(pwd.getpwuid(os.geteuid()).pw_dir, ".Xauthority")
        if usual.is_file():
            chosen["XAUTHORITY"] = str(usual)
    return chosen


def ask(dialog: Dialog, environ: Mapping[str, str], *, program: str = PINENTRY, limit_s: float = DIALOG_S) -> Secret:
    """What the human typed. Raises PinentryCancelled, or CliError where there was no answer."""
    refuse_untrusted(program)
    with _started(program, environ) as child:
        if child.stdin is None or child.stdout is None:
            raise CliError("pinentry was started without its pipes")
        talk = Conversation(
            reading=child.stdout.fileno(), writing=child.stdin.fileno(), deadline_s=time.monotonic() + limit_s + LEAVE_S
        )
        try:
            return _asked(talk, dialog, environ, limit_s)
        except AssuanError as cause:
            raise CliError(f"{program}: {cause}; give the passphrase's line by --passphrase-fd N") from None
        finally:
            talk.wipe()


def refuse_untrusted(program: str) -> None:
    """Raises CliError for a program that somebody else could have put there."""
    path = Path(program)
    if not path.is_absolute():
        raise CliError(f"{visible(program)}: name pinentry by its absolute path")
    try:
        facts = path.resolve(strict=True).stat()
    except OSError as cause:
        raise CliError(f"{visible(program)} can't be used: {cause.strerror}") from None
    if not stat.S_ISREG(facts.st_mode) or not os.access(program, os.X_OK):
        raise CliError(f"{visible(program)} is no program")
    if facts.st_uid not in {0, os.geteuid()} or facts.st_mode & 0o022 or not _is_kept(path):
        raise CliError(f"{visible(program)} could have been written by somebody else; it gets no passphrase")


def _is_kept(path: Path) -> bool:
    """Whether nobody else can put another program there, by any directory that leads to it."""
    for above in {*path.parents, *path.resolve().parents}:
        facts = above.stat()
        may_others = facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX
        if facts.st_uid not in {0, os.geteuid()} or may_others:
            return False
    return True


def _asked(talk: Conversation, dialog: Dialog, environ: Mapping[str, str], limit_s: float) -> Secret:
    talk.greeted()
    for option in _options(environ):
        talk.say("OPTION", option)  # what it does not know, it refuses, and goes on
    talk.say("SETTIMEOUT", str(int(limit_s)))
    for command, text in (
        ("SETTITLE", "doorward"),
        ("SETDESC", visible(dialog.about, multiline=True)),
        ("SETPROMPT", visible(dialog.prompt)),
        *([("SETERROR", visible(dialog.problem))] if dialog.problem else []),
    ):
        if not talk.say(command, text).ok:
            raise AssuanError(f"it refuses {command}")
    answer = talk.say("GETPIN")
    if answer.code in _CANCELLED:
        raise PinentryCancelled
    if answer.code == _TIMED_OUT:
        raise CliError(f"nobody answered within {limit_s:.0f} s; nothing was done")
    if not answer.ok:
        raise AssuanError(f"it failed with code {answer.code}")
    if not 0 < len(answer.data) <= MAX_PASSPHRASE_BYTES:
        raise CliError(f"a passphrase has 1 to {MAX_PASSPHRASE_BYTES} bytes; nothing was done")
    return Secret(answer.data)


def _options(environ: Mapping[str, str]) -> list[str]:
    """Where a dialog that needs a terminal finds one, and the language."""
    options = []
    for stream in (sys.stdin, sys.stderr, sys.stdout):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            options.append(f"ttyname={os.ttyname(stream.fileno())}")
            break
    if environ.get("TERM"):
        options.append(f"ttytype={environ['TERM']}")
    language = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG")
    return [*options, *([f"lc-ctype={language}"] if language else [])]


@contextlib.contextmanager
def _started(program: str, environ: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """The child, which is gone at the end of the block."""
    try:
        child = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(environ),
            cwd="/",
            close_fds=True,
            bufsize=0,
        )
    except OSError as cause:
        raise CliError(f"{program} can't be started: {cause.strerror}") from None
    try:
        yield child
    finally:
        _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Hang up, which is how it is told to leave; what does not is killed."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=LEAVE_S)
        return
    child.kill()
    child.wait()

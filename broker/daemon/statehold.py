"""Hold on the state directory: directories of this user's alone, and one daemon at a time.

A second daemon is refused with the pid of the first; the hold ends with the process, however that ends.
"""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from broker.client.places import Places

HOLDER_TRIES = 50
HOLDER_PAUSE_S = 0.02
SOCKET_PATH_BYTES = 107  # what the kernel takes, without the closing NUL


class StateError(Exception):
    """The state directory can't be used. The message names the place and what to do."""


def prepare(places: Places) -> None:
    """Make the directories of a new installation, and refuse ones that others may write to. Raises StateError."""
    for socket in (places.agent_socket, places.control_socket):
        if len(os.fsencode(socket)) > SOCKET_PATH_BYTES:
            raise StateError(
                f"the socket path {socket} is longer than {SOCKET_PATH_BYTES} bytes; "
                "set DOORWARD_HOME to a shorter directory"
            )
    home = () if places.home is None else (places.home,)
    for directory in (*home, places.config, places.policies, places.data, places.runtime, places.anchor):
        _refuse_unspellable(directory)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check(directory)
        except FileExistsError:
            raise StateError(f"{directory} is a link or no directory; move it away") from None
        except OSError as cause:
            raise StateError(f"{directory} can't be made or looked at: {cause.strerror}") from cause


def hold(places: Places) -> int:
    """Take the state directory; returns the descriptor that holds it. Raises StateError naming who has it."""
    try:
        descriptor = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise StateError(f"{places.lock} can't be opened: {cause.strerror}") from cause
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        holder = _holder(descriptor)
        os.close(descriptor)
        if cause.errno not in {errno.EAGAIN, errno.EACCES}:
            raise StateError(f"{places.lock} can't be locked: {cause.strerror}") from cause
        raise StateError(f"another doorward (pid {holder}) uses this state directory. See: doorward status") from cause
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return descriptor


def _holder(descriptor: int) -> str:
    """The pid of who holds it; waited for a moment, for who has just begun may not have said it yet."""
    said = ""
    for _ in range(HOLDER_TRIES):
        said = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        if said.isdecimal() and os.path.lexists(f"/proc/{said}"):
            return said
        time.sleep(HOLDER_PAUSE_S)
    return said or "unknown"


def _refuse_unspellable(directory: Path) -> None:
    """What is no text can't be told to the processes that serve the daemon, nor shown to a human."""
    try:
        str(directory).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(directory).decode("utf-8", "replace")
        text = f"the path {shown} is not UTF-8; set DOORWARD_HOME to a directory whose path is"
        raise StateError(text) from None


def _check(directory: Path) -> None:
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise StateError(f"{directory} is a link or no directory; doorward does not follow links there")
    if status.st_uid != os.geteuid():
        raise StateError(f"{directory} belongs to uid {status.st_uid}; it has to be yours")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise StateError(f"{directory} can be written by others; run: chmod go-w {directory}")

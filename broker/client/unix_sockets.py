"""A listening Unix socket at a path: a stale one is replaced; a live one, and what is no socket, never.

Nobody but those whom the mode names can connect at any moment, and no other file's mode is ever changed, whoever may
write to the directory.
"""

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

PROBE_S = 2.0


class ListenError(Exception):
    """No socket was made. The message names the place and what is in the way."""


def listen_at(path: str, *, mode: int, backlog: int) -> socket.socket:
    """Raises ListenError. Sets the process's file mask for a moment: not for where other threads make files."""
    _clear_stale(Path(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o777 & ~mode)  # a later chmod would follow a link that somebody put in the socket's place
    try:
        listener.bind(path)
        listener.listen(backlog)
    except OSError as cause:
        listener.close()
        raise ListenError(f"the socket {path} can't be made: {cause.strerror}") from cause
    finally:
        os.umask(before)
    return listener


def _clear_stale(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ListenError(f"{path} is no socket; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except OSError as cause:
            if cause.errno not in {errno.ECONNREFUSED, errno.ENOENT}:
                raise ListenError(f"the socket {path} is in use or can't be tried: {cause.strerror}") from cause
        else:
            raise ListenError(f"somebody listens on {path} already")
    with suppress(FileNotFoundError):
        path.unlink()

"""Where a checkpoint can be kept: a file of notes, and the system's log. A web server is webhook.py's.

Each either has taken the note when its function returns, or raises TargetError with the reason; none waits longer than
its limit, and no link is followed.
"""

import base64
import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from broker.audit import AuditError
from broker.audit.checkpoint import MAX_FILE_BYTES, parse_note, parse_notes
from broker.audit.disk import PRIVATE_FILE, LocalDisk, read_private_file, write_durably_by

DEV_LOG = "/dev/log"
SYSLOG_S = 5.0
FILE_LOCK_S = 5.0
_LOCK_STEP_S = 0.02
_AUTHPRIV_NOTICE = 10 * 8 + 5
_MOST_HOST_CHARS = 255
_MOST_NAME_CHARS = 50  # of a draft's


class TargetError(Exception):
    """The note was not taken, or nobody can tell. Says why."""


def append_to(path: Path, note: bytes, *, limit_s: float = FILE_LOCK_S) -> None:
    """Add the note to a file of checkpoints of the same log, whole or not at all. Raises TargetError.

    Others that add to it at the same time are waited for; none of their notes is lost.
    """
    try:
        with _alone(path, time.monotonic() + limit_s):
            _append(path, note)
    except (OSError, ValueError) as cause:
        raise TargetError((cause.strerror if isinstance(cause, OSError) else None) or str(cause)) from cause


@contextlib.contextmanager
def _alone(path: Path, deadline_s: float) -> Iterator[None]:
    """The file locked against whoever else adds to it. One that was made for that does not stay empty."""
    while True:
        made = not os.path.lexists(path)
        with contextlib.closing(_Locked(path, deadline_s)) as locked:
            if not locked.is_at(path):
                continue  # another one put its file in the place of this one
            try:
                yield
            finally:
                if made and locked.is_at(path):  # what was written has taken its place
                    path.unlink()
            return


class _Locked:
    """A plain file, open and locked until it is closed."""

    def __init__(self, path: Path, deadline_s: float) -> None:
        flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, PRIVATE_FILE)
        try:
            self._lock(deadline_s)
        except BaseException:
            self.close()
            raise

    def is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(path.lstat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        os.close(self._descriptor)

    def _lock(self, deadline_s: float) -> None:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise TargetError("it is not a regular file")
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    raise TargetError("another process holds it; try again") from None
                time.sleep(_LOCK_STEP_S)
            else:
                return


def _append(path: Path, note: bytes) -> None:
    """Raises TargetError and OSError."""
    try:
        before = read_private_file(path, max_bytes=MAX_FILE_BYTES)
    except AuditError as cause:
        raise TargetError(str(cause)) from cause
    if before and not _of_same_log(before, note):
        raise TargetError("it holds something else than checkpoints of this log, and was left as it is")
    parted = before if not before or before.endswith(b"\n\n") else before + b"\n"
    if len(parted) + len(note) > MAX_FILE_BYTES:
        raise TargetError("it is full; begin another file and keep this one")
    draft = path.with_name(f".{path.name[:_MOST_NAME_CHARS]}.{secrets.token_hex(8)}.new")  # in somebody's directory
    try:
        write_durably_by(draft, path, parted + note, LocalDisk())
    finally:
        draft.unlink(missing_ok=True)


def _of_same_log(before: bytes, note: bytes) -> bool:
    kept, fresh = parse_notes(before), parse_note(note)
    return kept is not None and fresh is not None and all(old.origin == fresh.origin for old in kept)


def send_to_syslog(address: str, note: bytes, size: int, *, limit_s: float = SYSLOG_S) -> None:
    """One RFC 5424 line; the note stands in it in base64. Raises TargetError."""
    line = syslog_line(note, size)
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as log:
                log.settimeout(limit_s)
                log.connect(address)
                log.sendall(line if kind == socket.SOCK_DGRAM else line + b"\n")
        except OSError as cause:
            if kind == socket.SOCK_DGRAM and cause.errno == errno.EPROTOTYPE:
                continue  # it listens for streams
            raise TargetError(cause.strerror or str(cause)) from cause
        except ValueError as cause:  # a name with a NUL in it
            raise TargetError(str(cause)) from cause
        else:
            return


def syslog_line(note: bytes, size: int) -> bytes:
    """Printable ASCII without a line end, whatever the machine is called."""
    host = "".join(sign for sign in socket.gethostname() if "!" <= sign <= "~")[:_MOST_HOST_CHARS] or "-"
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = f"<{_AUTHPRIV_NOTICE}>1 {at} {host} doorward {os.getpid()} audit-checkpoint -"
    return f"{head} size={size} note={base64.b64encode(note).decode()}".encode("ascii")

"""A file of exported events: made new, or gone on with where its last whole line stands. One writer at a time.

Lines are only ever added. What a crash left behind the last whole line is cut off before more is added.
"""

import fcntl
import os
import stat
from pathlib import Path
from typing import Self

from broker.cli.faults import CliError
from broker.contract.wire import JsonObject, WireError, parse_object

MOST_LINE_BYTES = 2 << 20  # an event is never that long
_STEP_BYTES = 1 << 16


class ExportFile:
    """Open for adding lines; `last` is the last line's object, None in a new file."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Raises CliError."""
        self._path = path
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            existed = os.path.lexists(path)
            if existed and not resume:
                raise CliError(f"{path} is there already; --resume goes on with it")
            self._descriptor = os.open(path, flags if existed else flags | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, ValueError) as cause:
            raise self._fault(cause) from None
        try:
            self._claim()
            self.last = self._cut_to_whole_lines()
        except OSError as cause:
            os.close(self._descriptor)
            raise self._fault(cause) from None
        except CliError:
            os.close(self._descriptor)
            raise

    def add(self, lines: bytes) -> None:
        """Raises CliError; what was added before stays."""
        try:
            left = memoryview(lines)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as cause:
            raise self._fault(cause) from None

    def close(self, *, durably: bool = True) -> None:
        try:
            if durably:
                os.fsync(self._descriptor)
        except OSError as cause:
            raise self._fault(cause) from None
        finally:
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(durably=kind is None)

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CliError(f"another export writes to {self._path} just now") from None
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise CliError(f"{self._path} is no plain file with one name; nothing was written")
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise CliError(f"{self._path} can be read or written by others; chmod 600 it, or export to another file")

    def _cut_to_whole_lines(self) -> JsonObject | None:
        size = os.fstat(self._descriptor).st_size
        tail, start = b"", size
        while start and tail.rstrip(b"\n").count(b"\n") < 2 and len(tail) <= 2 * MOST_LINE_BYTES:
            step = min(_STEP_BYTES, start)
            start -= step
            tail = os.pread(self._descriptor, step, start) + tail
        if not size:
            return None
        end = tail.rfind(b"\n") + 1
        last = self._exported(tail[: end - 1].rpartition(b"\n")[2] if end else b"")
        os.ftruncate(self._descriptor, start + end)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        return last

    def _exported(self, line: bytes) -> JsonObject:
        try:
            found = parse_object(line, max_bytes=MOST_LINE_BYTES)
        except WireError:
            found = {}
        if not isinstance(found.get("log_id"), str) or not isinstance(found.get("h"), str):
            raise CliError(f"{self._path} does not end with a line of an export; nothing was written")
        return found

    def _fault(self, cause: Exception) -> CliError:
        why = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        return CliError(f"{self._path} can't be written: {why}")

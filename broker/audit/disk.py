"""The few disk operations whose failure matters, behind a port, and files opened without following anything.

`Disk` is what a test replaces to make a write, a sync or a rename fail; `LocalDisk` is the real one.
"""

import errno
import fcntl
import os
import stat
import sys
import time
from pathlib import Path
from typing import Protocol

from broker.audit.faults import AuditError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


class Disk(Protocol):
    """Each method raises OSError where the disk does."""

    def write(self, descriptor: int, content: bytes) -> int: ...
    def write_at(self, descriptor: int, content: bytes, offset: int) -> int: ...
    def sync(self, descriptor: int) -> None:
        """Return once the file's content and size are on stable storage."""
        ...

    def replace(self, source: Path, target: Path) -> None: ...
    def free_bytes(self, directory: int) -> int: ...


class LocalDisk:
    """The machine's own disk."""

    def write(self, descriptor: int, content: bytes) -> int:
        return os.write(descriptor, content)

    def write_at(self, descriptor: int, content: bytes, offset: int) -> int:
        return os.pwrite(descriptor, content, offset)

    def sync(self, descriptor: int) -> None:
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync there does not reach the platter
        else:
            os.fdatasync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def free_bytes(self, directory: int) -> int:
        figures = os.fstatvfs(directory)
        return figures.f_bavail * figures.f_frsize


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_fully(descriptor: int, content: bytes, disk: Disk) -> None:
    """A short write is a full disk: asking again for the rest would only say so. Raises OSError."""
    written = disk.write(descriptor, content)
    if written != len(content):
        raise OSError(errno.ENOSPC, f"only {written} of {len(content)} bytes were written")


def write_durably(path: Path, content: bytes, disk: Disk) -> None:
    """Write a private file of ours whole or not at all, durable once this returns. Raises OSError.

    What lies in the place of its draft is ours too, left by a crash, and goes.
    """
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    write_durably_by(draft, path, content, disk)


def write_durably_by(draft: Path, path: Path, content: bytes, disk: Disk) -> None:
    """The same by a draft that must not be there yet: nothing of another's is opened, waited for, or lost."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        write_fully(descriptor, content, disk)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    disk.replace(draft, path)
    sync_directory(path.parent)


def open_regular(path: Path) -> int:
    """A descriptor for reading a private regular file; never blocks on a FIFO, never follows a link.

    Raises OSError, also where the file is of another kind or has a second name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    regular = stat.S_ISREG(status.st_mode)
    if regular and status.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise OSError("it has a second name (hard link)" if regular else "it is not a regular file")


def lock_directory(directory: Path, *, wait_s: float) -> int:
    """The descriptor of a private directory of ours, locked against a second writer. Raises AuditError.

    A verifier holds the lock for a moment to see whether a writer lives; that is waited for.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as cause:
        raise AuditError(f"{directory} can't be opened: {cause.strerror}; run `doorward init` first") from cause
    try:
        refuse_shared(directory, os.fstat(descriptor))
        _lock(descriptor, directory, time.monotonic() + wait_s)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, directory: Path, deadline_s: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            if time.monotonic() >= deadline_s:
                raise AuditError(f"{directory} is in use by another writer; stop that daemon first") from cause
            time.sleep(0.02)
        except OSError as cause:
            raise AuditError(f"{directory} can't be locked: {cause.strerror}") from cause
        else:
            return


def refuse_shared(path: Path, status: os.stat_result) -> None:
    """Raises AuditError where somebody else owns the path or may write or read it."""
    if status.st_uid != os.geteuid():
        raise AuditError(f"{path} belongs to user {status.st_uid}; give it to the user of the daemon")
    if status.st_mode & 0o077:
        raise AuditError(f"{path} is open to others (mode {stat.S_IMODE(status.st_mode):o}); take their access away")


def read_private_file(path: Path, *, max_bytes: int) -> bytes:
    """The whole of a small file. Raises AuditError."""
    try:
        descriptor = open_regular(path)
    except OSError as cause:
        raise AuditError(f"{path} can't be read: {cause.strerror or cause}") from cause
    try:
        content = os.read(descriptor, max_bytes + 1)
    except OSError as cause:
        raise AuditError(f"{path} can't be read: {cause.strerror or cause}") from cause
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise AuditError(f"{path} is larger than any file of its kind")
    return content

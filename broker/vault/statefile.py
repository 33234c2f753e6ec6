"""Whether a path is ours alone: a private directory, a plain file of one name, nobody else's.

Symlinks, hard links, foreign owners and open modes are refused, not repaired. Opens by descriptor, so that what was
looked at is what was opened. The file's content is not looked at.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.vault.faults import Fault, VaultError

_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """Which file a path led to."""

    device: int
    inode: int


def checked_file(path: Path, *, create: bool, max_bytes: int) -> FileIdentity:
    """Look at the file, or make an empty one with mode 0600. Raises VaultError."""
    with _directory(path.parent, create=create) as directory:
        flags = _OPEN | (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY)
        try:
            descriptor = os.open(path.name, flags, 0o600, dir_fd=directory)
        except FileNotFoundError:
            raise VaultError(Fault.MISSING, f"there is no vault at {path}; `doorward init` makes one") from None
        except OSError as cause:
            raise VaultError(Fault.UNSAFE_PATH, f"{path} can't be opened as a plain file: {cause.strerror}") from cause
        # Closed before SQLite locks the file: closing any descriptor of a file drops the process's locks on it.
        try:
            facts = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    _refuse_unsafe_file(path, facts)
    if facts.st_size > max_bytes:
        raise VaultError(Fault.NOT_A_VAULT, f"{path} is larger than any vault")
    return FileIdentity(device=facts.st_dev, inode=facts.st_ino)


def checked_beside(path: Path) -> None:
    """Look at a file that may lie beside the vault, such as the journal of an interrupted write. Raises VaultError."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return
    _refuse_unsafe_file(path, facts)


def still_there(path: Path, identity: FileIdentity) -> bool:
    """Whether the path still leads to the same, singly linked file."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return (facts.st_dev, facts.st_ino, facts.st_nlink) == (identity.device, identity.inode, 1)


@contextmanager
def _directory(path: Path, *, create: bool) -> Iterator[int]:
    try:
        if create:
            path.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise VaultError(Fault.MISSING, f"there is no directory {path}; `doorward init` makes it") from None
    except OSError as cause:
        raise VaultError(Fault.UNSAFE_PATH, f"{path} can't be opened as a directory: {cause.strerror}") from cause
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.geteuid():
            raise VaultError(Fault.UNSAFE_PATH, f"{path} belongs to another user; give it to the daemon's")
        if stat.S_IMODE(facts.st_mode) & 0o077:
            raise VaultError(Fault.UNSAFE_PATH, f"{path} is open to others; run chmod 700 on it")
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_unsafe_file(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise VaultError(Fault.UNSAFE_PATH, f"{path} is no plain file")
    if facts.st_uid != os.geteuid():
        raise VaultError(Fault.UNSAFE_PATH, f"{path} belongs to another user; give it to the daemon's")
    if stat.S_IMODE(facts.st_mode) & 0o077:
        raise VaultError(Fault.UNSAFE_PATH, f"{path} is open to others; run chmod 600 on it")
    if facts.st_nlink != 1:
        raise VaultError(Fault.UNSAFE_PATH, f"{path} has a second name (hard link); remove that")

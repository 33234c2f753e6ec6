"""The segment file that a writer appends to, and what must stay true of it while the writer holds it.

A file that was deleted, linked, cut, grown or replaced by somebody else is noticed, not repaired.
"""

import os
from pathlib import Path

from broker.audit.disk import PRIVATE_FILE
from broker.audit.segment import segment_name


class OpenSegment:
    """The file that grows, and what must stay true of it while we hold it."""

    def __init__(self, directory: Path, number: int, *, create: bool) -> None:
        """Raises OSError."""
        self.number = number
        self.path = directory / segment_name(number)
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self.descriptor = os.open(self.path, flags, PRIVATE_FILE)
        status = os.fstat(self.descriptor)
        self.offset = status.st_size
        self._device, self._inode = status.st_dev, status.st_ino
        self._name = str(self.path)  # asked for in every commit

    def still_ours(self) -> None:
        """Raises OSError where the file was deleted, moved, replaced, linked, cut, or written by somebody else.

        The path is asked, not the descriptor: that tells of the file and of the directories above it at once.
        """
        status = os.lstat(self._name)
        if status.st_ino != self._inode or status.st_dev != self._device:
            raise OSError(f"{self.path.name} was replaced while it was written")
        if status.st_nlink != 1:
            raise OSError(f"{self.path.name} was linked while it was written")
        if status.st_size != self.offset:
            raise OSError(f"{self.path.name} has {status.st_size} bytes where {self.offset} were written")

    def close(self) -> None:
        os.close(self.descriptor)

"""The anchor as a writer holds it: opened once, overwritten in place after each commit, synced at each new epoch.

What it names is durable in the log before it is written here, so it never runs ahead. It survives a killed process at
once and a power cut after `sync`. Where somebody took the file away meanwhile, `sync` puts it back.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from broker.audit.disk import PRIVATE_FILE, Disk, write_durably
from broker.audit.pin import ANCHOR_BYTES, VERSION


class AnchorFile:
    def __init__(self, path: Path, disk: Disk, *, log_id: str) -> None:
        """Raises OSError. The file must exist."""
        self._path = path
        self._disk = disk
        self._log_id = log_id.encode()
        self._line = b""
        self._open()

    def write(self, *, seq: int, segment: int, offset: int, head: bytes, epoch_key: bytes) -> None:
        """Raises OSError. The line is what `Anchor.pack` gives, spelled out because this runs in every commit."""
        rest = b'"epoch_key":"%b","head":"%b","log_id":"%b","offset":%d,"segment":%d,"seq":%d,"version":%d' % (
            epoch_key.hex().encode(),
            head.hex().encode(),
            self._log_id,
            offset,
            segment,
            seq,
            VERSION,
        )
        check = hashlib.sha256(rest).hexdigest()[:16].encode()
        self._line = (b'{"check":"%b",%b}' % (check, rest)).ljust(ANCHOR_BYTES - 1) + b"\n"
        if self._disk.write_at(self._descriptor, self._line, 0) != ANCHOR_BYTES:
            raise OSError("the anchor was written in part")

    def sync(self) -> None:
        """Raises OSError."""
        if self._in_place():
            self._disk.sync(self._descriptor)
        elif self._line:
            write_durably(self._path, self._line, self._disk)
            os.close(self._descriptor)
            self._open()

    def close(self) -> None:
        os.close(self._descriptor)

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
        status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino, 1)

    def _in_place(self) -> bool:
        with suppress(FileNotFoundError):
            status = os.lstat(self._path)
            return (status.st_dev, status.st_ino, status.st_nlink) == self._identity
        return False

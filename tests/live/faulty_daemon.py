"""The real daemon, but for the disk under its audit log: it fails as a file says, for as long as the file is there.

    python -I tests/live/faulty_daemon.py SWITCH

SWITCH holds `OPERATION ERRNO` in one line: write, write_at, sync, replace or free_bytes, and a number. A full disk
takes half of what it is given, as real ones do.
"""

import errno
import os
import sys
from pathlib import Path

from typing_extensions import override

from broker.audit.disk import Disk, LocalDisk
from broker.client.hardening import harden
from broker.client.places import Places
from broker.daemon import logs
from broker.daemon.main import Wiring, run


class SwitchedDisk(Disk):
    def __init__(self, switch: Path) -> None:
        self._switch = switch
        self._real = LocalDisk()

    @override
    def write(self, descriptor: int, content: bytes) -> int:
        number = self._fails("write")
        if number == errno.ENOSPC:
            return self._real.write(descriptor, content[: len(content) // 2])
        self._raise(number)
        return self._real.write(descriptor, content)

    @override
    def write_at(self, descriptor: int, content: bytes, offset: int) -> int:
        self._raise(self._fails("write_at"))
        return self._real.write_at(descriptor, content, offset)

    @override
    def sync(self, descriptor: int) -> None:
        self._raise(self._fails("sync"))
        self._real.sync(descriptor)

    @override
    def replace(self, source: Path, target: Path) -> None:
        self._raise(self._fails("replace"))
        self._real.replace(source, target)

    @override
    def free_bytes(self, directory: int) -> int:
        self._raise(self._fails("free_bytes"))
        return self._real.free_bytes(directory)

    def _fails(self, operation: str) -> int:
        try:
            named, number = self._switch.read_text("ascii").split()
        except FileNotFoundError:
            return 0
        return int(number) if named == operation else 0

    @staticmethod
    def _raise(number: int) -> None:
        if number:
            raise OSError(number, os.strerror(number))


def main(switch: str) -> int:
    harden()
    logs.set_up()
    return run(Places(os.environ), dict(os.environ), wiring=Wiring(disk=lambda: SwitchedDisk(Path(switch))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

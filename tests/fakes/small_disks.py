"""A disk of a few megabytes that can be filled and broken: a real file system where we may mount one, else a stand-in.

The stand-in fails the calls of a writer as the real one makes them fail.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from broker.audit.disk import Disk, LocalDisk
from tests.fakes.logs import FaultyDisk

SIZE_BYTES = 8 << 20


class SmallDisk(Protocol):
    """`place` lies on it; `disk` is what a writer there is opened with."""

    @property
    def place(self) -> Path: ...
    @property
    def disk(self) -> Disk: ...
    def fill(self) -> None: ...
    def make_room(self) -> None: ...
    def become_read_only(self) -> None:
        """As a file system does that met an error; what is open for writing stays open."""
        ...

    def mend(self) -> None: ...


class RealDisk:
    """An ext4 file system in a file."""

    def __init__(self, image: Path, place: Path) -> None:
        self.place = place
        self.disk = LocalDisk()
        self._image = image
        self._filler = place / "filler"

    def fill(self) -> None:
        """To the last byte, whatever is asked for."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        size = SIZE_BYTES
        while size:
            try:
                os.write(descriptor, bytes(size))
                os.fsync(descriptor)
            except OSError as fault:
                if fault.errno != errno.ENOSPC:
                    raise
                size //= 2
        os.close(descriptor)

    def make_room(self) -> None:
        self._filler.unlink()

    def become_read_only(self) -> None:
        _run("mount", "-o", "remount,abort", str(self.place))

    def mend(self) -> None:
        _run("umount", str(self.place))
        _run("mount", "-o", "loop", str(self._image), str(self.place))


class StandIn:
    """A directory, and a disk that fails when told."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.disk = FaultyDisk()

    def fill(self) -> None:
        self.disk.fail("write", errno.ENOSPC, times=1)  # the reserve gives room for what follows

    def make_room(self) -> None:
        self.mend()

    def become_read_only(self) -> None:
        self.disk.fail("write", errno.EROFS)

    def mend(self) -> None:
        self.disk.operation = ""


@contextmanager
def small_disk(place: Path, *, real: bool) -> Iterator[SmallDisk]:
    image, point = place / "image", place / "disk"
    point.mkdir()
    if not (real and _mounted(image, point)):
        yield StandIn(point)
        return
    try:
        yield RealDisk(image, point)
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=False, env=_environment())  # noqa: S607 - as the shell finds it


def _mounted(image: Path, point: Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4", path=_environment()["PATH"]) is None:
        return False
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    try:
        _run("mkfs.ext4", "-q", "-F", str(image))
        _run("mount", "-o", "loop", str(image), str(point))
    except subprocess.CalledProcessError:
        return False
    return True


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, env=_environment())


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}

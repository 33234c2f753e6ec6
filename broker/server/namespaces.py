"""Which namespaces and which cgroup a process lives in, as /proc tells it.

A path of an executable proves something only in our own mount namespace: who makes one of its own, which needs no
privilege, puts any file at any path. A process of another pid namespace is taken to live in a container; the short
id of that is its cgroup's word, for a human to recognise, and decides nothing.
"""

import os
import re
from functools import cache
from pathlib import Path

CGROUP = "/proc/{pid}/cgroup"
SHORT_ID_DIGITS = 12
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_CGROUP_BYTES = 16_384


def of_pid(pid: int | str) -> str | None:
    """The pid namespace of a process; None where that can't be read."""
    return _link(f"/proc/{pid}/ns/pid")


@cache
def our_own() -> str | None:
    """Our pid namespace, which a process never leaves."""
    return of_pid("self")


def is_here(directory: int, exe: str | None, exe_id: tuple[int, int] | None) -> bool:
    """Whether the executable's path, looked up by us, is the very file that runs. `directory` is its /proc entry."""
    try:
        if os.readlink("ns/mnt", dir_fd=directory) == _link("/proc/self/ns/mnt"):
            return True
        status = Path(exe or "/").stat()
    except (OSError, ValueError):
        return False
    return (status.st_dev, status.st_ino) == exe_id


def container_of(pid: int) -> str | None:
    """The short id of the container whose cgroup the process is in; None where no path of it holds one."""
    try:
        with Path(CGROUP.format(pid=pid)).open("rb") as told:
            found = _ID.findall(told.read(_CGROUP_BYTES).decode("ascii", "replace"))
    except OSError:
        return None
    return found[-1][:SHORT_ID_DIGITS] if found else None


def _link(path: str) -> str | None:
    try:
        return str(Path(path).readlink())
    except OSError:
        return None

"""The cgroup of a launcher's tree (cgroup v2), which reaches what no chain of parents leads to any more.

`doorward run` makes one below its own where that is delegated to its user; which one it is, the kernel tells and not
the launcher. Its name holds the launcher's pid, so that no other cgroup is ever taken for one.
"""

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

from broker.contract.cgroup_names import is_of_launcher, mount_in, path_in

MOUNTS = "/proc/self/mountinfo"
MEMBERSHIP = "/proc/{pid}/cgroup"
POLL_S = 0.01
PASSES_MAX = 200  # over a cgroup that fills as fast as it is emptied, before Linux 5.14


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """One directory, as it was found: a later one of the same name is another."""

    path: Path
    inode: int

    def exists(self) -> bool:
        try:
            return self.path.stat().st_ino == self.inode
        except OSError:
            return False

    def members(self) -> set[int]:
        """The pids in it and below it that we can see; empty where it is gone."""
        found: set[int] = set()
        for directory, _, files in os.walk(self.path):
            if "cgroup.procs" in files:
                try:
                    words = (Path(directory) / "cgroup.procs").read_text(encoding="ascii").split()
                except OSError:
                    continue  # removed meanwhile
                found.update(int(word) for word in words)
        return found

    def kill(self) -> bool:
        """Have the kernel end all that is in it, with what that starts meanwhile. False where it does not (5.14)."""
        if not self.exists():
            return False
        try:
            with (self.path / "cgroup.kill").open("w", encoding="ascii") as order:
                order.write("1")
        except OSError:
            return False
        return True

    def empty_by(self, deadline_s: float) -> bool:
        """Whether nothing is left in it by then (time.monotonic)."""
        while self._populated():
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(POLL_S)
        return True

    def remove(self) -> bool:
        """Remove it, with the empty ones below it. False where something is left."""
        for directory, _, _ in os.walk(self.path, topdown=False):
            try:
                Path(directory).rmdir()
            except OSError as fault:
                if fault.errno not in {errno.ENOENT, errno.EBUSY}:
                    return False
        return not self.path.exists()

    def _populated(self) -> bool:
        try:
            events = (self.path / "cgroup.events").read_text(encoding="ascii").split("\n")
        except OSError:
            return False
        return "populated 1" in events


def of_launcher(pid: int) -> Cgroup | None:
    """The cgroup that a launcher made for its tree and is in; None where it has none, or we don't see it."""
    try:
        mount = mount_in(Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape"))
        within = path_in(Path(MEMBERSHIP.format(pid=pid)).read_text(encoding="utf-8", errors="surrogateescape"))
        if mount is None or within is None or not is_of_launcher(within, pid):
            return None
        path = Path(mount[0]) / os.path.relpath(within, mount[1])
        return Cgroup(path=path, inode=path.stat().st_ino)
    except (OSError, ValueError):
        return None

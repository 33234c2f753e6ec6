"""A cgroup of its own for the tree of `doorward run`, where cgroup v2 is delegated to whoever starts it.

It is below the one that the launcher is in, which moves into it before the agent starts. No controller is asked for.
Where anything of that is not to be had there is none, and the daemon says so when it matters.
"""

import os

from broker.contract.cgroup_names import PREFIX, mount_in, name_of, path_in

MOUNTS = "/proc/self/mountinfo"
MEMBERSHIP = "/proc/self/cgroup"
RANDOM_BYTES = 6


class OwnCgroup:
    """Made and entered by `enter`; left by `leave`, and removed unless something that the agent started is in there."""

    def __init__(self, above: str, path: str) -> None:
        self._above = above
        self.path = path

    @classmethod
    def enter(cls) -> "OwnCgroup | None":
        try:
            above = _place()
            if above is None:
                return None
            _sweep(above)
            made = cls(above, f"{above}/{name_of(os.getpid(), os.urandom(RANDOM_BYTES).hex())}")
            os.mkdir(made.path, 0o755)  # noqa: PTH102 - no pathlib here
        except (OSError, ValueError):
            return None
        try:
            _move_to(made.path)
        except OSError:
            made.leave()
            return None
        return made

    def leave(self) -> None:
        """Never raises: what could not be removed is swept by a later launcher."""
        try:
            _move_to(self._above)
        except OSError:
            return
        _remove(self.path)


def delegated() -> bool:
    """Whether this user may make one below the cgroup that this process is in, and move into it."""
    try:
        above = _place()
    except OSError:
        return False
    return above is not None and all(os.access(place, os.W_OK) for place in (above, f"{above}/cgroup.procs"))


def _place() -> str | None:
    """The directory of the cgroup that we are in."""
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as told:  # noqa: PTH123 - no pathlib here
        mount = mount_in(told.read())
    with open(MEMBERSHIP, encoding="utf-8", errors="surrogateescape") as told:  # noqa: PTH123 - likewise
        within = path_in(told.read())
    if mount is None or within is None:
        return None
    return os.path.normpath(os.path.join(mount[0], os.path.relpath(within, mount[1])))  # noqa: PTH118 - likewise


def _move_to(path: str) -> None:
    with open(f"{path}/cgroup.procs", "w", encoding="ascii") as members:  # noqa: PTH123 - no pathlib here
        members.write("0")


def _sweep(above: str) -> None:
    """Remove what earlier launchers left, as far as nothing is in there: the kernel refuses the others."""
    for name in os.listdir(above):  # noqa: PTH208 - no pathlib here
        if name.startswith(PREFIX):
            _remove(f"{above}/{name}")


def _remove(path: str) -> None:
    try:
        os.rmdir(path)  # noqa: PTH106 - no pathlib here
    except OSError:
        return  # something is in there, or it is gone

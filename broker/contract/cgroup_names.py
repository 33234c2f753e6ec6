"""How the cgroup of a launcher's tree is called, and where cgroup v2 is mounted: launcher and daemon agree on it.

Works on the text of /proc files; reads none.
"""

PREFIX = "doorward-run-"


def name_of(pid: int, random: str) -> str:
    """The last part of its path. `random` tells it from one that an earlier process of the same pid left."""
    return f"{PREFIX}{pid}-{random}"


def is_of_launcher(path: str, pid: int) -> bool:
    """Whether a path is that of the cgroup which the launcher of this pid made, and within what we see."""
    last = path.rsplit("/", 1)[-1]
    return last.startswith(f"{PREFIX}{pid}-") and "/../" not in f"{path}/"


def path_in(membership: str) -> str | None:
    """The path of the cgroup of version 2, out of the text of /proc/PID/cgroup."""
    for line in membership.splitlines():
        if line.startswith("0::/"):
            return line.removeprefix("0::")
    return None


def mount_in(mountinfo: str) -> tuple[str, str] | None:
    """Where cgroup v2 is mounted, and which cgroup shows there, out of the text of /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split(" ")
        if rest.split(" ", 1)[0] == "cgroup2" and len(words) > 4:
            return _unescaped(words[4]), _unescaped(words[3])
    return None


def _unescaped(path: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path

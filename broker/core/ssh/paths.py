"""Paths of files on a host: which are taken, and how rules see them.

A path is absolute, or relative to the home of the user, which rules see below `/~`. One spelling for each file as
far as names go; what links lead to is the host's own business.
"""

MAX_PATH_BYTES = 4096
OWN = ".doorward"  # of the directories that markers lie in, with a hyphen of those below /var/tmp


class RemotePathError(ValueError):
    """The path is not acceptable. The message says why and holds nothing of it."""


def check_remote_path(path: str) -> str:
    """The path as it stands. Raises RemotePathError."""
    try:
        octets = path.encode("utf-8")
    except UnicodeEncodeError:
        raise RemotePathError("it holds half a surrogate pair") from None
    if not 1 <= len(octets) <= MAX_PATH_BYTES:
        raise RemotePathError(f"it has not 1 to {MAX_PATH_BYTES} bytes")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):
        raise RemotePathError("it holds a control character")
    if path.endswith("/"):
        raise RemotePathError("it names a directory")
    parts = path.removeprefix("/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise RemotePathError("it holds a dot segment or a double slash")
    if parts[0].startswith("~"):
        raise RemotePathError("a relative path begins in the home directory anyway: leave the ~ out")
    if any(part == OWN or part.startswith(f"{OWN}-") for part in map(str.casefold, parts)):
        raise RemotePathError("it leads to markers, by which it is told what became of commands")
    return path


def remote_segments(path: str) -> tuple[str, ...]:
    """The path as rules see it."""
    parts = tuple(part for part in path.split("/") if part)
    return parts if path.startswith("/") else ("~", *parts)

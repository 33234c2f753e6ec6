"""What somebody else may have put where a file of ours is to be."""

import os
from pathlib import Path

KINDS = ("file", "fifo", "hard link", "symbolic link")


def put(kind: str, path: Path, other: Path) -> None:
    """Links are to the `other` file, which is made."""
    other.write_bytes(b"another's")
    match kind:
        case "file":
            path.write_bytes(b"longer than whatever is written over it")
        case "fifo":
            os.mkfifo(path)
        case "hard link":
            os.link(other, path)
        case "symbolic link":
            path.symlink_to(other)
        case _:
            raise ValueError(kind)

"""What can be seen of the log's files from outside while the daemon runs: a lost anchor, and modes that let others in.

Neither stops anything by itself: the next start refuses the modes, and what is gone is better told before a cut.
"""

import os
import stat
from pathlib import Path

from broker.audit.pin import AuditPaths


def anchor_is_there(paths: AuditPaths) -> bool:
    return paths.anchor.is_file()


def trouble(paths: AuditPaths) -> list[str]:
    """What a human should mend, in words."""
    found = []
    if not anchor_is_there(paths):
        found.append(
            f"the anchor of the audit log ({paths.anchor}) is gone: put it back, or start the daemon again, which "
            "makes a new one. Until then nobody notices a log that is cut"
        )
    return [*found, *filter(None, map(_open_to_others, [paths.directory, *_last_segment(paths.directory)]))]


def _last_segment(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.seg"))[-1:]


def _open_to_others(path: Path) -> str | None:
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return None  # the writer says that better
    if not mode & 0o077:
        return None
    return f"{path} is open to others (mode {mode:o}): take their access away, for the next start refuses it"

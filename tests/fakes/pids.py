"""Processes with the pid of one that ended, made for real where this user may choose the next pid."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

LAST = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 200


def reusing(pid: int, words: Sequence[str]) -> "subprocess.Popen[bytes] | None":
    """A process of that very pid, started in its stead; None where others were always faster, or it can't be chosen."""
    for _ in range(TRIES):
        try:
            LAST.write_text(str(pid - 1), encoding="ascii")
        except OSError:
            return None
        started = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if started.pid == pid:
            return started
        ended(started)
    return None


def ended(process: "subprocess.Popen[bytes]") -> None:
    """Kill it, bury it, and close its pipes."""
    process.kill()
    process.wait(15)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()

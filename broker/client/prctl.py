"""prctl(2), which Python has no name for: what a process lets others do to it, and whose end it follows."""

import ctypes
import sys

PR_SET_PDEATHSIG = 1
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> int:
    """What the kernel answered; -1 where there is no such call."""
    if not sys.platform.startswith("linux"):
        return -1
    zero = ctypes.c_ulong(0)
    result: int = ctypes.CDLL(None, use_errno=True).prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)
    return result

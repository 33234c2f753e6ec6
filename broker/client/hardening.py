"""Make this process hard to look into: not dumpable, no core files. First thing in every process that sees a secret.

Stops ptrace, /proc/PID/mem and core dumps by the same user; does not stop root, and a window between exec and this
call remains. The agent's verbs do not call it: they hold no secret, and it would hide their executable from the card.
"""

import ctypes
import resource
import sys

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4


def harden() -> bool:
    """True when both took; never raises, a refusal shows in `doctor`."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError):
        return False
    return _set_undumpable()


def dumpable() -> bool:
    """Whether this process can be looked into by the same user. Unknown counts as yes."""
    if not sys.platform.startswith("linux"):
        return True
    return bool(_prctl(_PR_GET_DUMPABLE, 0) != 0)


def _set_undumpable() -> bool:
    return sys.platform.startswith("linux") and _prctl(_PR_SET_DUMPABLE, 0) == 0


def _prctl(option: int, value: int) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).prctl(
        ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )
    return result

"""Make this process hard to look into: not dumpable, no core files. First thing in every process that sees a secret.

Stops ptrace, /proc/PID/mem and core dumps by the same user; does not stop root, and a window between exec and this
call remains. The agent's verbs do not call it: they hold no secret, and it would hide their executable from the card.
"""

import resource

from broker.client.prctl import PR_GET_DUMPABLE, PR_SET_DUMPABLE, prctl


def harden() -> bool:
    """True when both took; never raises, a refusal shows in `doctor`."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError):
        return False
    return prctl(PR_SET_DUMPABLE, 0) == 0


def dumpable() -> bool:
    """Whether this process can be looked into by the same user. Unknown counts as yes."""
    return prctl(PR_GET_DUMPABLE, 0) != 0

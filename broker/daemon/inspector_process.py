"""`python -I -m broker.daemon.inspector_process`: the process that verifies the log for the daemon, hardened first.

What it answers opens the vault: no other process of the user may look into it or speak in its place.
"""

import sys

from broker.client.hardening import harden


def command() -> list[str]:
    """How the daemon starts it: the same interpreter, isolated."""
    return [sys.executable, "-I", "-m", __name__ if __name__ != "__main__" else "broker.daemon.inspector_process"]


def main() -> int:
    harden()
    from broker.audit.inspector import main as inspect  # noqa: PLC0415 - hardened before anything else is loaded

    return inspect()


if __name__ == "__main__":
    sys.exit(main())

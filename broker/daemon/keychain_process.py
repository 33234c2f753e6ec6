"""`python -I -m broker.daemon.keychain_process`: the one process that talks to the OS keyring, hardened first."""

import sys

from broker.client.hardening import harden


def command() -> list[str]:
    """How the daemon starts it: the same interpreter, isolated."""
    return [sys.executable, "-I", "-m", __name__ if __name__ != "__main__" else "broker.daemon.keychain_process"]


def main() -> int:
    harden()
    from broker.vault.keychain_backend import serve  # noqa: PLC0415 - hardened before anything else is loaded

    serve(sys.stdin.buffer, sys.stdout.buffer)
    return 0


if __name__ == "__main__":
    sys.exit(main())

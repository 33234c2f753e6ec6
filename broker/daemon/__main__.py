"""`python -I -m broker.daemon`: the daemon (`doorward serve`), its transient form, and the making of new state."""

import argparse
import os
import signal
import sys

from broker.client.hardening import harden
from broker.client.places import Places


def main() -> int:
    """Harden first, then do what was asked."""
    harden()
    os.umask(0o077)
    parser = argparse.ArgumentParser(prog="doorward serve", description="Run the daemon in the foreground.")
    parser.add_argument("--transient", action="store_true", help="serve control.sock alone, and end with the parent")
    parser.add_argument("--init", action="store_true", help="make new state from keys on standard input")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    chosen = parser.parse_args()
    environ = dict(os.environ)
    places = Places.find(environ)
    if chosen.init:
        from broker.daemon import first  # noqa: PLC0415 - the daemon itself never needs it

        return first.run(places)
    if chosen.transient:
        _end_with_parent()
    from broker.daemon import logs  # noqa: PLC0415 - hardened before anything else is loaded
    from broker.daemon import main as daemon  # noqa: PLC0415

    logs.set_up(chosen.log_level)
    return daemon.run(places, environ, transient=chosen.transient)


def _end_with_parent() -> None:
    import ctypes  # noqa: PLC0415

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())

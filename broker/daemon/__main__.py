"""`python -I -m broker.daemon`: the daemon (`doorward serve`), its transient form, and the making of new state."""

import argparse
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from broker.client.hardening import harden
from broker.client.places import Places
from broker.client.prctl import PR_SET_PDEATHSIG, prctl

YOUNG_OBJECTS = 5000  # so many new ones before it is looked whether they are garbage: a few requests make as many


def main() -> int:
    """Harden first, then do what was asked."""
    harden()
    os.umask(0o077)
    parser = argparse.ArgumentParser(prog="doorward serve", description="Run the daemon in the foreground.")
    parser.add_argument("--transient", action="store_true", help="serve control.sock alone, and end with the parent")
    parser.add_argument("--init", action="store_true", help="make new state from keys on standard input")
    parser.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    parser.add_argument("--no-notices", action="store_true", help="show no desktop notices of waiting cards")
    parser.add_argument("--no-desktop-lock", action="store_true", help="stay open at a screen lock or a sleep")
    chosen = parser.parse_args()
    environ = dict(os.environ)
    places = Places(environ)
    if chosen.init:
        from broker.daemon import first  # noqa: PLC0415 - the daemon itself never needs it

        return first.run(places)
    if chosen.transient:
        _end_with_parent()
    with _quick_start():
        from broker.daemon import logs  # noqa: PLC0415 - hardened before anything else is loaded
        from broker.daemon import main as daemon  # noqa: PLC0415

    logs.set_up(chosen.log_level)
    wishes = daemon.DesktopWishes(notices=not chosen.no_notices, locks=not chosen.no_desktop_lock)
    return daemon.run(places, environ, transient=chosen.transient, wishes=wishes)


@contextmanager
def _quick_start() -> Iterator[None]:
    """Spare loading 60 ms: of what is loaded nothing is garbage, and nobody uses the authorities that aiohttp reads.

    It fills two TLS contexts of its own while it is imported; ours are made where they are used, from the real ones.
    """
    kept = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
    os.environ.update(dict.fromkeys(kept, os.devnull))
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        gc.enable()
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _end_with_parent() -> None:
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())

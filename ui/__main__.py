"""`python -I -m ui`: the terminal interface of one human. Hardens itself first, then reads a passphrase if told to.

Nothing but the interface writes to the terminal. Exit codes: 0 closed by the human, 64 not usable here.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from broker.client.hardening import harden


def main() -> int:
    harden()
    import argparse  # noqa: PLC0415 - what can wait is imported when the process is hard to look into

    parser = argparse.ArgumentParser(
        prog="doorward ui", description="Cards that wait for a human, and the answers to them."
    )
    parser.add_argument("--passphrase-fd", type=int, metavar="N", help="read the passphrase from this descriptor")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII signs only")
    options = parser.parse_args()
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print("doorward ui draws on a terminal; in a pipe use: doorward approvals list", file=sys.stderr)  # noqa: T201
        return 64
    try:
        passphrase = None if options.passphrase_fd is None else _passphrase(options.passphrase_fd)
    except (OSError, ValueError) as cause:
        print(f"the passphrase can't be read from descriptor {options.passphrase_fd}: {cause}", file=sys.stderr)  # noqa: T201
        return 64
    for name in [name for name in os.environ if name.startswith("TEXTUAL")]:
        del os.environ[name]  # the library takes drivers, key presses and files from there
    _run(passphrase, ascii_only=options.ascii or not _speaks_utf8(os.environ))
    return 0


def _passphrase(descriptor: int) -> bytes:
    """The first line of a descriptor, without its line end; at most 1024 bytes."""
    with os.fdopen(descriptor, "rb") as stream:
        line = stream.readline(1026).rstrip(b"\r\n")
    if not 1 <= len(line) <= 1024:
        raise ValueError("a passphrase has 1 to 1024 bytes")
    return line


def _speaks_utf8(environ: Mapping[str, str]) -> bool:
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    return "utf8" in locale.lower().replace("-", "")


def _run(passphrase: bytes | None, *, ascii_only: bool) -> None:
    from broker.client.places import Places  # noqa: PLC0415
    from ui.app import DoorwardApp  # noqa: PLC0415
    from ui.feed import ControlFeed  # noqa: PLC0415
    from ui.window import Surroundings  # noqa: PLC0415

    surroundings = Surroundings(
        tmux="TMUX" in os.environ or "STY" in os.environ,
        tiocsti=_reads(Path("/proc/sys/dev/tty/legacy_tiocsti")) == "1",
    )
    feed = ControlFeed(Places(os.environ))
    DoorwardApp(feed, surroundings=surroundings, ascii_only=ascii_only, passphrase=passphrase).run()


def _reads(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())

"""The listening sockets: systemd's where it hands them over, else our own; a stale one is replaced, a live one never.

Also tells systemd how far the daemon is, where it asks to be told.
"""

import os
import socket
from contextlib import suppress

from broker.client.unix_sockets import ListenError, listen_at
from broker.daemon.statehold import StateError

FIRST_DESCRIPTOR = 3
BACKLOG = 4096  # a Unix socket with a full queue refuses at once, whoever comes
NAMES = {"agent", "control"}


def inherited(environ: dict[str, str]) -> dict[str, socket.socket]:
    """Sockets that systemd passed, by the names of their units' FileDescriptorName; taken out of the environment.

    Raises StateError where one of them is nothing that we may serve on.
    """
    pid, count, names = (environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal():
        return {}
    named = names.split(":")
    passed: dict[str, socket.socket] = {}
    for offset in range(int(count)):
        descriptor = FIRST_DESCRIPTOR + offset
        name = (named[offset] if offset < len(named) else "").removesuffix(".sock")
        if name in passed:
            raise StateError(f"two sockets were passed as {name!r}; see FileDescriptorName in the units")
        passed[name] = _checked(descriptor, name)
    return passed


def _checked(descriptor: int, name: str) -> socket.socket:
    """A listening Unix socket of a name that we know: anything else would open the broker to who knows whom."""
    try:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional-only
        endpoint = socket.socket(fileno=descriptor)
        listens = bool(endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError as cause:
        raise StateError(f"what was passed as descriptor {descriptor} is no socket: {cause.strerror}") from cause
    if name not in NAMES or endpoint.family != socket.AF_UNIX or endpoint.type != socket.SOCK_STREAM or not listens:
        raise StateError(
            f"descriptor {descriptor} was passed as {name!r}; a listening Unix socket called agent or control was "
            "expected. See FileDescriptorName in the units"
        )
    return endpoint


def listen(path: str, *, mode: int = 0o600) -> socket.socket:
    """A listening Unix socket at the path. Raises StateError where somebody listens there, or it is no socket."""
    try:
        listener = listen_at(path, mode=mode, backlog=BACKLOG)
    except ListenError as cause:
        raise StateError(f"{cause}. See: doorward status") from cause
    listener.setblocking(False)  # noqa: FBT003 - positional-only
    return listener


def notify(environ: dict[str, str], state: str) -> None:
    """Tell systemd (`READY=1`, `STOPPING=1`, `STATUS=...`); says nothing where nobody asked."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.settimeout(2.0)
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.sendall(state.encode())

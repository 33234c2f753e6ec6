"""Where the buses are: told by the daemon's own environment, and by nobody else.

Only sockets of this machine count; an address of another transport (tcp, a program to start) is as good as none.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote

SYSTEM_SOCKET = "/run/dbus/system_bus_socket"
ADDRESS_MOST_CHARACTERS = 1024


def session_bus(environ: Mapping[str, str]) -> str | None:
    """The socket of the session's bus; an abstract one starts with NUL. None where there is no session."""
    told = environ.get("DBUS_SESSION_BUS_ADDRESS")
    if told is not None:
        return _socket(told)
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return f"{runtime}/bus" if runtime.startswith("/") else None


def system_bus(environ: Mapping[str, str]) -> str | None:
    told = environ.get("DBUS_SYSTEM_BUS_ADDRESS")
    return SYSTEM_SOCKET if told is None else _socket(told)


def _socket(addresses: str) -> str | None:
    """The first usable one of `transport:key=value,...;...`."""
    for address in addresses[:ADDRESS_MOST_CHARACTERS].split(";"):
        transport, _, told = address.partition(":")
        if transport != "unix":
            continue
        pairs = dict(pair.split("=", 1) for pair in told.split(",") if "=" in pair)
        path, abstract = unquote(pairs.get("path", "")), unquote(pairs.get("abstract", ""))
        if PurePosixPath(path).is_absolute():
            return path
        if abstract:
            return f"\0{abstract}"
    return None

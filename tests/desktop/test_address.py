"""Where the buses are, by the daemon's environment alone."""

import pytest

from broker.desktop.address import SYSTEM_SOCKET, session_bus, system_bus

ADDRESS = "DBUS_SESSION_BUS_ADDRESS"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({ADDRESS: "unix:path=/run/user/1000/bus"}, "/run/user/1000/bus"),
        ({ADDRESS: "unix:path=/run/user/1000/bus,guid=0011"}, "/run/user/1000/bus"),
        ({ADDRESS: "unix:abstract=/tmp/dbus-x,guid=00"}, "\0/tmp/dbus-x"),
        ({ADDRESS: "tcp:host=127.0.0.1,port=1;unix:path=/a%20b"}, "/a b"),
        ({"XDG_RUNTIME_DIR": "/run/user/1000"}, "/run/user/1000/bus"),
        ({}, None),
        ({"XDG_RUNTIME_DIR": "relative"}, None),
        ({ADDRESS: "", "XDG_RUNTIME_DIR": "/run/user/1000"}, None),
        ({ADDRESS: "unix:path=relative"}, None),
        ({ADDRESS: "unixexec:path=/bin/sh,argv1=-c"}, None),
        ({ADDRESS: "autolaunch:"}, None),
        ({ADDRESS: "unix"}, None),
        ({ADDRESS: "unix:path"}, None),
    ],
)
def test_only_sockets_of_this_machine_are_taken(environ: dict[str, str], expected: str | None) -> None:
    assert expected == session_bus(environ)


def test_the_system_bus_is_where_it_always_is_unless_told() -> None:
    assert SYSTEM_SOCKET == system_bus({})
    assert "/x/bus" == system_bus({"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/x/bus"})
    assert system_bus({"DBUS_SYSTEM_BUS_ADDRESS": ""}) is None

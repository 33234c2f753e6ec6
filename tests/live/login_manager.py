"""A login manager that is none: python-dbusmock with its logind template, on a system bus of one's own."""

import os
import subprocess
from pathlib import Path
from typing import Any, Self

from jeepney import (  # type: ignore[import-untyped]  # it has no annotations
    DBusAddress,
    HeaderFields,
    MessageType,
    new_method_call,
    new_signal,
)
from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]  # likewise

from tests.fakes.bus import PrivateBus
from tests.live.house import until

PYTHON = "/usr/bin/python3"  # the system's own, which dbusmock belongs to
NAME, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
MANAGER, MOCK = f"{NAME}.Manager", "org.freedesktop.DBus.Mock"
UID = os.getuid()
START_S = 20.0


class LoginManager:
    """`bus` is the system bus. Sessions are added and locked, sleeps announced, inhibitors counted."""

    def __init__(self, home: Path) -> None:
        self.bus = PrivateBus(home)
        self._service: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.bus.start()
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.bus.end()

    def start(self) -> None:
        known = subprocess.run([PYTHON, "-c", "import dbusmock"], capture_output=True, check=False)
        assert known.returncode == 0, "python3-dbusmock is missing; run packaging/setup-test-deps.sh"
        self._service = subprocess.Popen(
            [PYTHON, "-m", "dbusmock", "--template", "logind"],
            env={"PATH": os.environ["PATH"], "DBUS_SYSTEM_BUS_ADDRESS": self.bus.address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        until(lambda: self._asked(PATH, MANAGER, "ListSeats") is not None, limit_s=START_S)
        code = f"ret = '{PATH}/user/%d' % args[0]"
        self.ask(PATH, MOCK, "AddMethod", "sssss", MANAGER, "GetUser", "u", "o", code)  # the template's own fails
        self.ask(PATH, MOCK, "AddUser", "usb", UID, "canary", True)  # noqa: FBT003 - active

    def end(self) -> None:
        if self._service is not None:
            self._service.kill()
            self._service.wait(START_S)
            self._service = None

    def add_session(self, name: str, *, is_own: bool) -> str:
        """Of our user; `is_own`: whoever asks for the session of its own process is told this one. Its path."""
        path = str(self.ask(PATH, MOCK, "AddSession", "ssusb", name, "seat0", UID, "canary", True))  # noqa: FBT003
        if is_own:
            self.ask(PATH, MOCK, "AddMethod", "sssss", MANAGER, "GetSessionByPID", "u", "o", f"ret = '{path}'")
        self.emit(PATH, MANAGER, "SessionNew", "so", ("s", name), ("o", path))
        return path

    def sleep(self, *, begins: bool) -> None:
        self.emit(PATH, MANAGER, "PrepareForSleep", "b", ("b", begins))

    def lock(self, session: str) -> None:
        self.ask(session, f"{NAME}.Session", "Lock")

    def hint_locked(self, session: str) -> None:
        self.ask(session, f"{NAME}.Session", "SetLockedHint", "b", True)  # noqa: FBT003 - locked

    def inhibitors(self) -> list[tuple[str, str, str]]:
        """What is delayed, by whom, and how, of those that are held now."""
        return [(what, who, mode) for what, who, _, mode, *_ in self.ask(PATH, MANAGER, "ListInhibitors")]

    def emit(self, path: str, interface: str, member: str, signature: str, *arguments: tuple[str, object]) -> None:
        self.ask(path, MOCK, "EmitSignal", "sssav", interface, member, signature, list(arguments))

    def ask(self, path: str, interface: str, member: str, signature: str = "", *body: object) -> Any:
        found = self._asked(path, interface, member, signature, *body)
        assert found is not None, f"{member} was refused"
        return found[0] if found else None

    def _asked(self, path: str, interface: str, member: str, signature: str = "", *body: object) -> Any:
        """The body of the answer; None for an error."""
        with open_dbus_connection(self.bus.address) as connection:
            address = DBusAddress(path, bus_name=NAME, interface=interface)
            call = new_method_call(address, member, signature or None, body)
            answer = connection.send_and_get_reply(call, timeout=START_S)
        return None if answer.header.message_type is MessageType.error else answer.body

    def forge(self, path: str, interface: str, member: str, signature: str = "", *body: object) -> None:
        """A signal to everybody on the bus by name, from who is not the login manager."""
        bus = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        with open_dbus_connection(self.bus.address) as connection:
            (names,) = connection.send_and_get_reply(new_method_call(bus, "ListNames")).body
            for name in names:
                if name.startswith(":") and name != connection.unique_name:
                    address = DBusAddress(path, interface=interface)
                    message = new_signal(address, member, signature or None, body)
                    message.header.fields[HeaderFields.destination] = name
                    connection.send(message)

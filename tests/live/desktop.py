"""A desktop of one's own: an X server without a screen, a session bus, and a real notification daemon on both.

What a human would see is on a picture (`picture`), what they would click is clicked (`click`).
"""

import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Self

from jeepney import (  # type: ignore[import-untyped]  # it has no annotations
    DBusAddress,
    HeaderFields,
    new_method_call,
    new_signal,
)
from jeepney.io.blocking import DBusConnection, open_dbus_connection  # type: ignore[import-untyped]  # likewise

from tests.fakes.bus import PrivateBus
from tests.fakes.keyrings import program
from tests.live.house import until

START_S = 20.0
SIZE = "640x200"
DUNST = """
[global]
    width = (0, 600)
    height = 190
    origin = top-left
    offset = 10x10
    font = Monospace 10
    markup = full
    format = "%s\\n%b"
    icon_position = off
    show_indicators = no
    mouse_left_click = do_action
    dmenu = {menu}
"""
MENU = """#!/bin/sh
cat > {offered}
grep -F "$(cat {choice})" {offered} | head -n 1
"""
NOTIFICATIONS = "org.freedesktop.Notifications"


class NoticeDesktop:
    """`environ` is what a program of this session would have; `bus` can be hung and ended."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self.home = home
        self.bus = PrivateBus(home / "bus")
        self.environ: dict[str, str] = {}
        self._display: subprocess.Popen[bytes] | None = None
        self._dunst: subprocess.Popen[bytes] | None = None
        self._choice, self.offered = home / "choice", home / "offered"
        menu = home / "menu"
        menu.write_text(MENU.format(offered=self.offered, choice=self._choice))
        menu.chmod(0o755)
        (home / "dunstrc").write_text(DUNST.format(menu=menu))

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        reading, writing = os.pipe()
        self._display = subprocess.Popen(
            [program("Xvfb"), "-displayfd", str(writing), "-screen", "0", f"{SIZE}x24", "-nolisten", "tcp"],
            pass_fds=(writing,),
            stderr=subprocess.DEVNULL,
        )
        os.close(writing)
        assert select.select([reading], [], [], START_S)[0], "the X server did not start"
        with os.fdopen(reading) as line:
            number = line.readline().strip()  # it says it in two pieces
        self.bus.start()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home),
            "DISPLAY": f":{number}",
            "DBUS_SESSION_BUS_ADDRESS": self.bus.address,
        }
        self.start_service()

    def __exit__(self, *_: object) -> None:
        self.end_service()
        self.bus.end()
        _end(self._display)

    def start_service(self) -> None:
        self._dunst = subprocess.Popen(
            [program("dunst"), "-conf", str(self.home / "dunstrc")],
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: self.run("dunstctl", "count", "displayed", check=False).isdigit(), limit_s=START_S)

    def end_service(self) -> None:
        if self._dunst is not None:
            self._dunst.send_signal(signal.SIGCONT)
        _end(self._dunst)
        self._dunst = None

    def hang_service(self) -> None:
        """It keeps its name on the bus and answers nobody."""
        assert self._dunst is not None
        self._dunst.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._dunst is not None
        self._dunst.send_signal(signal.SIGCONT)

    @property
    def shown(self) -> int:
        """How many notices are on the screen."""
        return int(self.run("dunstctl", "count", "displayed") or 0) + int(self.run("dunstctl", "count", "waiting") or 0)

    def click(self, choice: str) -> None:
        """With the mouse on the notice, then on that entry of the menu which opens."""
        self._choice.write_text(f"#{choice} ")
        self.run("xdotool", "mousemove", "40", "40", "click", "1")

    def picture(self, to: Path) -> int:
        """What is on the screen now, as a PNG file; how many colours it has."""
        self.run("import", "-window", "root", str(to))
        return int(self.run("identify", "-format", "%k", str(to)))

    def run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [program(words[0]), *words[1:]],
            env=self.environ,
            capture_output=True,
            timeout=START_S,
            check=check,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout.decode().strip()

    def forge(self, pid: int, member: str, signature: str, *body: object) -> None:
        """A signal from a connection of nobody's, straight to that process."""
        with open_dbus_connection(self.bus.address) as connection:
            address = DBusAddress("/org/freedesktop/Notifications", interface=NOTIFICATIONS)
            for name in _connections_of(connection, pid):
                message = new_signal(address, member, signature, body)
                message.header.fields[HeaderFields.destination] = name
                connection.send(message)


def _connections_of(connection: DBusConnection, pid: int) -> list[str]:
    bus = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")

    def ask(member: str, signature: str | None = None, body: tuple[object, ...] = ()) -> object:
        return connection.send_and_get_reply(new_method_call(bus, member, signature, body)).body[0]

    names = ask("ListNames")
    assert isinstance(names, list)
    unique = [name for name in names if name.startswith(":")]
    return [name for name in unique if ask("GetConnectionUnixProcessID", "s", (name,)) == pid]


def _end(process: "subprocess.Popen[bytes] | None") -> None:
    if process is not None:
        process.terminate()
        process.wait(START_S)

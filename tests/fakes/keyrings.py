"""A session bus of its own with a real gnome-keyring on it, in a throw-away home. Can be locked, stopped and ended."""

import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

LOCK = """
import secretstorage
bus = secretstorage.dbus_init()
secretstorage.Collection(bus).lock()
assert secretstorage.Collection(bus).is_locked()
"""
START_S = 20.0


def program(name: str) -> str:
    """Its path; AssertionError names what installs it."""
    found = shutil.which(name)
    assert found is not None, f"{name} is missing; run packaging/setup-test-deps.sh"
    return found


class SessionKeyring:
    """`environ` is what a program of that session would have."""

    def __init__(self, home: Path) -> None:
        self.home = home
        runtime = home / "r"
        runtime.mkdir(mode=0o700, parents=True)
        self.environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "PATH": os.environ["PATH"]}
        self._bus: subprocess.Popen[bytes] | None = None
        self._service: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start_bus()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.end_bus()

    def start_bus(self) -> None:
        self._bus = subprocess.Popen(
            [program("dbus-daemon"), "--session", "--nofork", "--print-address=1"],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._bus.stdout is not None
        assert select.select([self._bus.stdout], [], [], START_S)[0], "the session bus did not start"
        self.environ["DBUS_SESSION_BUS_ADDRESS"] = self._bus.stdout.readline().decode().strip()

    def start(self, password: bytes = b"canary-login") -> None:
        """Open, with what it kept before."""
        self._service = subprocess.Popen(
            [program("gnome-keyring-daemon"), "--foreground", "--unlock", "--components=secrets"],
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._service.stdin is not None
        assert self._service.stdout is not None
        self._service.stdin.write(password)
        self._service.stdin.close()
        assert select.select([self._service.stdout], [], [], START_S)[0], "the keyring did not start"
        self._service.stdout.readline()

    def lock(self) -> None:
        subprocess.run([sys.executable, "-I", "-c", LOCK], env=self.environ, check=True, timeout=START_S)

    def hang(self) -> None:
        """It keeps its name on the bus and answers nobody."""
        self._of(self._service).send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._of(self._service).send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._service = self._ended(self._service)

    def end_bus(self) -> None:
        """The address leads nowhere from then on."""
        self._bus = self._ended(self._bus)

    @staticmethod
    def _of(process: "subprocess.Popen[bytes] | None") -> "subprocess.Popen[bytes]":
        assert process is not None, "it was not started"
        return process

    @staticmethod
    def _ended(process: "subprocess.Popen[bytes] | None") -> None:
        if process is None:
            return
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

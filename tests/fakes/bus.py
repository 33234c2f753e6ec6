"""A real message bus of one's own, that starts nothing by itself, and people on it. Can hang, end and start anew."""

import asyncio
import select
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from jeepney import (  # type: ignore[import-untyped]  # it has no annotations
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    new_error,
    new_method_call,
    new_method_return,
    new_signal,
)
from jeepney.io.asyncio import DBusConnection, open_dbus_connection  # type: ignore[import-untyped]  # likewise

from tests.fakes.keyrings import program

START_S = 20.0
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  {services}
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


class PrivateBus:
    """`path` is its socket, `address` what programs are told. `services`: a directory of what it may start."""

    def __init__(self, directory: Path, *, services: Path | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = str(directory / "bus")
        self.address = f"unix:path={self.path}"
        self._config = directory / "bus.conf"
        told = f"<servicedir>{services}</servicedir>" if services else ""
        self._config.write_text(CONFIG.format(path=self.path, services=told))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [program("dbus-daemon"), f"--config-file={self._config}", "--nofork", "--print-address=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], START_S)[0], "the bus did not start"
        self._process.stdout.readline()

    def hang(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        Path(self.path).unlink(missing_ok=True)


Answer = Callable[[Any], tuple[str, tuple[Any, ...]] | None]


class Someone:
    """A program on the bus: owns names, answers calls, sends signals. Use it with `async with`."""

    def __init__(self, bus: PrivateBus, *names: str) -> None:
        self._bus = bus
        self._names = names
        self._answers: dict[str, Answer] = {}
        self._connection: DBusConnection
        self._held: list[Message] = []
        self._hung = False
        self.called: list[tuple[str, tuple[Any, ...]]] = []
        self.senders: list[str] = []  # of those calls

    async def __aenter__(self) -> Self:
        self._connection = await open_dbus_connection(self._bus.address)
        for name in self._names:
            await self.own(name)
        self._loop = asyncio.get_running_loop()
        self._serving = self._loop.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        self._serving.cancel()
        with suppress(asyncio.CancelledError):
            await self._serving
        with suppress(OSError):
            await self._connection.close()

    @property
    def unique(self) -> str:
        return str(self._connection.unique_name)

    async def own(self, name: str, flags: int = 7) -> None:
        """Take the name, from whoever has it if they allow."""
        bus = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        await self._connection.send(new_method_call(bus, "RequestName", "su", (name, flags)))

    def on(self, member: str, answer: Answer) -> None:
        """What is answered to a call: signature and body, or None for an error."""
        self._answers[member] = answer

    def hang(self) -> None:
        """Take calls, and answer none."""
        self._hung = True

    async def go_on(self) -> None:
        self._hung = False
        held, self._held = self._held, []
        for message in held:
            await self._answer(message)

    async def say(self, path: str, interface: str, member: str, signature: str, *body: Any, to: str = "") -> None:
        """Send a signal, to all or to one."""
        message = new_signal(DBusAddress(path, interface=interface), member, signature or None, body)
        if to:
            message.header.fields[HeaderFields.destination] = to
        await self._connection.send(message)

    async def _serve(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = await self._connection.receive()
                if message.header.message_type is not MessageType.method_call:
                    continue
                self.senders.append(str(message.header.fields[HeaderFields.sender]))
                self.called.append((message.header.fields[HeaderFields.member], tuple(message.body)))
                if self._hung:
                    self._held.append(message)
                else:
                    await self._answer(message)

    async def _answer(self, message: Message) -> None:
        answer = self._answers.get(message.header.fields[HeaderFields.member], lambda _: None)(tuple(message.body))
        if answer is None:
            await self._connection.send(new_error(message, "org.freedesktop.DBus.Error.Failed"))
        else:
            await self._connection.send(new_method_return(message, answer[0], answer[1]))


async def soon(what: Callable[[], object], *, limit_s: float = 15.0) -> Any:
    """The first true answer; fails after the limit."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while not (found := what()):
        assert loop.time() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
    return found

"""One connection to a message bus: calls that have a limit, and signals whose sender is known.

A call that is not answered in time raises; what was half sent ends the connection. Signals are handed on only where the
unique name that sent them owns the service that they speak for, at the moment they arrive: all others are counted and
dropped. Takes no calls from anybody.
"""

import asyncio
import os
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Self

from broker.desktop.faults import DesktopError, Trouble
from broker.desktop.marshal import DESCRIPTORS_MOST, Call, Incoming, Kind, Reader, is_spoken

OPEN_S = 3.0
CALL_S = 3.0
READ_BYTES = 65_536
LINE_MOST_BYTES = 4096
BUS, BUS_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"

Heard = Callable[[Incoming], None]


class BusConnection:
    """Open it with `open`. `closed` is set when it has ended, for whatever reason."""

    def __init__(self, endpoint: socket.socket) -> None:
        self.closed = asyncio.Event()
        self.forged = 0  # signals from who does not own the service that they speak for
        self._socket = endpoint
        self._loop = asyncio.get_running_loop()
        self._serials = count(start=1)
        self._sending = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[Incoming]] = {}
        self._owners: dict[str, str] = {}
        self._changes: Counter[str] = Counter()  # of owners
        self._hearing: dict[str, tuple[str, Heard]] = {}  # interface: whose it is, and who wants to hear
        self._moved: dict[str, list[Callable[[], None]]] = defaultdict(list)

    @classmethod
    async def open(cls, path: str, *, descriptors: bool = False, limit_s: float = OPEN_S) -> Self:
        """Connect and say hello. Raises DesktopError. With `descriptors` answers may bring some."""
        if not is_spoken():
            raise DesktopError(Trouble.ABSENT, "there is no D-Bus in this installation")
        endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.get_running_loop().sock_connect(endpoint, path)
                _check_peer(endpoint)
                await _introduce(endpoint, descriptors=descriptors)
        except TimeoutError:
            endpoint.close()
            raise DesktopError(Trouble.SILENT, "the bus does not answer") from None
        except OSError as cause:
            endpoint.close()
            raise DesktopError(Trouble.ABSENT, f"the bus can't be reached: {cause.strerror}") from None
        except BaseException:
            endpoint.close()
            raise
        made = cls(endpoint)
        made._start()
        try:
            await made.ask_bus("Hello", limit_s=limit_s)
        except BaseException:
            made.close()
            raise
        return made

    def _start(self) -> None:
        reader = Reader()
        self._loop.add_reader(self._socket.fileno(), self._readable, reader)

    def close(self) -> None:
        """End it now; whoever waits for an answer is told."""
        if self.closed.is_set():
            return
        self.closed.set()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(DesktopError(Trouble.GONE, "the connection to the bus ended"))
                answer.exception()  # it may be that nobody waits any more
        self._answers.clear()

    async def call(self, call: Call, *, limit_s: float = CALL_S) -> Incoming:
        """The answer. Raises DesktopError where there is none in time, or where it is an error."""
        try:
            async with asyncio.timeout(limit_s):
                return await (await self.begin(call))
        except TimeoutError:
            raise DesktopError(Trouble.SILENT, f"{call.member} was not answered within {limit_s:g} s") from None

    async def begin(self, call: Call) -> asyncio.Future[Incoming]:
        """Send it; the answer comes when it comes, at the latest with the end of the connection."""
        serial = next(self._serials)
        await self._send(call.encode(serial))
        answer: asyncio.Future[Incoming] = self._loop.create_future()
        self._answers[serial] = answer
        answer.add_done_callback(lambda _: self._answers.pop(serial, None))
        return answer

    def post(self, call: Call) -> None:
        """Send it if that is possible at once; nobody learns what became of it."""
        with suppress(OSError):
            if not self.closed.is_set() and not self._sending.locked():
                self._socket.send(call.encode(next(self._serials), answered=False))

    async def ask_bus(self, member: str, signature: str = "", *body: object, limit_s: float = CALL_S) -> Incoming:
        """A call of the bus itself."""
        asked = Call(to=BUS, path=BUS_PATH, interface=BUS, member=member, signature=signature, body=body)
        return await self.call(asked, limit_s=limit_s)

    async def follow(self, service: str, moved: Callable[[], None]) -> None:
        """Know from now on who owns that name; `moved` is called when that changes."""
        self._moved[service].append(moved)
        await self._match(f"sender='{BUS}',interface='{BUS}',member='NameOwnerChanged',arg0='{service}'")
        await self.look_up(service)

    async def look_up(self, service: str) -> str | None:
        """Ask the bus who owns a name that is followed."""
        before, owner = self._changes[service], ""
        try:
            owner = _text(await self.ask_bus("GetNameOwner", "s", service))
        except DesktopError as error:
            if error.trouble is not Trouble.REFUSED:
                raise
        if before == self._changes[service]:  # else what the bus said of it meanwhile is newer
            self._owned(service, owner)
        return self.owner(service)

    def _owned(self, service: str, owner: str) -> None:
        if owner:
            self._owners[service] = owner
        else:
            self._owners.pop(service, None)

    def owner(self, service: str) -> str | None:
        return self._owners.get(service)

    async def hear(self, service: str, interface: str, heard: Heard, *, more: str = "") -> None:
        """Have the signals of an interface, from the owner of that (followed) name alone."""
        self._hearing[interface] = (service, heard)
        await self._match(f"sender='{service}',interface='{interface}'{more}")

    async def _match(self, rule: str) -> None:
        await self.ask_bus("AddMatch", "s", f"type='signal',{rule}")

    async def _send(self, data: bytes) -> None:
        if self.closed.is_set():
            raise DesktopError(Trouble.GONE, "the connection to the bus has ended")
        async with self._sending:
            try:
                await self._loop.sock_sendall(self._socket, data)
            except OSError as cause:
                self.close()
                raise DesktopError(Trouble.GONE, "the connection to the bus ended") from cause
            except asyncio.CancelledError:
                self.close()  # nobody knows how much of the message went out
                raise

    def _readable(self, reader: Reader) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, READ_BYTES, DESCRIPTORS_MOST)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            for message in reader.feed(data, descriptors):
                self._take(message)
        except DesktopError:
            data = b""
        if not data:
            _close(reader.leave())
            self.close()

    def _take(self, message: Incoming) -> None:
        answer = None if message.answers is None else self._answers.get(message.answers)
        if answer is not None and message.kind in {Kind.ANSWER, Kind.ERROR}:
            self._answer(answer, message)
            return
        _close(message.descriptors)
        if message.kind is not Kind.SIGNAL:
            return
        if message.interface == BUS:
            self._bus_says(message)
            return
        service, heard = self._hearing.get(message.interface, ("", None))
        if heard is None:
            return
        if message.sender == self._owners.get(service):
            heard(message)
        else:
            self.forged += 1

    def _answer(self, answer: asyncio.Future[Incoming], message: Incoming) -> None:
        if answer.done():  # whoever asked has stopped waiting
            _close(message.descriptors)
        elif message.kind is Kind.ERROR:
            _close(message.descriptors)
            answer.set_exception(DesktopError(Trouble.REFUSED, "the call was answered by an error"))
            answer.exception()  # it may be that nobody waits any more
        else:
            answer.set_result(message)

    def _bus_says(self, message: Incoming) -> None:
        if message.member != "NameOwnerChanged" or message.signature != "sss":
            return
        if message.sender != BUS:
            self.forged += 1
            return
        name, _, now = message.body
        if name not in self._moved:
            return
        self._changes[name] += 1
        self._owned(name, now)
        for moved in self._moved[name]:
            moved()


def _check_peer(endpoint: socket.socket) -> None:
    """A bus is run by the system or by ourselves; another user's would tell us what it likes."""
    _, uid, _ = struct.unpack("3i", endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid not in {0, os.geteuid()}:
        raise DesktopError(Trouble.ABSENT, "the bus belongs to another user")


async def _introduce(endpoint: socket.socket, *, descriptors: bool) -> None:
    """The few lines before the first message: who we are, and whether we take descriptors."""
    identity = str(os.geteuid()).encode().hex()
    await _line(endpoint, f"\0AUTH EXTERNAL {identity}\r\n", "OK ")
    if descriptors:
        await _line(endpoint, "NEGOTIATE_UNIX_FD\r\n", "AGREE_UNIX_FD")
    await asyncio.get_running_loop().sock_sendall(endpoint, b"BEGIN\r\n")


async def _line(endpoint: socket.socket, said: str, expected: str) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(endpoint, said.encode())
    heard = b""
    while not heard.endswith(b"\r\n"):
        more = await loop.sock_recv(endpoint, LINE_MOST_BYTES)
        heard += more
        if not more or len(heard) > LINE_MOST_BYTES:
            raise DesktopError(Trouble.ODD, "the bus ended the greeting")
    if not heard.startswith(expected.encode()):
        raise DesktopError(Trouble.REFUSED, "the bus does not take us")


def _text(answer: Incoming) -> str:
    if answer.signature != "s":
        raise DesktopError(Trouble.ODD, "the bus gave an answer that makes no sense")
    return str(answer.body[0])


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)

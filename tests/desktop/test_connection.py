"""Calls that have a limit and signals whose sender is known, on a real bus and on sockets that only look like one."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.desktop.connection import BusConnection
from broker.desktop.faults import DesktopError, Trouble
from broker.desktop.marshal import MESSAGE_MOST_BYTES, Call, Incoming
from tests.fakes.bus import PrivateBus, Someone, soon

NAME, PATH = "org.example.Teller", "/org/example/Teller"
LIMIT_S = 0.3


@pytest.fixture
async def connection(bus: PrivateBus) -> AsyncIterator[BusConnection]:
    made = await BusConnection.open(bus.path)
    yield made
    made.close()


def call(member: str, to: str = NAME) -> Call:
    return Call(to=to, path=PATH, interface=NAME, member=member)


async def trouble_of(path: str) -> Trouble:
    with pytest.raises(DesktopError) as raised:
        await BusConnection.open(path, limit_s=LIMIT_S)
    return raised.value.trouble


async def test_a_call_is_answered(bus: PrivateBus, connection: BusConnection) -> None:
    async with Someone(bus, NAME) as teller:
        teller.on("Tell", lambda _: ("su", ("words", 7)))
        answer = await connection.call(call("Tell"))
        assert (("words", 7), "su") == (answer.body, answer.signature)


async def test_an_error_is_told_without_its_words(bus: PrivateBus, connection: BusConnection) -> None:
    async with Someone(bus, NAME):
        with pytest.raises(DesktopError) as raised:
            await connection.call(call("Unknown"))
    assert Trouble.REFUSED == raised.value.trouble
    with pytest.raises(DesktopError):
        await connection.call(call("Tell", to="org.example.Nobody"))


async def test_a_call_that_is_not_answered_ends_at_its_limit_and_the_next_one_works(
    bus: PrivateBus, connection: BusConnection
) -> None:
    async with Someone(bus, NAME) as teller:
        teller.on("Tell", lambda _: ("", ()))
        teller.hang()
        with pytest.raises(DesktopError) as raised:
            await connection.call(call("Tell"), limit_s=LIMIT_S)
        assert Trouble.SILENT == raised.value.trouble
        await teller.go_on()  # the late answer is for nobody
        assert "" == (await connection.call(call("Tell"))).signature


async def test_a_hung_bus_is_left_at_the_limit(bus: PrivateBus, connection: BusConnection) -> None:
    bus.hang()
    with pytest.raises(DesktopError) as raised:
        await connection.call(call("Tell"), limit_s=LIMIT_S)
    assert (Trouble.SILENT, Trouble.SILENT) == (raised.value.trouble, await trouble_of(bus.path))
    bus.go_on()


async def test_a_bus_that_takes_nothing_more_ends_the_connection(bus: PrivateBus, connection: BusConnection) -> None:
    """Half a message was sent: what came after it would be no message."""
    bus.hang()
    large = Call(to=NAME, path=PATH, interface=NAME, member="Tell", signature="s", body=("x" * 4_000_000,))
    with pytest.raises(DesktopError) as raised:
        await connection.call(large, limit_s=LIMIT_S)
    bus.go_on()
    assert Trouble.SILENT == raised.value.trouble
    assert connection.closed.is_set()
    with pytest.raises(DesktopError) as raised:
        await connection.call(call("Tell"))
    assert Trouble.GONE == raised.value.trouble


async def test_the_end_of_the_bus_ends_what_waits(bus: PrivateBus, connection: BusConnection) -> None:
    async with Someone(bus, NAME) as teller:
        teller.hang()
        waiting = await connection.begin(call("Tell"))
        bus.end()
        with pytest.raises(DesktopError) as raised:
            await waiting
    assert Trouble.GONE == raised.value.trouble
    assert connection.closed.is_set()
    connection.post(call("Tell"))
    connection.close()


async def test_nobody_there_is_told_as_such(tmp_path: Path) -> None:
    assert Trouble.ABSENT == await trouble_of(str(tmp_path / "nothing"))


class Pretender:
    """Listens as a bus would, says what it was told to say, and then nothing."""

    def __init__(self, path: str, *said: bytes) -> None:
        self._said = said
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen(1)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._thread.join(15)
        self._socket.close()

    def _serve(self) -> None:
        taken, _ = self._socket.accept()
        with taken, suppress(OSError):
            for words in self._said:
                taken.recv(4096)
                taken.sendall(words)
            while self._said and taken.recv(4096):
                pass


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((b"",), Trouble.SILENT),
        ((b"REJECTED EXTERNAL\r\n",), Trouble.REFUSED),
        ((b"x" * 9000,), Trouble.ODD),
        ((b"OK 00\r\n", b"X" * 200), Trouble.GONE),
        ((b"OK 00\r\n", b"l\x02\x01\x01\xff\xff\xff\x07" + bytes(64)), Trouble.GONE),
        ((b"OK 00\r\n",), Trouble.SILENT),
    ],
)
async def test_what_is_no_bus_is_left(tmp_path: Path, said: tuple[bytes, ...], expected: Trouble) -> None:
    path = str(tmp_path / "socket")
    with Pretender(path, *said):
        assert expected == await trouble_of(path)


async def test_one_who_hangs_up_at_once_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with Pretender(path):
        assert await trouble_of(path) in {Trouble.ODD, Trouble.ABSENT}


async def hearing(connection: BusConnection) -> tuple[list[Incoming], list[str | None]]:
    heard: list[Incoming] = []
    owners: list[str | None] = []
    await connection.follow(NAME, lambda: owners.append(connection.owner(NAME)))
    await connection.hear(NAME, NAME, heard.append)
    return heard, owners


async def test_signals_count_from_the_owner_of_the_name_alone(bus: PrivateBus, connection: BusConnection) -> None:
    heard, owners = await hearing(connection)
    async with Someone(bus) as forger, Someone(bus, NAME) as teller:
        await soon(lambda: owners == [teller.unique])
        me = await name_of(bus, connection)
        await forger.say(PATH, NAME, "Said", "s", "forged", to=me)
        await teller.say(PATH, NAME, "Said", "s", "true")
        await soon(lambda: heard)
        assert (["true"], 1) == ([message.body[0] for message in heard], connection.forged)


async def name_of(bus: PrivateBus, connection: BusConnection) -> str:
    """A connection's name, as anybody whom it calls learns it."""
    async with Someone(bus, "org.example.Asker") as asker:
        asker.on("Who", lambda _: ("", ()))
        await connection.call(Call(to="org.example.Asker", path=PATH, interface=NAME, member="Who"))
        return asker.senders[0]


async def test_a_signal_before_anybody_owns_the_name_is_forged(bus: PrivateBus, connection: BusConnection) -> None:
    heard, _ = await hearing(connection)
    async with Someone(bus) as forger:
        await forger.say(PATH, NAME, "Said", "s", "forged", to=await name_of(bus, connection))
        await soon(lambda: connection.forged)
    assert [] == heard


async def test_nobody_speaks_for_the_bus(bus: PrivateBus, connection: BusConnection) -> None:
    """A forged change of owners would let a forger be believed."""
    heard, owners = await hearing(connection)
    async with Someone(bus) as forger:
        me = await name_of(bus, connection)
        told = (NAME, "", forger.unique)
        await forger.say("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", "sss", *told, to=me)
        await forger.say(PATH, NAME, "Said", "s", "forged", to=me)
        await soon(lambda: connection.forged == 2)
    assert ([], []) == (heard, owners)


async def test_who_gave_the_name_away_counts_no_more(bus: PrivateBus, connection: BusConnection) -> None:
    heard, owners = await hearing(connection)
    async with Someone(bus, NAME) as former, Someone(bus) as later:
        await soon(lambda: owners == [former.unique])
        await later.own(NAME)
        await soon(lambda: owners[-1] == later.unique)
        await former.say(PATH, NAME, "Said", "s", "late", to=await name_of(bus, connection))
        await later.say(PATH, NAME, "Said", "s", "true")
        await soon(lambda: heard)
        assert ["true"] == [message.body[0] for message in heard]
    await soon(lambda: owners[-1] is None)


async def test_a_message_over_the_limit_ends_the_connection(bus: PrivateBus, connection: BusConnection) -> None:
    async with Someone(bus) as other:
        me = await name_of(bus, connection)
        await other.say(PATH, NAME, "Said", "s", "x" * (MESSAGE_MOST_BYTES + 1), to=me)
        await soon(connection.closed.is_set)


async def test_a_bus_of_another_user_is_not_believed(bus: PrivateBus, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: mine + 1)  # where we are root, the bus itself refuses who we say we are
    assert await trouble_of(bus.path) in {Trouble.ABSENT, Trouble.REFUSED}


def test_where_the_library_is_missing_there_is_no_bus_and_no_fault() -> None:
    """As on a system that is no Linux: the daemon's modules load, and say so."""
    code = (
        "import sys, asyncio; sys.modules['jeepney'] = None\n"
        "import broker.daemon.desktop\n"
        "from broker.desktop.connection import BusConnection\n"
        "asyncio.run(BusConnection.open('/nothing'))\n"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "DesktopError: there is no D-Bus in this installation" in ended.stderr

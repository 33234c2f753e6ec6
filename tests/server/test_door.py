"""The door: who is too many is told so, who is silent is cut, and others still come in."""

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.server import door as door_module
from broker.server.door import Door, DoorLimits
from tests.fakes.faces import AgentFace, ControlFace


def door_of(face: AgentFace | ControlFace) -> Door:
    assert face.listener is not None
    return face.listener.door


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_so_many_come_in_and_who_is_too_many_is_told_so(tmp_path: Path) -> None:
    async with AgentFace(tmp_path, limits=DoorLimits(connections=100, per_process=3)) as face:
        inside = [await face.wire() for _ in range(3)]
        for wire in inside:
            wire.ask("GET", "/v1/session")
            assert 200 == (await wire.answer()).status
        refused = await (await face.wire()).answer()

        assert (503, "overloaded") == (refused.status, refused.code)
        assert "close" == refused.headers["connection"]
        inside[0].hang_up()
        first = next(iter(door_of(face)._guests.values()))
        await face.until(first.transport.is_closing)
        assert 200 == (await face.ask("GET", "/v1/session")).status


async def test_a_human_who_is_too_many_is_told_so_in_their_own_words(tmp_path: Path) -> None:
    async with ControlFace(tmp_path, limits=DoorLimits(connections=100, per_process=0)) as face:
        refused = await (await face.wire()).answer()

        assert (429, "limit") == (refused.status, refused.code)


async def test_the_longest_silent_one_makes_room(tmp_path: Path) -> None:
    async with AgentFace(tmp_path, limits=DoorLimits(connections=2, per_process=100)) as face:
        speaking = await face.wire()
        speaking.ask("GET", "/v1/session")
        await speaking.answer()
        silent = await face.wire()
        await face.until(lambda: len(door_of(face)) == 2)

        assert 200 == (await face.ask("GET", "/v1/session")).status
        assert await silent.ended()
        speaking.ask("GET", "/v1/session")
        assert 200 == (await speaking.answer()).status


async def test_where_nobody_is_silent_there_is_no_room(tmp_path: Path) -> None:
    async with AgentFace(tmp_path, limits=DoorLimits(connections=1, per_process=100)) as face:
        speaking = await face.wire()
        speaking.ask("GET", "/v1/session")
        await speaking.answer()

        assert (503, "overloaded") == ((told := await (await face.wire()).answer()).status, told.code)


async def test_half_a_request_is_as_silent_as_none(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        wire = await face.wire()
        wire.send(b"POST /v1/http HTTP/1.1\r\nhost: fa")
        speaking = await face.wire()
        speaking.ask("GET", "/v1/session")
        await speaking.answer()
        await face.until(lambda: len(door_of(face)) == 2)
        door_of(face).sweep()
        assert 2 == len(door_of(face))
        face.clock.advance(seconds=31)
        door_of(face).sweep()

        assert await wire.ended()
        assert 1 == len(door_of(face))
        speaking.ask("GET", "/v1/session")
        assert 200 == (await speaking.answer()).status


async def test_a_closed_connection_is_forgotten_with_all_that_it_held(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        before = descriptors()
        for _ in range(20):
            await face.ask("GET", "/v1/session")
        await face.until(lambda: all(guest.transport.is_closing() for guest in door_of(face)._guests.values()))
        door_of(face).sweep()

        assert (0, 0, 0) == (len(door_of(face)), len(face.connections), len(door_of(face)._per_process))
        await face.until(lambda: descriptors() <= before + 1)


async def test_the_door_sweeps_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "SWEEP_EVERY_S", 0.005)
    async with AgentFace(tmp_path) as face:
        wire = await face.wire()
        await face.until(lambda: len(door_of(face)) == 1)
        sweeping = face.tasks.create_task(door_of(face).sweeping())
        face.clock.advance(seconds=31)

        assert await wire.ended()
        sweeping.cancel()


async def test_a_flood_leaves_others_served_and_nothing_behind(tmp_path: Path) -> None:
    """T33: connections that ask for nothing, by the hundred."""
    async with AgentFace(tmp_path, limits=DoorLimits(connections=64, per_process=1000)) as face:
        for number in range(400):
            await face.wire()
            if number % 100 == 0:
                assert 200 == (await face.ask("GET", "/v1/session")).status

        assert 200 == (await face.ask("GET", "/v1/session")).status
        assert len(door_of(face)) <= 64


async def test_a_door_without_descriptors_waits_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(door_module, "NO_DESCRIPTOR_S", 0.001)
    async with AgentFace(tmp_path) as face:
        loop = asyncio.get_running_loop()
        faults = [OSError(errno.EMFILE, "too many"), OSError(errno.ECONNABORTED, "gone")]
        accept = loop.sock_accept

        async def failing(listener: socket.socket) -> tuple[socket.socket, Any]:
            if faults:
                raise faults.pop(0)
            return await accept(listener)

        monkeypatch.setattr(loop, "sock_accept", failing)
        await face.ask("GET", "/v1/session")  # taken by the accept that was under way
        assert 200 == (await face.ask("GET", "/v1/session")).status
        assert [] == faults
    assert 2 == caplog.text.count("no connection can be taken")


@pytest.mark.parametrize(("allowed", "connections"), [(256, 16), (1024, 85), (20_000, 3248), (1_000_000, 4096)])
def test_the_limits_leave_descriptors_for_the_rest(allowed: int, connections: int) -> None:
    limits = DoorLimits.within(allowed)

    assert connections == limits.connections
    assert limits.per_process <= max(8, limits.connections // 2)


SWARM = """
import socket, sys
links = []
for _ in range(int(sys.argv[2])):
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(sys.argv[1])
        link.sendall(b"GET /v1/session HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")
        link.recv(1)
    except OSError:
        pass  # turned away, or cut for another
    links.append(link)
print("all", flush=True)
sys.stdin.read()
"""


@contextmanager
def swarm(face: AgentFace, *, processes: int, each: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes that asked once over so many connections, and stay."""
    words = [sys.executable, "-I", "-c", SWARM, face.path, str(each)]
    running = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.communicate()


async def all_came(running: "list[subprocess.Popen[bytes]]") -> None:
    """Wait until none of them connects any more: who has not spoken yet is the first to make room."""
    for process in running:
        assert process.stdout is not None
        assert b"all\n" == await asyncio.to_thread(process.stdout.readline)


async def test_who_holds_most_gives_a_place_to_who_holds_less(tmp_path: Path) -> None:
    """T33: a swarm that asks and stays keeps neither an agent nor a human out."""
    async with AgentFace(tmp_path, limits=DoorLimits(connections=6, per_process=4)) as face:
        mine = await face.wire()
        mine.ask("GET", "/v1/session")
        await mine.answer()
        with swarm(face, processes=2, each=3) as running:
            await all_came(running)
            await face.until(lambda: 6 == len(door_of(face)) == len(face.connections))
            newcomer = await face.wire()
            newcomer.ask("GET", "/v1/session")

            assert 200 == (await newcomer.answer()).status
            mine.ask("GET", "/v1/session")
            assert 200 == (await mine.answer()).status, "who holds less was not cut"


async def test_idle_connections_go_before_those_that_wait_for_an_answer(tmp_path: Path) -> None:
    async with AgentFace(tmp_path, limits=DoorLimits(connections=2, per_process=2)) as face:
        with swarm(face, processes=1, each=2):
            await face.until(lambda: 2 == len(face.connections))
            first, second = door_of(face)._guests.values()
            face.connections._busy.add(first.protocol)
            assert 200 == (await face.ask("GET", "/v1/session")).status

            assert (False, True) == (first.transport.is_closing(), second.transport.is_closing())


async def test_who_is_spared_gives_nothing_away(tmp_path: Path) -> None:
    async with AgentFace(tmp_path, limits=DoorLimits(connections=2, per_process=2)) as face:
        with swarm(face, processes=1, each=2):
            await face.until(lambda: 2 == len(face.connections))
            door_of(face)._spared = lambda _: True

            assert (503, "overloaded") == ((told := await (await face.wire()).answer()).status, told.code)

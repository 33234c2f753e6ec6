"""Who is behind a connection, for as long as it lasts."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.policy.model import AgentProgram, Policy
from broker.server import connections as connections_module
from broker.server.connections import Connections
from broker.server.peer import PeerError
from tests.fakes import market
from tests.fakes.faces import AgentFace
from tests.fakes.processes import other_program
from tests.live.house import AGENT, Agent

Agents = Callable[[str], Agent]
IMAGE = Path(sys.executable).resolve()
DIGEST = hashlib.sha256(IMAGE.read_bytes()).hexdigest()


@pytest.fixture
def agents() -> Iterator[Agents]:
    """Starts agents, and ends them."""
    started: list[Agent] = []

    def start(path: str) -> Agent:
        started.append(Agent(path))
        return started[-1]

    yield start
    for agent in started:
        agent.stop()


def digested(*patterns: str) -> Policy:
    agents = {
        f"agent-{number}": AgentProgram(name=f"agent-{number}", exe=pattern, sha256="0" * 64)
        for number, pattern in enumerate(patterns)
    }
    return replace(market.POLICY, agents=agents)


async def test_a_connection_is_looked_at_once_and_remembered(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        wire = await face.wire()
        for _ in range(2):
            wire.ask("GET", "/v1/session")
            await wire.answer()

        (connection,) = face.connections._known.values()
        assert os.getpid() == connection.facts.process.pid
        assert 1 == len(face.connections)


async def test_a_process_that_became_another_is_looked_at_again_on_the_same_connection(
    tmp_path: Path, agents: Agents
) -> None:
    async with AgentFace(tmp_path) as face:
        agent = agents(face.path)
        before = (await answer(agent, "/v1/session"))["anchor"]
        agent.become(str(other_program(tmp_path)), "-I", str(AGENT), face.path)
        after = (await answer(agent, "/v1/session"))["anchor"]

        assert before["pid"] == after["pid"]
        assert before["exe"] != after["exe"]


async def test_a_connection_ends_with_its_process(tmp_path: Path, agents: Agents) -> None:
    async with AgentFace(tmp_path) as face:
        agent = agents(face.path)
        await answer(agent, "/v1/session", keep=1)
        assert 1 == len(face.connections)
        agent.kill()

        await face.until(lambda: len(face.connections) == 0)


async def test_a_child_that_holds_the_connection_on_is_nobody(tmp_path: Path, agents: Agents) -> None:
    """The kernel says that the process behind it is gone before the loop has heard of it."""
    async with AgentFace(tmp_path) as face:
        agent = agents(face.path)
        await answer(agent, "/v1/session", keep=1)
        ((protocol, connection),) = face.connections._known.items()
        request = Asked(protocol, connection.transport)
        agent.stop()

        with pytest.raises(PeerError, match="exited"):
            face.connections.of(request)  # type: ignore[arg-type]  # as much of a request as is looked at
        assert not face.connections.spoke(protocol)


async def test_a_connection_without_a_socket_has_nobody_behind_it() -> None:
    connections = Connections(boot="boot")

    for transport in (None, Bare()):
        with pytest.raises(PeerError):
            connections.of(Asked(object(), transport))  # type: ignore[arg-type]  # likewise


async def test_executables_are_digested_where_the_policy_asks_for_it_and_once(tmp_path: Path) -> None:
    real = str(IMAGE)
    async with AgentFace(tmp_path) as face:
        await face.ask("GET", "/v1/session")
        (connection,) = face.connections._known.values()

        assert face.connections.facts(connection, market.POLICY).process.exe_sha256 is None
        assert face.connections.facts(connection, digested("/nowhere")).process.exe_sha256 is None
        facts = face.connections.facts(connection, digested(real))
        assert DIGEST == facts.process.exe_sha256, "another policy asks for another one"
        kept = dict(face.connections._digests)
        connection.digested = ()
        assert facts.process == face.connections.facts(connection, digested(real)).process
        assert kept == face.connections._digests


class Becoming:
    """A process that runs one file, and another when it is told to."""

    def __init__(self, directory: Path) -> None:
        self.first, self.second = directory / "first", directory / "second"
        for place, source in ((self.first, "/bin/sh"), (self.second, "/bin/sleep")):
            place.write_bytes(Path(source).read_bytes())
            place.chmod(0o755)
        self._process = subprocess.Popen(
            [self.first, "-c", f'read word; exec "{self.second}" 600'], stdin=subprocess.PIPE
        )
        self.pid = self._process.pid

    def become(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()
        while Path(f"/proc/{self.pid}/exe").readlink() != self.second:
            assert self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=15)


@pytest.fixture
def becoming(tmp_path: Path) -> Iterator[Becoming]:
    made = Becoming(tmp_path)
    yield made
    made.end()


async def test_a_digest_is_of_what_an_ancestor_runs_now(tmp_path: Path, becoming: Becoming) -> None:
    """The agent above becomes another program while its helper's connection is kept."""
    async with AgentFace(tmp_path) as face:
        await face.ask("GET", "/v1/session")
        (connection,) = face.connections._known.values()
        facts = connection.facts
        above = replace(facts.process, pid=becoming.pid, exe=str(becoming.first))
        connection.pinned = replace(connection.pinned, facts=replace(facts, ancestors=(above,)))
        told: list[str | None] = []
        happening: list[Callable[[], None]] = [lambda: None, becoming.become, becoming.end]
        for happens in happening:
            happens()
            told.append(face.connections.facts(connection, digested(str(becoming.first))).ancestors[0].exe_sha256)

    assert [
        hashlib.sha256(becoming.first.read_bytes()).hexdigest(),
        hashlib.sha256(becoming.second.read_bytes()).hexdigest(),
        None,
    ] == told


async def test_digests_are_kept_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "DIGESTS_KEPT", 0)
    async with AgentFace(tmp_path) as face:
        await face.ask("GET", "/v1/session")
        (connection,) = face.connections._known.values()
        facts = face.connections.facts(connection, digested(str(IMAGE)))

        assert facts.process.exe_sha256 is not None
        assert not face.connections._digests


async def test_what_is_told_of_a_process_is_kept_once_and_no_longer_than_it_is_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "TOLD_KEPT", 0)
    async with AgentFace(tmp_path) as face:
        for _ in range(3):
            wire = await face.wire()
            wire.ask("GET", "/v1/session")
            await wire.answer()
        chains = [connection.facts.chain for connection in face.connections._known.values()]

        assert 3 == len(chains)
        assert len(chains[0]) == len({id(process) for chain in chains for process in chain})
        face.connections.close()
        await face.ask("GET", "/v1/session")
        assert len(chains[0]) >= len(face.connections._told)


class Asked:
    def __init__(self, protocol: object, transport: object) -> None:
        self.protocol = protocol
        self.transport = transport


class Bare:
    def get_extra_info(self, name: str) -> None:
        """No socket, whatever the name."""


async def answer(agent: Agent, path: str, **more: object) -> dict[str, dict[str, object]]:
    """What the agent is answered, waited for off the loop that answers it."""
    told = await asyncio.to_thread(agent.end, agent.begin("GET", path, **more))
    value: dict[str, dict[str, object]] = told["value"]
    return value

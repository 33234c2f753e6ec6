"""The SSH far sides of the matrix, met by a client of their own: what they refuse, run, lose and write down."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from broker.matrix.case_files import parse
from broker.matrix.cases import Case
from broker.matrix.far_programs import FarHost, words
from broker.matrix.house import wait_until
from broker.matrix.openssh import OpenSsh
from broker.matrix.ssh_faults import SshFaults, SshPlan

TOKEN = "canary-of-a-far-side"
CASE = """
services:
  web:
    kind: ssh
    hosts: {{web-1: {{}}}}
    operations:
      look: {{command: [lookctl, "{{unit}}"], effect: read}}
      restart: {{command: [restartctl, "{{unit}}"], effect: write}}
cases:
  - id: a
    operation: restart
    request: {{verb: ssh, host: web-1, args: {{unit: nginx}}}}
    fixture_response: {answer}
    expect: {{category: success, retry: never}}
"""


def case(answer: str = "{}") -> Case:
    return parse(CASE.format(answer=answer), "x.yaml")[0]


def host(tmp_path: Path, answer: str = "{}") -> FarHost:
    made = FarHost(tmp_path / "far", "run")
    made.install(case(answer))
    return made


@pytest.fixture
def far() -> Iterator[SshFaults]:
    with SshFaults() as serving:
        yield serving


def asked(port: int, command: str | None, **more: Any) -> Any:
    """What a client gets; None where it only connects."""

    async def ask() -> Any:
        options = {"username": "run", "password": TOKEN, "known_hosts": None, "config": None, "client_keys": None}
        async with asyncssh.connect("127.0.0.1", port, **{**options, **more}) as connection:
            return None if command is None else await connection.run(command)

    return asyncio.run(asyncio.wait_for(ask(), 30))


def kinds(events: tuple[Any, ...]) -> list[str]:
    return [one.what for one in events]


def test_a_command_runs_for_real_and_both_sides_write_down_what_it_did(far: SshFaults, tmp_path: Path) -> None:
    far.arm("run", SshPlan(password=TOKEN, host=host(tmp_path, "{stdout: made, stderr: hm}")))
    done = asked(far.port, "restartctl nginx")

    assert (0, "made", "hm") == (done.exit_status, done.stdout, done.stderr)
    assert ["connected", "login", "asked", "received", "committed"] == kinds(far.events("run"))
    assert [TOKEN] == [one.credential for one in far.events("run") if one.credential]


def test_a_program_that_only_looks_changes_nothing(far: SshFaults, tmp_path: Path) -> None:
    far.arm("run", SshPlan(password=TOKEN, host=host(tmp_path)))

    assert "active\n" == asked(far.port, "lookctl nginx").stdout
    assert ["looked_up"] == kinds(far.events("run"))[3:]


def test_an_exit_status_and_a_signal_are_told_as_they_are(far: SshFaults, tmp_path: Path) -> None:
    far.arm("run", SshPlan(password=TOKEN, host=host(tmp_path, "{exit_status: 7}")))
    assert 7 == asked(far.port, "restartctl nginx").exit_status
    told = asked(far.port, "kill -TERM $$")

    assert "TERM" == told.exit_signal[0]
    assert ["received"] == kinds(far.events("run"))[3:][-1:], "what fails is not committed"


def test_logins_and_channels_are_refused_where_that_is_planned(far: SshFaults, tmp_path: Path) -> None:
    made = host(tmp_path)
    far.arm("run", SshPlan(password=TOKEN, host=made, refuses="login"))
    with pytest.raises(asyncssh.PermissionDenied):
        asked(far.port, None)
    far.arm("run", SshPlan(password=TOKEN, host=made, refuses="channel"))
    asked(far.port, None)
    with pytest.raises(asyncssh.ChannelOpenError):
        asked(far.port, "restartctl nginx")
    far.arm("run", SshPlan(password=TOKEN, host=made))
    with pytest.raises(asyncssh.PermissionDenied):
        asked(far.port, None, password="another")

    assert not {"received", "committed", "asked"} & set(kinds(far.events("run")))


def test_one_port_is_silent_and_one_is_closed(far: SshFaults) -> None:
    with pytest.raises(ConnectionRefusedError):
        asked(far.closed_port, None)
    with pytest.raises((asyncssh.Error, OSError, TimeoutError)):
        asked(far.silent_port, None, login_timeout=0.3)


def test_a_command_goes_on_when_nobody_listens_any_more(far: SshFaults, tmp_path: Path) -> None:
    made = host(tmp_path, "{seconds: 0.5}")
    far.arm("run", SshPlan(password=TOKEN, host=made))

    async def leave() -> None:
        options = {"username": "run", "password": TOKEN, "known_hosts": None, "config": None, "client_keys": None}
        connection = await asyncssh.connect("127.0.0.1", far.port, **options)
        await connection.create_process("restartctl nginx")
        await asyncio.to_thread(wait_until, made.has_begun)
        connection.abort()

    asyncio.run(asyncio.wait_for(leave(), 30))

    assert wait_until(lambda: "committed" in kinds(made.events()))


def test_the_programs_of_a_case_are_those_that_it_names_and_no_tool_of_the_system() -> None:
    assert ["lookctl", "restartctl"] == list(words(case()))
    own = CASE.replace("lookctl", "sh")
    assert ["restartctl"] == list(words(parse(own.format(answer="{}"), "x.yaml")[0]))


@pytest.fixture
def server(planted: Path) -> Iterator[OpenSsh]:
    made = host(planted, "{seconds: 0.5}")
    opened = OpenSsh(made.home, made, TOKEN)
    with contextlib.closing(opened):
        yield opened


def key_of(server: OpenSsh) -> dict[str, Any]:
    return {"username": server.user, "client_keys": [asyncssh.import_private_key(server.private_key)]}


needs_sshd = pytest.mark.skipif(
    shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin:/usr/local/sbin") is None,
    reason="sshd (Debian: openssh-server) is not installed; not tested: the far side on a real server",
)


@needs_sshd
def test_a_real_server_runs_the_programs_in_the_home_of_the_run(server: OpenSsh) -> None:
    done = asked(server.proxy.port, "restartctl nginx && echo $HOME", **key_of(server))

    assert (0, f"{server.host.home}\n") == (done.exit_status, done.stdout)
    assert ["received", "committed"] == kinds(server.host.events())


@needs_sshd
def test_what_a_killed_server_ran_lives_on_and_the_next_one_has_the_same_key(server: OpenSsh) -> None:
    async def lose() -> None:
        options = {"known_hosts": None, "config": None, **key_of(server)}
        connection = await asyncssh.connect("127.0.0.1", server.proxy.port, **options)
        process = await connection.create_process("restartctl nginx")
        await asyncio.to_thread(wait_until, server.host.has_begun)
        server.kill_server()
        await process.wait_closed()
        connection.abort()

    asyncio.run(asyncio.wait_for(lose(), 30))
    server.start()

    assert wait_until(lambda: "committed" in kinds(server.host.events()))
    trusted = asyncssh.import_known_hosts(f"[127.0.0.1]:{server.proxy.port} {server.public_key}\n")
    assert 0 == asked(server.proxy.port, "true", known_hosts=trusted, **key_of(server)).exit_status


@needs_sshd
def test_a_command_that_is_killed_does_nothing_more(server: OpenSsh) -> None:
    async def lose() -> Any:
        options = {"known_hosts": None, "config": None, **key_of(server)}
        async with asyncssh.connect("127.0.0.1", server.proxy.port, **options) as connection:
            process = await connection.create_process("restartctl nginx")
            await asyncio.to_thread(wait_until, server.host.has_begun)
            server.kill_commands()
            return await process.wait()

    told = asyncio.run(asyncio.wait_for(lose(), 30))

    assert "KILL" == told.exit_signal[0]
    assert ["received"] == kinds(server.host.events())

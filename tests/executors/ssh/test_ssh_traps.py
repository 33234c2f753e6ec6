"""What the client library would have us lie about, each on a server that brings it about."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.ssh.frozen import Exec, LookUp
from broker.core.ssh.model import HostKeyMode, MarkerMode, SshHost
from broker.core.ssh.outcome import Found, HostKeySeen, MarkerState, SshFault, SshOutcome, SshPhase
from broker.executors.ssh.channel import UNNAMED
from tests.executors.ssh.conftest import Bench
from tests.fakes import odd_ssh_server as odd
from tests.fakes.odd_ssh_server import OddServer, odd_server
from tests.fakes.ssh_calls import QUICK, bare, host, password_secret
from tests.live.sshd import RSA_ONLY, Account, Lab, Sshd, is_root
from tests.live.tcp_cuts import How, cutting

pytestmark = pytest.mark.live


def odd_host(server: OddServer) -> SshHost:
    return host(server.port, "anybody", known_hosts=server.known_hosts)


async def against(bench: Bench, behaviour: odd.Behaviour) -> SshOutcome:
    async with odd_server(behaviour) as server:
        return await bench.run(odd_host(server), bare("anything"), deadlines=replace(QUICK, exec_s=0.6))


# 1 - an ending without a status is no success, and the command may have started once its channel is open


async def test_streams_that_end_before_a_reset_make_no_success(bench: Bench) -> None:
    seen = await against(bench, odd.reset_after_eof)

    assert (SshFault.CONNECTION_LOST, None, False) == (seen.fault, seen.exit_status, seen.output_complete)


async def test_a_channel_that_closes_without_a_status_makes_no_success(bench: Bench) -> None:
    seen = await against(bench, odd.close_without_status)

    assert (SshFault.CHANNEL_LOST, None, False) == (seen.fault, seen.exit_status, seen.output_complete)


@pytest.mark.parametrize("behaviour", [odd.cut_unanswered, odd.close_unanswered, odd.say_nothing])
async def test_a_lost_answer_leaves_it_open_whether_the_command_ran(bench: Bench, behaviour: odd.Behaviour) -> None:
    seen = await against(bench, behaviour)

    assert SshPhase.CHANNEL_OPEN is seen.phase
    assert seen.fault in {SshFault.CONNECTION_LOST, SshFault.CHANNEL_LOST, SshFault.EXEC_TIMEOUT}


async def test_the_answer_may_be_lost_though_the_command_ran(
    bench: Bench, by_port: Callable[[int], SshHost], server: Sshd, account: Account
) -> None:
    mark = account.home / "ran"
    with cutting(server.port) as proxy:
        warm = await bench.run(by_port(proxy.port), bare("true"))
        proxy.links[0].cut = None
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(bench.run(by_port(proxy.port), bare(f"touch {mark}; sleep 3")))
            async with asyncio.timeout(60):
                while not mark.exists():  # noqa: ASYNC110 - another process makes it
                    await asyncio.sleep(0.005)
            proxy.cut_now(How.RST)

    assert (0, True) == (warm.exit_status, mark.exists())
    assert SshFault.CONNECTION_LOST is run.result().fault
    assert run.result().phase in {SshPhase.CHANNEL_OPEN, SshPhase.EXEC_ACCEPTED}


async def test_a_status_before_the_answer_is_a_status(bench: Bench) -> None:
    seen = await against(bench, odd.status_before_answer)

    assert (None, 6) == (seen.fault, seen.exit_status)


# 2 - the exit status has 32 bits


@pytest.mark.parametrize("number", [0x100, 0xC0000100, 0xFFFFFFFF, 256 + 7, 0])
async def test_an_exit_status_is_not_cut_to_eight_bits(bench: Bench, number: int) -> None:
    seen = await against(bench, odd.status(number))

    assert (None, number) == (seen.fault, seen.exit_status)


async def test_a_second_status_takes_nothing_back(bench: Bench) -> None:
    seen = await against(bench, odd.two_statuses)

    assert 1 == seen.exit_status
    assert not seen.output_complete


@pytest.mark.parametrize(
    ("name", "told"),
    [("WINCH@example.com", "WINCH@example.com"), ("S" * 200_000, UNNAMED), ("TERM\x1b[2J", UNNAMED), ("", UNNAMED)],
)
async def test_a_signal_of_a_strange_name_is_a_signal(bench: Bench, name: str, told: str) -> None:
    """The name goes into envelope, log and ledger: one that is none, or has no end, is not repeated."""
    seen = await against(bench, odd.signal_called(name))

    assert (None, None, told) == (seen.fault, seen.exit_status, seen.exit_signal)


# 3 - only an answer proves a refusal


async def test_a_refusal_is_proven_by_its_answer(bench: Bench) -> None:
    seen = await against(bench, odd.refuse)

    assert SshFault.CHANNEL_REFUSED is seen.fault


async def test_a_channel_closed_without_an_answer_is_no_refusal(bench: Bench) -> None:
    seen = await against(bench, odd.close_unanswered)

    assert (SshPhase.CHANNEL_OPEN, SshFault.CHANNEL_LOST) == (seen.phase, seen.fault)


# 4 - a password is tried once


@pytest.mark.parametrize("methods", [("password",), ("keyboard-interactive",), ("password", "keyboard-interactive")])
async def test_a_rejected_password_is_not_tried_again(bench: Bench, methods: tuple[str, ...]) -> None:
    bench.logins.secret = password_secret("canary-password-1")
    async with odd_server(odd.status(0)) as server:
        server.methods = methods
        seen = await bench.run(odd_host(server), bare("true"))

    assert SshFault.LOGIN_REJECTED is seen.fault
    assert ["canary-password-1"] == server.answers


async def test_a_question_that_would_be_echoed_gets_no_password(bench: Bench) -> None:
    bench.logins.secret = password_secret("canary-password-1")
    async with odd_server(odd.status(0)) as server:
        server.methods = ("keyboard-interactive",)
        server.prompts = (("Your name: ", True),)
        seen = await bench.run(odd_host(server), bare("true"))

    assert (SshFault.LOGIN_REJECTED, []) == (seen.fault, server.answers)


async def test_words_without_a_question_are_not_read_for_ever(bench: Bench) -> None:
    bench.logins.secret = password_secret("canary-password-1")
    async with odd_server(odd.status(0)) as server:
        server.methods = ("keyboard-interactive",)
        server.prompts = ()
        seen = await bench.run(odd_host(server), bare("true"))

    assert (SshFault.LOGIN_REJECTED, []) == (seen.fault, server.answers)


# 5 - nothing of the user's is read


async def test_no_file_of_the_user_is_read(
    bench: Bench, server: Sshd, account: Account, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = tmp_path / "touched"
    (tmp_path / ".ssh").mkdir(mode=0o700)
    config = f'Match exec "touch {touched}"\nHost *\n  ProxyCommand touch {touched}\n'
    (tmp_path / ".ssh" / "config").write_text(config, encoding="utf-8")
    (tmp_path / ".ssh" / "known_hosts").write_text(lab.known_hosts(server), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = await bench.run(host(server.port, account.name), bare("true"))

    assert SshFault.HOST_KEY_UNKNOWN is seen.fault
    assert not touched.exists()


# 6 - the first use asks, and nothing was tried until it is answered


async def test_a_first_contact_shows_the_key_and_tries_no_login(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start()
    target = host(server.port, account.name, mode=HostKeyMode.ACCEPT_NEW)
    seen = await bench.executor.look_at_host(target)
    refused = await bench.run(target, bare("true"))
    tried = server.log()
    assert isinstance(seen, HostKeySeen)
    await bench.trust.remember(target, seen)
    accepted = await bench.run(target, bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_UNKNOWN, seen) == (refused.phase, refused.fault, refused.host_key)
    assert "userauth-request" not in tried
    assert (None, 0, seen) == (accepted.fault, accepted.exit_status, accepted.host_key)


async def test_another_key_than_the_one_that_was_shown_sees_no_login(bench: Bench) -> None:
    """The yes is for the key on the card: who answers there afterwards has to hold that one."""
    async with odd_server(odd.status(0)) as shown:
        seen = await bench.executor.look_at_host(host(shown.port, "u", mode=HostKeyMode.ACCEPT_NEW))
    assert isinstance(seen, HostKeySeen)
    async with odd_server(odd.status(0)) as other:
        target = host(other.port, "u", mode=HostKeyMode.ACCEPT_NEW)
        with bench.trust.provisionally(target, seen):
            ended = await bench.run(target, bare("true"))

        assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_CHANGED) == (ended.phase, ended.fault)
        assert ([], []) == (other.offered, other.commands)


async def test_a_server_with_another_kind_of_key_has_a_changed_key(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(RSA_ONLY)
    known = f"[127.0.0.1]:{server.port} {lab.public(lab.host_key('ed25519'))}\n"
    seen = await bench.run(host(server.port, account.name, known_hosts=known), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_CHANGED) == (seen.phase, seen.fault)
    assert seen.host_key is not None
    assert "ssh-rsa" == seen.host_key.algorithm


# 7 is in test_ssh_transfer.py and test_ssh_pool.py; 8 in test_ssh_faults.py


# 9 and 10 - markers


async def test_a_signal_of_the_wrapper_is_told_with_its_marker(bench: Bench, target: SshHost) -> None:
    command = b"sleep 65.5 & kill -9 $PPID; wait"
    operation = f"op_{os.urandom(12).hex()}"
    seen = await bench.run(target, Exec(command=command), operation_id=operation)
    found = await bench.run(target, LookUp(operation_id=operation, since=seen.store))

    assert ("KILL", MarkerState.STARTED) == (seen.exit_signal, seen.marker)
    assert found.finding is not None
    assert found.finding.found in {Found.ORPHAN, Found.DIED, Found.RUNNING}


async def test_an_id_runs_once_and_a_fenced_one_never(bench: Bench, target: SshHost, account: Account) -> None:
    count = account.home / "count"
    command = Exec(command=f"echo x >> {count}".encode())
    first = await bench.run(target, command, operation_id="op_" + "1" * 24)
    again = await bench.run(target, command, operation_id="op_" + "1" * 24)
    looked = await bench.run(target, LookUp(operation_id="op_" + "2" * 24, since=first.store))
    late = await bench.run(target, command, operation_id="op_" + "2" * 24)

    assert (MarkerState.STARTED, MarkerState.DUPLICATE, MarkerState.DUPLICATE) == (
        first.marker,
        again.marker,
        late.marker,
    )
    assert (98, 98) == (again.exit_status, late.exit_status)
    assert looked.finding is not None
    assert Found.NEVER_STARTED is looked.finding.found
    assert "x\n" == count.read_text(encoding="ascii")


async def test_the_store_is_known_before_the_first_command_is_sent(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, Exec(command=b"true"))

    assert seen.store is not None
    assert seen.store == bench.trust.stores[target.name]


@contextmanager
def blocked(account: Account) -> Iterator[None]:
    """No store can be made, in neither place."""
    fallback = Path(f"/var/tmp/.doorward-{account.uid}")  # noqa: S108 - where it would be else
    places = (account.home / ".doorward", fallback)
    for place in places:
        place.write_text("in the way", encoding="ascii")
    yield
    for place in places:
        place.unlink()


async def test_a_host_without_a_store_refuses_or_says_so(bench: Bench, lab: Lab, server: Sshd) -> None:
    account = lab.account("dash", mark="x")
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    with blocked(account):
        refused = await bench.run(target, Exec(command=b"echo ran"))
        preferred = await bench.run(target, Exec(command=b"echo ran", marker=MarkerMode.PREFERRED))

    assert (MarkerState.REFUSED_NO_STORE, 97, b"") == (refused.marker, refused.exit_status, refused.stdout)
    assert (MarkerState.NO_STORE, 0, b"ran\n") == (preferred.marker, preferred.exit_status, preferred.stdout)


async def test_the_preamble_is_no_output(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, Exec(command=b"echo out; echo err >&2"))

    assert (b"out\n", b"err\n", 4, 4) == (seen.stdout, seen.stderr, seen.stdout_bytes, seen.stderr_bytes)


async def test_collected_markers_are_those_of_settled_ids(bench: Bench, target: SshHost) -> None:
    from tests.fakes.ssh_calls import frozen, permit  # noqa: PLC0415 - for this test alone

    operation = f"op_{os.urandom(12).hex()}"
    await bench.run(target, Exec(command=b"true"), operation_id=operation)
    ticket = permit(frozen(target, Exec(command=b"true")))

    assert 1 == await bench.executor.collect(ticket, (operation,))
    assert 0 == await bench.executor.collect(ticket, ())
    await bench.executor.close_all()
    assert await bench.executor.collect(ticket, (operation,)) is None


async def test_a_probe_that_does_not_end_has_started_nothing(bench: Bench, lab: Lab, server: Sshd) -> None:
    """Such as in a home directory on a server that has gone: the end that is seen is by our own TERM."""
    assert is_root(), "no account to spoil can be made without root, so this is not tested here"
    account = lab.account("bash", mark="stuck")
    store = account.home / ".doorward"
    for folder in (store, store / "ops"):
        folder.mkdir(mode=0o700)
        os.chown(folder, account.uid, -1)
    os.mkfifo(store / "store")
    os.chown(store / "store", account.uid, -1)
    at = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    seen = await bench.run(at, Exec(command=b"touch mine"), deadlines=replace(QUICK, exec_s=1.0))

    assert (SshPhase.LOGGED_IN, SshFault.IDLE_TIMEOUT) == (seen.phase, seen.fault)
    assert not (account.home / "mine").exists()


async def test_a_lost_probe_has_started_nothing(bench: Bench) -> None:
    async with odd_server(odd.cut_unanswered) as server:
        seen = await bench.run(odd_host(server), Exec(command=b"touch mine"))

    assert (SshPhase.LOGGED_IN, SshFault.CONNECTION_LOST) == (seen.phase, seen.fault)
    assert [True] == ["probe" in command for command in server.commands]

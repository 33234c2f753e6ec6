"""The table of faults, line by line, on real servers: what broke, how far it had got, and what was seen of it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.ssh.frozen import MAX_COMMAND_BYTES, Exec, SshDeadlines
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import MarkerState, SshFault, SshOutcome, SshPhase
from tests.executors.ssh.conftest import Bench
from tests.fakes.ssh_calls import QUICK, bare, host, key_secret
from tests.live.sshd import FORCED, NO_SESSION, Account, Lab, Sshd, descendants, free_port, of_user, wait_until
from tests.live.tcp_cuts import How, cutting

pytestmark = pytest.mark.live

SHORT = replace(QUICK, connect_s=0.4, login_s=0.4, exec_s=0.4)


def ends(seen: SshOutcome) -> tuple[SshPhase, SshFault | None]:
    return seen.phase, seen.fault


async def started(account: Account, words: str) -> None:
    """Wait until a process of the account has these words in its command line."""

    def runs() -> bool:
        return any(words in command_line(pid) for pid in of_user(account.uid))

    await asyncio.to_thread(wait_until, runs, f"{words} runs")


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


# --- before anything started ---


async def test_a_name_that_does_not_exist(bench: Bench, target: SshHost) -> None:
    async def nowhere(name: str, port: int) -> list[str]:
        del name, port
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    bench.executor._lookup = nowhere
    seen = await bench.run(replace(target, address="nowhere.example.com"), bare("true"))

    assert (SshPhase.CONNECTING, SshFault.DNS_FAILED) == ends(seen)


async def test_a_port_that_nobody_listens_on(bench: Bench, account: Account) -> None:
    seen = await bench.run(host(free_port(), account.name), bare("true"))

    assert (SshPhase.CONNECTING, SshFault.CONNECT_REFUSED) == ends(seen)


async def test_a_host_that_does_not_answer_the_connection(bench: Bench, account: Account) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.settimeout(0)
            filler.connect_ex(("127.0.0.1", port))
        seen = await bench.run(host(port, account.name), bare("true"), deadlines=SHORT)
        for filler in fillers:
            filler.close()

    assert (SshPhase.CONNECTING, SshFault.CONNECT_TIMEOUT) == ends(seen)


async def speak(bench: Bench, account: Account, words: bytes, *, then_close: bool) -> SshOutcome:
    """An attempt against a listener that says these words to whoever connects."""
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(words)
            await writer.drain()
            if not then_close:
                await reader.read(-1)
            writer.close()
            await writer.wait_closed()
        gone.set()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        seen = await bench.run(host(port, account.name), bare("true"), deadlines=SHORT)
        await gone.wait()
    return seen


async def test_a_host_that_is_silent_after_it_accepted(bench: Bench, account: Account) -> None:
    seen = await speak(bench, account, b"", then_close=False)

    assert (SshPhase.CONNECTING, SshFault.LOGIN_TIMEOUT) == ends(seen)


async def test_a_host_that_accepts_and_hangs_up(bench: Bench, account: Account) -> None:
    seen = await speak(bench, account, b"", then_close=True)

    assert (SshPhase.CONNECTING, SshFault.LOST_DURING_LOGIN) == ends(seen)


async def test_a_host_that_speaks_http(bench: Bench, account: Account) -> None:
    seen = await speak(bench, account, b"HTTP/1.1 400 Bad Request\r\n\r\n", then_close=True)

    assert SshPhase.CONNECTING is seen.phase
    assert seen.fault in {SshFault.LOST_DURING_LOGIN, SshFault.NOT_SSH}


async def test_a_host_that_speaks_the_first_version(bench: Bench, account: Account) -> None:
    seen = await speak(bench, account, b"SSH-1.5-old\r\n", then_close=False)

    assert SshFault.NOT_SSH is seen.fault


async def test_a_host_that_hangs_up_after_its_version(bench: Bench, account: Account) -> None:
    seen = await speak(bench, account, b"SSH-2.0-brief\r\n", then_close=True)

    assert (SshPhase.BANNER, SshFault.LOST_DURING_LOGIN) == ends(seen)


async def test_a_wrong_key(bench: Bench, lab: Lab, target: SshHost) -> None:
    bench.logins.secret = key_secret(lab.key("stranger"))
    seen = await bench.run(target, bare("true"))

    assert (SshPhase.LOGIN, SshFault.LOGIN_REJECTED) == ends(seen)


async def test_an_unknown_user(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(replace(target, user="nobody-here"), bare("true"))

    assert (SshPhase.LOGIN, SshFault.LOGIN_REJECTED) == ends(seen)


async def test_a_server_that_gives_no_session(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(NO_SESSION)
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server)), bare("true"))

    assert (SshPhase.LOGGED_IN, SshFault.CHANNEL_REFUSED) == ends(seen)


BAD_COMMANDS = [b"", b"a\0b", b"x" * (MAX_COMMAND_BYTES + 1), b"x" * 30_000]


@pytest.mark.parametrize("command", BAD_COMMANDS, ids=["empty", "nul", "one-too-long", "30-kB"])
async def test_a_command_that_can_not_be_sent(bench: Bench, target: SshHost, command: bytes) -> None:
    seen = await bench.run(target, bare(command))

    assert (SshPhase.BUILT, SshFault.COMMAND_REFUSED) == ends(seen)
    assert 0 == bench.logins.asked


# --- something else than the command ran ---


async def test_an_account_that_may_not_log_in_runs_something_else(bench: Bench, lab: Lab, server: Sshd) -> None:
    account = lab.account("nologin")
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    seen = await bench.run(target, Exec(command=b"echo mine"))

    assert (MarkerState.MISSING, 1, None) == (seen.marker, seen.exit_status, seen.fault)
    assert b"not available" in seen.stdout


async def test_a_forced_command_runs_once_and_is_no_success(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(FORCED)
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    seen = await bench.run(target, Exec(command=b"echo mine"))

    assert (MarkerState.MISSING, 0, b"only this\n") == (seen.marker, seen.exit_status, seen.stdout)


# --- the ending was seen ---

STATUSES = [0, 1, 7, 126, 127, 128, 137, 255]


@pytest.mark.parametrize("status", STATUSES)
async def test_an_exit_status_is_the_command_s_own(bench: Bench, target: SshHost, status: int) -> None:
    seen = await bench.run(target, bare(f"exit {status}"))

    assert (SshPhase.CLOSED, None, status, None) == (seen.phase, seen.fault, seen.exit_status, seen.exit_signal)
    assert seen.output_complete


@pytest.mark.parametrize("signal", ["KILL", "SEGV", "TERM"])
async def test_a_signal_is_named_and_gives_no_status(bench: Bench, target: SshHost, signal: str) -> None:
    seen = await bench.run(target, bare(f"kill -{signal} $$"))

    assert (None, None, signal) == (seen.fault, seen.exit_status, seen.exit_signal)


async def test_output_is_bytes_and_the_two_streams_are_apart(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, bare(r"printf '\377\000a'; printf '\376b' >&2"))

    assert (b"\xff\x00a", b"\xfeb", 3, 2) == (seen.stdout, seen.stderr, seen.stdout_bytes, seen.stderr_bytes)


async def test_stdin_is_given_exactly_and_then_ends(bench: Bench, target: SshHost) -> None:
    octets = bytes(range(256)) * 512
    seen = await bench.run(target, bare("cat", stdin=octets), output_bytes=len(octets))
    none = await bench.run(target, bare("wc -c"))

    assert (octets, True) == (seen.stdout, seen.output_complete)
    assert b"0" == none.stdout.strip()


async def test_a_terminal_is_there_on_request_alone(bench: Bench, target: SshHost) -> None:
    without = await bench.run(target, bare("tty"))
    with_one = await bench.run(target, bare("tty", pty=True))

    assert (1, b"not a tty\n") == (without.exit_status, without.stdout)
    assert (0, b"/dev/pts/") == (with_one.exit_status, with_one.stdout[:9])


async def test_a_child_that_holds_the_output_leaves_it_incomplete(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, bare("sleep 60 & echo out; exit 4"))

    assert (None, 4, b"out\n", False) == (seen.fault, seen.exit_status, seen.stdout, seen.output_complete)
    assert SshPhase.EXITED is seen.phase


# --- the ending was not seen ---


@pytest.mark.parametrize("how", [How.RST, How.FIN])
async def test_a_connection_that_breaks_leaves_it_open(
    bench: Bench, by_port: Callable[[int], SshHost], server: Sshd, account: Account, how: How
) -> None:
    sleep = f"sleep 61.{1 if how is How.RST else 2}"
    with cutting(server.port) as proxy:
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(bench.run(by_port(proxy.port), bare(f"echo before; {sleep}")))
            await started(account, sleep)
            proxy.cut_now(how)
        seen = run.result()

    assert (SshPhase.OUTPUT, SshFault.CONNECTION_LOST) == ends(seen)
    assert (b"before\n", None, False) == (seen.stdout, seen.exit_status, seen.output_complete)


async def test_a_black_hole_is_found_by_keepalives(
    bench: Bench, by_port: Callable[[int], SshHost], server: Sshd, account: Account
) -> None:
    with cutting(server.port) as proxy:
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(bench.run(by_port(proxy.port), bare("sleep 62.5")))
            await started(account, "sleep 62.5")
            proxy.cut_now(How.BLACKHOLE)
            cut_at = asyncio.get_running_loop().time()
        seen = run.result()

    assert (SshPhase.EXEC_ACCEPTED, SshFault.CONNECTION_LOST) == ends(seen)
    assert asyncio.get_running_loop().time() - cut_at < 3


async def test_the_session_process_that_dies_leaves_it_open(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start()
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(bench.run(target, bare("sleep 63.5")))
        await started(account, "sleep 63.5")
        server.stop()

    assert (SshPhase.EXEC_ACCEPTED, SshFault.CONNECTION_LOST) == ends(run.result())


async def test_at_the_total_deadline_term_is_sent_and_what_came_back_is_told(bench: Bench, target: SshHost) -> None:
    deadlines = replace(QUICK, total_s=1.0)
    seen = await bench.run(target, bare("sleep 64.5"), deadlines=deadlines)

    assert (SshFault.TOTAL_TIMEOUT, "TERM", True) == (seen.fault, seen.exit_signal, seen.after_close)


async def test_a_command_that_ignores_term_is_not_called_ended(bench: Bench, target: SshHost) -> None:
    deadlines = replace(QUICK, idle_s=0.5)
    seen = await bench.run(target, bare("trap '' TERM; echo on; sleep 3; sleep 3"), deadlines=deadlines)

    assert (SshFault.IDLE_TIMEOUT, None, None) == (seen.fault, seen.exit_status, seen.exit_signal)
    assert (b"on\n", False) == (seen.stdout, seen.output_complete)


async def test_a_trickle_of_output_is_not_idle(bench: Bench, target: SshHost) -> None:
    deadlines = replace(QUICK, idle_s=0.6)
    seen = await bench.run(target, bare("for i in 1 2 3 4; do echo $i; sleep 0.3; done"), deadlines=deadlines)

    assert (None, b"1\n2\n3\n4\n") == (seen.fault, seen.stdout)


async def test_more_than_the_cap_is_counted_and_told(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, bare("head -c 500000 /dev/zero; exit 3"), output_bytes=1000)

    assert (None, 3, 1000, 500_000) == (seen.fault, seen.exit_status, len(seen.stdout), seen.stdout_bytes)
    assert not seen.output_complete


async def test_a_flood_is_cut_at_the_ceiling(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, bare("cat /dev/zero"), output_bytes=1000, deadlines=SshDeadlines())

    assert (SshFault.OVERFLOW, 1000) == (seen.fault, len(seen.stdout))
    assert seen.stdout_bytes <= 67_108_864
    assert not seen.output_complete


async def test_a_server_that_is_stopped_leaves_no_process_of_ours(lab: Lab) -> None:
    server = lab.start()
    pid = server.process.pid
    server.stop()

    wait_until(lambda: not descendants(pid), "all of the server ends")

"""Kept connections: reused for the same host, user and credential alone, and dropped for every reason there is."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from broker.core.gate import Permit
from broker.core.ssh.known_hosts import blob_of, fingerprint
from broker.core.ssh.model import HostKeyMode, SshHost
from broker.core.ssh.outcome import SshFault, SshOutcome, SshPhase
from broker.executors.ssh import SshExecutor
from broker.executors.ssh.login import Keepalive
from broker.executors.ssh.pool import PoolLimits
from tests.executors.ssh.conftest import QUICK_GRACES, Bench
from tests.fakes.ssh_calls import QUICK, OneLogin, Trusting, bare, frozen, key_secret, password_secret, permit
from tests.live.sshd import ONE_SESSION, PASSWORD, Account, Lab, Sshd, wait_until
from tests.live.tcp_cuts import CutProxy, How, cutting

pytestmark = pytest.mark.live


@pytest.fixture
def proxy(server: Sshd) -> Iterator[CutProxy]:
    """Counts connections on the way to the normal server."""
    with cutting(server.port) as made:
        yield made


@pytest.fixture
def counted(proxy: CutProxy, by_port: Callable[[int], SshHost]) -> SshHost:
    return by_port(proxy.port)


async def settled(check: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(wait_until, check, what)


def ticket(target: SshHost, command: str = "true", *, version: int = 1, term: int = 1) -> Permit:
    return permit(frozen(target, bare(command)), version=version, term=term)


async def many(bench: Bench, target: SshHost, count: int, command: str = "true") -> list[SshOutcome]:
    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(bench.run(target, bare(command))) for _ in range(count)]
    return [run.result() for run in runs]


async def test_one_login_serves_many_commands(bench: Bench, counted: SshHost, proxy: CutProxy) -> None:
    seen = [await bench.run(counted, bare(f"echo {number}")) for number in range(5)]

    assert [b"0\n", b"1\n", b"2\n", b"3\n", b"4\n"] == [one.stdout for one in seen]
    assert (1, 1) == (proxy.accepted, bench.logins.asked)
    assert "login" in seen[0].phase_ms
    assert "login" not in seen[1].phase_ms


async def test_another_version_term_user_or_pin_has_a_connection_of_its_own(
    bench: Bench, lab: Lab, counted: SshHost, proxy: CutProxy
) -> None:
    pin = fingerprint(blob_of(lab.public(lab.host_key("ed25519"))))
    pinned = replace(counted, trust=replace(counted.trust, mode=HostKeyMode.PINNED, pins=(pin,)))
    other_user = replace(counted, user=lab.account("dash").name)
    tickets = [ticket(counted), ticket(counted, version=2), ticket(counted, term=2), ticket(pinned), ticket(other_user)]
    seen = [await bench.executor.execute(one) for one in (*tickets, *tickets)]

    assert [0] * 10 == [one.exit_status for one in seen]
    assert len(tickets) == proxy.accepted


async def test_eight_commands_share_a_connection_and_more_take_another(
    bench: Bench, counted: SshHost, proxy: CutProxy
) -> None:
    first = await bench.run(counted, bare("true"))
    eight = await many(bench, counted, 8, "sleep 0.3")
    shared = proxy.accepted
    twenty = await many(bench, counted, 20, "sleep 0.3")

    assert (0, 1) == (first.exit_status, shared)
    assert [0] * 28 == [one.exit_status for one in (*eight, *twenty)]
    assert 3 == proxy.accepted


async def test_first_arrivals_wait_for_the_connection_that_is_being_made(
    bench: Bench, counted: SshHost, proxy: CutProxy
) -> None:
    seen = await many(bench, counted, 8, "sleep 0.2")

    assert ([0] * 8, 1) == ([one.exit_status for one in seen], proxy.accepted)


async def test_a_rejected_password_is_tried_once_for_all_who_wait(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(PASSWORD)
    bench.logins.secret = password_secret("canary-wrong-password")
    target = replace_port(lab, server, account)
    seen = await many(bench, target, 6)

    assert {SshFault.LOGIN_REJECTED} == {one.fault for one in seen}
    assert 1 == server.log().count("Failed password")


def replace_port(lab: Lab, server: Sshd, account: Account) -> SshHost:
    from tests.fakes.ssh_calls import host  # noqa: PLC0415 - the name is a fixture's word here

    return host(server.port, account.name, known_hosts=lab.known_hosts(server))


async def test_a_server_with_one_session_a_connection_serves_many_at_once(
    bench: Bench, lab: Lab, account: Account
) -> None:
    server = lab.start(ONE_SESSION)
    target = replace_port(lab, server, account)
    await bench.run(target, bare("true"))
    seen = await many(bench, target, 4, "sleep 0.5")

    assert [(None, 0)] * 4 == [(one.fault, one.exit_status) for one in seen]


@pytest.mark.parametrize("how", [How.RST, How.FIN])
async def test_a_kept_connection_that_died_is_replaced_before_anything_started(
    bench: Bench, counted: SshHost, proxy: CutProxy, how: How
) -> None:
    await bench.run(counted, bare("true"))
    proxy.cut_now(how)
    seen = await bench.run(counted, bare("echo again"))

    assert (None, b"again\n", 2) == (seen.fault, seen.stdout, proxy.accepted)


async def test_a_connection_that_dies_under_a_command_is_not_replaced(
    bench: Bench, counted: SshHost, proxy: CutProxy, account: Account
) -> None:
    mark = account.home / "twice"
    await bench.run(counted, bare("true"))
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(bench.run(counted, bare(f"echo x >> {mark}; sleep 2")))
        await settled(mark.exists, "the command runs")
        proxy.cut_now(How.RST)

    assert (SshFault.CONNECTION_LOST, 1) == (run.result().fault, proxy.accepted)
    assert "x\n" == mark.read_text(encoding="ascii")


SPOILING = [
    ("sleep 5", replace(QUICK, total_s=0.8)),
    ("sleep 5", replace(QUICK, idle_s=0.4)),
    ("cat /dev/zero", QUICK),
    ("head -c 500000 /dev/zero", QUICK),
    ("sleep 3 & true", QUICK),
]


@pytest.mark.parametrize(("command", "deadlines"), SPOILING, ids=["total", "idle", "flood", "cut", "held-open"])
async def test_a_connection_that_saw_too_much_or_too_little_takes_no_other_command(
    bench: Bench, counted: SshHost, proxy: CutProxy, command: str, deadlines: object
) -> None:
    assert isinstance(deadlines, type(QUICK))
    await bench.run(counted, bare(command), deadlines=deadlines, output_bytes=1000)
    after = await bench.run(counted, bare("echo clean"))

    assert (b"clean\n", 2) == (after.stdout, proxy.accepted)


async def drop(executor: SshExecutor, why: str) -> None:
    match why:
        case "lock":
            await executor.close_all()
        case "rotation":
            await executor.close_credential("deploy")
        case _:
            await executor.close_session("s-1")


@pytest.mark.parametrize("why", ["lock", "rotation", "session"])
async def test_what_ends_a_right_ends_its_connections_and_lets_commands_end(
    bench: Bench, counted: SshHost, proxy: CutProxy, account: Account, why: str
) -> None:
    mark = account.home / f"mark-{why}"
    async with asyncio.TaskGroup() as tasks:
        command = f"touch {mark}; sleep 0.7; echo done"
        run = tasks.create_task(bench.executor.execute(ticket(counted, command), session="s-1"))
        await settled(mark.exists, "the command runs")
        await drop(bench.executor, why)
    after = await bench.executor.execute(ticket(counted), session="s-2")

    assert (None, b"done\n") == (run.result().fault, run.result().stdout)
    assert (0, 2) == (after.exit_status, proxy.accepted)
    await settled(lambda: 1 == len(bench.executor._pool.links), "the old connection is closed")


async def test_a_connection_that_another_session_used_stays(bench: Bench, counted: SshHost, proxy: CutProxy) -> None:
    for session in ("s-1", "s-2"):
        await bench.executor.execute(ticket(counted), session=session)
    await bench.executor.close_session("s-1")
    await bench.executor.execute(ticket(counted), session="s-2")
    await bench.executor.close_credential("another")
    await bench.executor.execute(ticket(counted), session="s-2")

    assert 1 == proxy.accepted


async def with_limits(lab: Lab, target: SshHost, limits: PoolLimits, pause_s: float) -> SshExecutor:
    """An executor after a command, and a pause."""
    executor = SshExecutor(
        secrets=OneLogin(key_secret(lab.user_key)),
        trust=Trusting(),
        limits=limits,
        graces=QUICK_GRACES,
        keepalive=Keepalive(),
    )
    await executor.execute(ticket(target))
    await asyncio.sleep(pause_s)
    return executor


async def test_an_idle_connection_is_closed(lab: Lab, target: SshHost) -> None:
    executor = await with_limits(lab, target, PoolLimits(idle_s=0.2), 0)
    kept = len(executor._pool.links)
    await settled(lambda: not executor._pool.links, "the idle connection is closed")

    assert 1 == kept
    await executor.close()


async def test_an_old_connection_takes_no_new_command(lab: Lab, counted: SshHost, proxy: CutProxy) -> None:
    executor = await with_limits(lab, counted, PoolLimits(age_s=0.3), 0.4)
    await executor.execute(ticket(counted))

    assert 2 == proxy.accepted
    await executor.close()


async def test_there_is_a_bound_on_connections_and_the_idle_ones_give_way(
    lab: Lab, server: Sshd, target: SshHost
) -> None:
    executor = await with_limits(lab, target, PoolLimits(links=2), 0)
    for shell in ("dash", "fish", "tcsh"):
        user = lab.account(shell).name
        seen = await executor.execute(ticket(replace(target, user=user)))
        assert 0 == seen.exit_status

    assert 2 == len(executor._pool.links)
    assert server.port == target.port
    await executor.close()


async def test_who_finds_no_free_channel_in_time_has_started_nothing(lab: Lab, target: SshHost) -> None:
    executor = await with_limits(lab, target, PoolLimits(channels=1, links_per_key=1), 0)
    short = replace(QUICK, connect_s=0.1, login_s=0.2, exec_s=0.1)
    async with asyncio.TaskGroup() as tasks:
        long = tasks.create_task(executor.execute(ticket(target, "sleep 1.5")))
        await asyncio.sleep(0)
        late = tasks.create_task(executor.execute(permit(frozen(target, bare("true"), deadlines=short))))

    assert 0 == long.result().exit_status
    assert (SshPhase.BUILT, SshFault.EXEC_TIMEOUT) == (late.result().phase, late.result().fault)
    await executor.close()


async def test_a_cancelled_call_spoils_its_connection(
    bench: Bench, counted: SshHost, proxy: CutProxy, account: Account
) -> None:
    mark = account.home / "cancelled"
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(bench.run(counted, bare(f"touch {mark}; sleep 5")))
        await settled(mark.exists, "the command runs")
        run.cancel()
    after = await bench.run(counted, bare("echo clean"))

    assert (True, b"clean\n", 2) == (run.cancelled(), after.stdout, proxy.accepted)


async def test_frames_come_in_order_and_a_slow_listener_holds_the_command_back(bench: Bench, target: SshHost) -> None:
    heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    async def listen(stream: str, octets: bytes) -> None:
        await asyncio.sleep(0.001)
        heard[stream] += octets

    command = bare("seq 1 60000; echo end >&2")
    seen = await bench.executor.execute(permit(frozen(target, command, output_bytes=1000)), frames=listen)

    assert (0, 1000) == (seen.exit_status, len(seen.stdout))
    assert b"".join(b"%d\n" % number for number in range(1, 60_001)) == heard["stdout"]
    assert b"end\n" == heard["stderr"]


async def test_a_listener_that_has_gone_does_not_end_the_command(bench: Bench, target: SshHost) -> None:
    async def gone(stream: str, octets: bytes) -> None:
        raise ConnectionResetError(stream, len(octets))

    seen = await bench.executor.execute(permit(frozen(target, bare("echo a; sleep 0.2; echo b"))), frames=gone)

    assert (0, b"a\nb\n") == (seen.exit_status, seen.stdout)

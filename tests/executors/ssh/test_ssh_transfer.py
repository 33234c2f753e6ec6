"""Files over SFTP: whole or not at all, on real servers and on such as can do less."""

import asyncio
import hashlib
import random
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.ssh.frozen import Get, Put
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import Replaced, SshFault, SshOutcome, SshPhase, Transfer
from broker.executors.ssh.transfer import temporary
from tests.executors.ssh.conftest import Bench
from tests.fakes.sftp_servers import less_able, sftp_server
from tests.fakes.ssh_calls import QUICK, host
from tests.live.sshd import NO_SFTP, Account, Lab, Sshd
from tests.live.tcp_cuts import Cut, How, cutting

pytestmark = pytest.mark.live
# ruff: noqa: ASYNC240 - files of a few kilobytes on this machine

OLD = b"the old content\n" * 1000
NEW = random.Random(7).randbytes(600_000)  # noqa: S311 - content, not a secret
CUTS = 50


@pytest.fixture
def old(account: Account) -> Path:
    """A file of the account that is there already."""
    path = account.home / "kept.conf"
    path.write_bytes(OLD)
    shutil.chown(path, account.name, account.name)
    path.chmod(0o640)
    return path


def beside(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir() if entry.name.endswith(".part"))


def transfer_of(seen: SshOutcome) -> Transfer:
    assert seen.transfer is not None
    return seen.transfer


async def test_a_put_replaces_the_file_whole_and_keeps_its_mode(bench: Bench, target: SshHost, old: Path) -> None:
    seen = await bench.run(target, Put(path=str(old), content=NEW))

    assert (None, Replaced.YES, True) == (seen.fault, transfer_of(seen).replaced, transfer_of(seen).complete)
    assert (len(NEW), hashlib.sha256(NEW).hexdigest()) == (transfer_of(seen).size, transfer_of(seen).sha256)
    assert (NEW, 0o640, []) == (old.read_bytes(), stat.S_IMODE(old.stat().st_mode), beside(old))


async def test_a_new_file_is_private_unless_a_mode_is_given(bench: Bench, target: SshHost, account: Account) -> None:
    await bench.run(target, Put(path="new-private", content=b"x"))
    await bench.run(target, Put(path="new-open", content=b"", mode=0o755))

    modes = [stat.S_IMODE((account.home / name).stat().st_mode) for name in ("new-private", "new-open")]
    assert [0o600, 0o755] == modes
    assert b"" == (account.home / "new-open").read_bytes()


async def test_a_link_is_not_replaced(bench: Bench, target: SshHost, old: Path) -> None:
    link = old.with_name("link")
    link.unlink(missing_ok=True)
    link.symlink_to(old)
    seen = await bench.run(target, Put(path=str(link), content=NEW))

    assert (SshFault.REMOTE_FILE, Replaced.NO) == (seen.fault, transfer_of(seen).replaced)
    assert b"symbolic link" in seen.said
    assert (True, OLD) == (link.is_symlink(), old.read_bytes())


async def test_a_directory_is_no_target_and_no_source(bench: Bench, target: SshHost, account: Account) -> None:
    put = await bench.run(target, Put(path=str(account.home), content=NEW))
    got = await bench.run(target, Get(path=str(account.home)))

    assert (SshFault.REMOTE_FILE, SshFault.REMOTE_FILE) == (put.fault, got.fault)


@pytest.mark.parametrize("path", ["/proc/nothing/here", "/etc/doorward-may-not", "/root/x/y"])
async def test_a_place_that_can_not_be_written_is_told(bench: Bench, target: SshHost, path: str) -> None:
    seen = await bench.run(target, Put(path=path, content=NEW))

    assert (SshFault.REMOTE_FILE, Replaced.NO) == (seen.fault, transfer_of(seen).replaced)
    assert seen.said


async def test_a_file_of_another_owner_is_not_taken_over(bench: Bench, target: SshHost, account: Account) -> None:
    foreign = account.home / "foreign"
    foreign.write_bytes(OLD)  # as root
    seen = await bench.run(target, Put(path=str(foreign), content=NEW))

    assert (SshFault.REMOTE_FILE, OLD, []) == (seen.fault, foreign.read_bytes(), beside(foreign))


async def test_a_temporary_file_of_the_same_name_is_not_ours_to_touch(bench: Bench, target: SshHost, old: Path) -> None:
    operation = "op_" + "3" * 24
    strange = Path(temporary(str(old), operation))
    strange.write_bytes(b"somebody's")
    seen = await bench.run(target, Put(path=str(old), content=NEW), operation_id=operation)

    assert (SshFault.REMOTE_FILE, b"somebody's", OLD) == (seen.fault, strange.read_bytes(), old.read_bytes())
    strange.unlink()


async def test_an_upload_cut_anywhere_leaves_the_target_whole(
    bench: Bench, by_port: Callable[[int], SshHost], server: Sshd, old: Path
) -> None:
    """Cut at random points of the whole exchange: the target is the old file or the new one, and we know which."""
    points = random.Random(2024)  # noqa: S311 - where to cut
    with cutting(server.port) as proxy:
        await bench.run(by_port(proxy.port), Put(path=str(old), content=NEW))
        up, down = proxy.links[0].up, proxy.links[0].down
        ends = set()
        for number in range(CUTS):
            old.write_bytes(OLD)
            await bench.executor.close_all()
            is_up = number % 2 == 0
            point = points.randrange(2000, up if is_up else down)
            how = (How.RST, How.FIN)[number % 4 // 2]
            proxy.plan = Cut(how=how, up=point if is_up else None, down=None if is_up else point)
            seen = await bench.run(by_port(proxy.port), Put(path=str(old), content=NEW))
            content = old.read_bytes()
            replaced = Replaced.NO if seen.transfer is None else seen.transfer.replaced
            assert content in {OLD, NEW}, (number, point)
            assert (content == NEW) == (replaced is Replaced.YES) or replaced is Replaced.UNKNOWN, (number, point)
            ends.add(seen.fault)

    assert ends & {SshFault.CONNECTION_LOST, SshFault.LOST_DURING_LOGIN}
    for part in old.parent.glob(".doorward-*.part"):
        part.unlink()


async def test_a_rename_that_is_not_answered_is_settled_over_another_connection(bench: Bench, tmp_path: Path) -> None:
    for does_it, expected in ((True, Replaced.YES), (False, Replaced.NO)):
        path = tmp_path / "target"
        path.write_bytes(OLD)
        async with sftp_server(tmp_path, drops_rename=True, renames=does_it) as (port, keys):
            seen = await bench.run(host(port, "anybody", known_hosts=keys), Put(path="/target", content=NEW))

        assert expected is transfer_of(seen).replaced
        assert (NEW if does_it else OLD) == path.read_bytes()


async def test_a_rename_that_can_not_be_settled_stays_unknown(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(OLD)
    async with sftp_server(tmp_path, drops_rename=True, renames=True, serves=1) as (port, keys):
        deadlines = replace(QUICK, login_s=1.0)
        target = host(port, "anybody", known_hosts=keys)
        seen = await bench.run(target, Put(path="/target", content=NEW), deadlines=deadlines)

    assert (Replaced.UNKNOWN, SshFault.CONNECTION_LOST) == (transfer_of(seen).replaced, seen.fault)


async def test_a_server_that_can_not_replace_in_one_step_makes_new_files_alone(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(OLD)
    with less_able(posix_rename=False):
        async with sftp_server(tmp_path) as (port, keys):
            target = host(port, "anybody", known_hosts=keys)
            over = await bench.run(target, Put(path="/target", content=NEW))
            new = await bench.run(target, Put(path="/fresh", content=NEW))

    assert (SshFault.REMOTE_FILE, Replaced.NO) == (over.fault, transfer_of(over).replaced)
    assert (None, Replaced.YES) == (new.fault, transfer_of(new).replaced)
    assert (OLD, NEW) == ((tmp_path / "target").read_bytes(), (tmp_path / "fresh").read_bytes())
    assert [] == beside(tmp_path / "target")


async def test_what_arrives_changed_replaces_nothing(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(OLD)
    async with sftp_server(tmp_path, corrupts=True) as (port, keys):
        seen = await bench.run(host(port, "anybody", known_hosts=keys), Put(path="/target", content=NEW))

    assert (SshFault.REMOTE_FILE, Replaced.NO) == (seen.fault, transfer_of(seen).replaced)
    assert (b"what arrived is not what was sent", OLD) == (seen.said, (tmp_path / "target").read_bytes())


async def test_a_server_without_sftp_is_told_so(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(NO_SFTP)
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    put = await bench.run(target, Put(path="x", content=b"x"))
    got = await bench.run(target, Get(path="x"))

    assert [(SshPhase.LOGGED_IN, SshFault.NO_SFTP)] * 2 == [(one.phase, one.fault) for one in (put, got)]


async def test_an_account_without_a_shell_has_no_sftp(bench: Bench, lab: Lab, server: Sshd) -> None:
    account = lab.account("nologin")
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    seen = await bench.run(target, Get(path="x"))

    assert SshFault.NO_SFTP is seen.fault


async def test_a_get_reads_the_whole_file(bench: Bench, target: SshHost, old: Path) -> None:
    old.write_bytes(NEW)
    seen = await bench.run(target, Get(path=str(old)), output_bytes=len(NEW))

    assert (NEW, True, None) == (seen.stdout, seen.output_complete, seen.fault)
    assert (hashlib.sha256(NEW).hexdigest(), len(NEW)) == (transfer_of(seen).sha256, transfer_of(seen).size)


@pytest.mark.parametrize("gap_at", [0, 70_000, 300_000])
async def test_a_file_with_a_gap_is_not_whole(bench: Bench, tmp_path: Path, gap_at: int) -> None:
    """As where it is cut and written anew while it is read: what stands behind the gap is no continuation."""
    content = random.Random(7).randbytes(400_000)  # noqa: S311 - any bytes
    (tmp_path / "file").write_bytes(content)
    async with sftp_server(tmp_path, gap_at=gap_at) as (port, keys):
        seen = await bench.run(host(port, "u", known_hosts=keys), Get(path="file"), output_bytes=1_000_000)

    assert (SshFault.REMOTE_FILE, content[:gap_at]) == (seen.fault, seen.stdout)
    assert seen.transfer is not None
    assert (False, None) == (seen.transfer.complete, seen.transfer.sha256)


async def test_more_than_was_asked_for_is_no_file(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    async with sftp_server(tmp_path, babbles=True) as (port, keys):
        seen = await bench.run(host(port, "u", known_hosts=keys), Get(path="file"))

    assert (SshFault.REMOTE_FILE, b"", False) == (seen.fault, seen.stdout, seen.output_complete)


async def test_a_get_stops_at_its_cap_and_says_how_much_there_is(bench: Bench, target: SshHost, old: Path) -> None:
    old.write_bytes(NEW)
    seen = await bench.run(target, Get(path=str(old)), output_bytes=len(NEW) - 1)

    assert (NEW[:-1], len(NEW), False) == (seen.stdout, seen.stdout_bytes, seen.output_complete)
    assert (True, False, None) == (transfer_of(seen).cut, transfer_of(seen).complete, transfer_of(seen).sha256)


async def test_files_without_a_size_are_read_to_their_end(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, Get(path="/proc/self/status"))

    assert (True, b"Name:") == (transfer_of(seen).complete, seen.stdout[:5])


async def test_a_device_without_an_end_is_no_file(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, Get(path="/dev/zero"))

    assert (SshFault.REMOTE_FILE, b"") == (seen.fault, seen.stdout)


async def test_a_file_that_is_not_there_is_told(bench: Bench, target: SshHost) -> None:
    seen = await bench.run(target, Get(path="not-here"))

    assert (SshFault.REMOTE_FILE, False) == (seen.fault, transfer_of(seen).complete)


async def test_a_transfer_into_a_black_hole_ends_and_replaces_nothing(
    bench: Bench, by_port: Callable[[int], SshHost], server: Sshd, old: Path
) -> None:
    with cutting(server.port) as proxy:
        proxy.plan = Cut(how=How.BLACKHOLE, up=300_000)
        deadlines = replace(QUICK, idle_s=0.3)
        seen = await bench.run(by_port(proxy.port), Put(path=str(old), content=NEW), deadlines=deadlines)

    assert seen.fault in {SshFault.IDLE_TIMEOUT, SshFault.CONNECTION_LOST}
    assert (Replaced.NO, OLD) == (transfer_of(seen).replaced, old.read_bytes())


async def test_two_puts_of_one_file_leave_one_of_them_whole(bench: Bench, target: SshHost, old: Path) -> None:
    one, two = b"1" * 300_000, b"2" * 300_000
    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(bench.run(target, Put(path=str(old), content=content))) for content in (one, two)]

    assert [Replaced.YES] * 2 == [transfer_of(run.result()).replaced for run in runs]
    assert old.read_bytes() in {one, two}

"""A command is noted with its store before it is sent, a detached one's output read back, a stream said to be whole."""

from dataclasses import replace

import pytest

from broker.core.ssh.frozen import Exec, LookUp
from broker.core.ssh.model import MarkerMode, SshHost
from broker.core.ssh.outcome import Finding, Found, SshOutcome, SshPhase, StoreSeen
from tests.executors.ssh.conftest import Bench
from tests.fakes.ssh_calls import bare, frozen, permit

pytestmark = pytest.mark.live


async def test_no_command_is_sent_before_it_is_noted_where_it_goes(bench: Bench, target: SshHost) -> None:
    """Each command's own store, also over a connection that was probed before; and where that fails none is sent."""
    noted: list[StoreSeen] = []

    async def bound(store: StoreSeen) -> None:
        noted.append(store)
        if len(noted) > 2:
            raise OSError("the disk failed")

    action = Exec(command=b"echo x", marker=MarkerMode.REQUIRED)
    tickets = [permit(frozen(target, action)) for _ in range(3)]
    first, second, third = [await bench.executor.execute(ticket, bound=bound) for ticket in tickets]

    assert [b"x\n", b"x\n", b""] == [seen.stdout for seen in (first, second, third)]
    assert [first.store] * 3 == noted
    assert third.phase is SshPhase.LOGGED_IN
    assert third.fault is not None
    found = await bench.run(target, LookUp(operation_id=tickets[2].correlation_id, since=first.store))
    assert Finding(found=Found.NEVER_STARTED, store=first.store) == found.finding


async def test_what_a_detached_command_wrote_comes_with_the_look_up_of_its_end(bench: Bench, target: SshHost) -> None:
    action = Exec(command=b"echo out; echo err >&2; exit 3", marker=MarkerMode.REQUIRED, detach=True)
    ticket = permit(frozen(target, action))
    seen = await bench.executor.execute(ticket)
    asked = LookUp(operation_id=ticket.correlation_id, since=seen.store, detached=True)
    whole, cut = [await bench.run(target, asked, output_bytes=size) for size in (100, 2)]
    bare = await bench.run(target, replace(asked, detached=False))

    assert (b"out\n", b"err\n", 4, 4, True) == _output(whole)
    assert (b"ou", b"er", 4, 4, False) == _output(cut)
    assert (b"", b"", 0, 0, False) == _output(bare)
    assert [(Found.FINISHED, 3, True)] * 2 + [(Found.FINISHED, 3, False)] == [
        (one.finding.found, one.finding.status, one.finding.spooled) for one in (whole, cut, bare) if one.finding
    ]


async def test_a_spool_that_is_not_there_leaves_the_end_that_was_found(bench: Bench, target: SshHost) -> None:
    ticket = permit(frozen(target, Exec(command=b"true", marker=MarkerMode.REQUIRED)))
    seen = await bench.executor.execute(ticket)
    asked = LookUp(operation_id=ticket.correlation_id, since=seen.store, detached=True)
    told = await bench.run(target, asked)

    assert Finding(found=Found.FINISHED, status=0, store=seen.store) == told.finding


def _output(seen: SshOutcome) -> tuple[bytes, bytes, int, int, bool]:
    return seen.stdout, seen.stderr, seen.stdout_bytes, seen.stderr_bytes, seen.output_complete


@pytest.mark.parametrize("listens", [True, False])
async def test_streamed_output_is_whole_where_the_listener_took_it_all(
    bench: Bench, target: SshHost, *, listens: bool
) -> None:
    async def sink(stream: str, octets: bytes) -> None:
        if not listens:
            raise ConnectionResetError(stream, len(octets))

    request = frozen(target, bare("head -c 300000 /dev/zero"), output_bytes=1000)
    seen = await bench.executor.execute(permit(request), frames=sink)

    assert (300_000, 1000) == (seen.stdout_bytes, len(seen.stdout))
    assert (listens, listens) == (seen.streamed, seen.output_complete)

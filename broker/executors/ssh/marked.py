"""Commands with a durable marker: the probe that comes before the first one on a connection, and the look-up after.

The probe is over before the command is sent, so a connection that is lost by it has started nothing of the operation.
A host that answers the probe with something else runs something else; the command is not sent there.
"""

import contextlib
import secrets as randomness
from collections.abc import Awaitable, Callable
from dataclasses import replace

from broker.core.ssh import lookup
from broker.core.ssh.frozen import Exec, LookUp
from broker.core.ssh.outcome import Finding, Found, MarkerState, SshFault, SshOutcome, StoreSeen
from broker.core.ssh.preamble import Preamble
from broker.core.ssh.wrapper import SPOOL_BYTES, parse_probe, probe, wrap
from broker.executors.ssh.attempt import Attempt
from broker.executors.ssh.command import Command, Graces, run
from broker.executors.ssh.faults import StoppedError
from broker.executors.ssh.frames import Outlet
from broker.executors.ssh.pool import Link

ANSWER_BYTES = 65_536
NONCE_BYTES = 16


async def run_marked(
    link: Link,
    action: Exec,
    *,
    operation_id: str,
    keep_bytes: int,
    attempt: Attempt,
    graces: Graces,
    outlet: Outlet | None,
    saw_store: Callable[[StoreSeen], Awaitable[None]],
) -> SshOutcome:
    """What was seen, of the command or of what answered in its place. `store` is set also where no preamble came.

    The store that it is sent into is told before, so that it is known whatever befalls us then.
    """
    found = await _store(link, attempt, graces)
    if isinstance(found, SshOutcome):
        return found
    if found is not None:
        await saw_store(found)
    nonce = randomness.token_hex(NONCE_BYTES)
    line = wrap(
        action.command,
        operation_id=operation_id,
        nonce=nonce,
        pty=action.pty,
        mode=action.marker,
        detach=action.detach,
        store=found,
    )
    preamble = Preamble(operation_id, nonce)
    command = Command(
        line=line.encode("utf-8"), stdin=action.stdin, pty=action.pty, keep_bytes=keep_bytes, clean=preamble
    )
    seen = await run(link.connection, command, attempt=attempt, graces=graces, outlet=outlet)
    if preamble.state is MarkerState.REFUSED_NO_STORE:
        link.store = None  # the store that the probe saw has gone; the next command looks anew
    return replace(seen, marker=preamble.state, store=preamble.store or found)


async def look_up(link: Link, action: LookUp, *, keep_bytes: int, attempt: Attempt, graces: Graces) -> SshOutcome:
    """What the host says became of an operation; of a detached one that has ended also what it wrote."""
    line = lookup.look_up(action.operation_id, since=action.since)
    command = Command(line=line.encode("utf-8"), keep_bytes=ANSWER_BYTES)
    seen = await run(link.connection, command, attempt=attempt, graces=graces)
    if seen.exit_status is None:
        return replace(seen, finding=Finding(found=Found.NO_ANSWER))
    finding = lookup.parse(seen.stdout, operation_id=action.operation_id, since=action.since)
    told = replace(seen, finding=finding, stdout=b"", stdout_bytes=0, output_complete=False)  # that was ours
    if finding.found is not Found.FINISHED or not action.detached:
        return told
    with contextlib.suppress(StoppedError):  # that it has ended is known whether or not its output can be had
        return await _with_spool(link, action, told, keep_bytes=keep_bytes, attempt=attempt, graces=graces)
    return told


async def _with_spool(
    link: Link, action: LookUp, told: SshOutcome, *, keep_bytes: int, attempt: Attempt, graces: Graces
) -> SshOutcome:
    line = lookup.spool(action.operation_id)
    command = Command(line=line.encode("utf-8"), keep_bytes=2 * SPOOL_BYTES + ANSWER_BYTES)
    seen = await run(link.connection, command, attempt=attempt, graces=graces)
    spool = lookup.parse_spool(seen.stdout, operation_id=action.operation_id)
    if spool is None or told.finding is None:
        return told
    return replace(
        told,
        finding=replace(told.finding, spooled=True),
        stdout=spool.stdout[:keep_bytes],
        stderr=spool.stderr[:keep_bytes],
        stdout_bytes=len(spool.stdout),
        stderr_bytes=len(spool.stderr),
        output_complete=spool.complete and not spool.cut and max(len(spool.stdout), len(spool.stderr)) <= keep_bytes,
        elapsed_ms=seen.elapsed_ms,
    )


async def _store(link: Link, attempt: Attempt, graces: Graces) -> StoreSeen | SshOutcome | None:
    """The store over this connection, None where the host can't have one, or what else answered the probe."""
    async with link.probing:
        if link.store is not None:
            return link.store
        command = Command(line=probe().encode("utf-8"), keep_bytes=ANSWER_BYTES)
        seen = await run(link.connection, command, attempt=attempt.aside(), graces=graces)
        if seen.exit_status is None and seen.exit_signal is None:
            raise StoppedError(seen.fault or SshFault.CHANNEL_LOST, "the probe of the marker store was not answered")
        answer = parse_probe(seen.stdout)
        if isinstance(answer, StoreSeen):
            link.store = answer
            return answer
        if answer is MarkerState.NO_STORE:
            return None
        if seen.after_close:  # ours is the end that it came to, as where a home directory does not answer
            raise StoppedError(seen.fault or SshFault.EXEC_TIMEOUT, "the probe of the marker store did not end")
    attempt.reach(seen.phase)
    return attempt.outcome(replace(seen, marker=MarkerState.MISSING))

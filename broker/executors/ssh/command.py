"""Runs one command on a connection: deadlines, what to do when they pass, and what was seen of the ending.

Nothing is assumed of a command that was not heard to end. At a deadline TERM is sent through the channel, then the
channel is closed; an ending that comes after that is marked so. Output past the cap is counted and dropped up to a
ceiling, where the channel is closed.
"""

import asyncio
import contextlib
from dataclasses import dataclass

import asyncssh

from broker.core.ssh.outcome import SshFault, SshOutcome, SshPhase
from broker.executors.ssh.attempt import Attempt
from broker.executors.ssh.channel import Cleaner, CommandChannel, Events, Stream
from broker.executors.ssh.connection import CheckedConnection
from broker.executors.ssh.faults import StoppedError, stopped
from broker.executors.ssh.frames import Outlet

CEILING_BYTES = 67_108_864  # of one command, both streams, kept or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Graces:
    """How long is waited for an answer to our own endings. after_exit: for output that others still hold open."""

    term_s: float = 2.0
    close_s: float = 1.0
    after_exit_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`line` is what the login shell is given. `clean` takes our own words out of the stream that they come on."""

    line: bytes
    stdin: bytes = b""
    pty: bool = False
    keep_bytes: int
    ceiling_bytes: int = CEILING_BYTES
    clean: Cleaner | None = None


async def run(
    connection: CheckedConnection,
    command: Command,
    *,
    attempt: Attempt,
    graces: Graces,
    outlet: Outlet | None = None,
) -> SshOutcome:
    """What was seen. Raises StoppedError where no channel was opened, so that nothing can have started."""
    events = Events(
        stdout=Stream(command.keep_bytes, command.clean if command.pty else None),
        stderr=Stream(command.keep_bytes, None if command.pty else command.clean),
        ceiling_bytes=command.ceiling_bytes,
        reach=attempt.reach,
        forward=None if outlet is None else outlet.offer,
    )
    channel = await _open(connection, attempt)
    late = by_us = False
    try:
        fault = await _start(connection, channel, events, command, attempt)
        if fault is None:
            if outlet is not None:
                outlet.attach(channel, events.heard)
            channel.give(command.stdin)
            fault = await _watch(events, attempt, graces, outlet)
            by_us = not events.closed
            late = await _end(channel, events, fault, graces)
    finally:
        if not events.closed:
            channel.abort()
    return _seen(connection, events, fault, attempt, late=late, by_us=by_us, is_streamed=outlet is not None)


async def _open(connection: CheckedConnection, attempt: Attempt) -> CommandChannel:
    try:
        channel = CommandChannel(connection)
        async with asyncio.timeout_at(attempt.by(attempt.deadlines.exec_s)):
            await channel.open()
    except TimeoutError:
        raise attempt.timed_out(SshFault.EXEC_TIMEOUT) from None
    except asyncssh.ChannelOpenError as cause:
        if connection.is_dead:
            raise StoppedError(SshFault.CONNECTION_LOST) from None
        raise StoppedError(SshFault.CHANNEL_REFUSED, cause.reason) from None
    except Exception as cause:  # noqa: BLE001 - every ending is a value; faults.py names the known ones
        raise stopped(cause, attempt.phase) from None
    return channel


async def _start(
    connection: CheckedConnection, channel: CommandChannel, events: Events, command: Command, attempt: Attempt
) -> SshFault | None:
    """What kept the command from being heard to be accepted, which does not say that it did not start."""

    def written() -> None:
        attempt.reach(SshPhase.CHANNEL_OPEN)

    try:
        async with asyncio.timeout_at(attempt.by(attempt.deadlines.exec_s)):
            if await channel.start(events, command.line, pty=command.pty, written=written):
                return None
    except TimeoutError:
        channel.terminate()
        return attempt.timed_out(SshFault.EXEC_TIMEOUT).fault
    except Exception as cause:  # noqa: BLE001 - likewise
        return stopped(cause, attempt.phase).fault
    if connection.is_dead:
        return SshFault.CONNECTION_LOST
    return SshFault.CHANNEL_REFUSED if channel.was_refused else SshFault.CHANNEL_LOST


async def _watch(events: Events, attempt: Attempt, graces: Graces, outlet: Outlet | None) -> SshFault | None:
    """Wait for the channel's end; the deadline that passed before, or the ceiling."""
    clock = asyncio.get_running_loop().time
    while not events.ended:
        events.news.clear()
        idle_s = graces.after_exit_s if events.has_exited else attempt.deadlines.idle_s
        try:
            async with asyncio.timeout_at(min(events.last_heard_s + idle_s, attempt.total_at_s)):
                await events.news.wait()
        except TimeoutError:
            if clock() >= attempt.total_at_s:
                return SshFault.TOTAL_TIMEOUT
            if outlet is not None and outlet.is_full:
                events.heard()  # it is we who don't listen
            elif clock() >= events.last_heard_s + idle_s:
                return SshFault.IDLE_TIMEOUT
    return SshFault.OVERFLOW if events.overflowed else None


async def _end(channel: CommandChannel, events: Events, fault: SshFault | None, graces: Graces) -> bool:
    """Close what is not closed; whether the command's ending came only then."""
    if events.closed:
        return False
    had_exited = events.has_exited
    if fault is not SshFault.OVERFLOW and not had_exited:
        channel.terminate()
        await _news(events, graces.term_s)
    channel.abort()
    await _news(events, graces.close_s)
    return events.has_exited and not had_exited


async def _news(events: Events, seconds: float) -> None:
    """Wait for the channel's end, at most so long."""
    until_s = asyncio.get_running_loop().time() + seconds
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until_s):
            while not events.closed:
                events.news.clear()
                await events.news.wait()


def _seen(
    connection: CheckedConnection,
    events: Events,
    fault: SshFault | None,
    attempt: Attempt,
    *,
    late: bool,
    by_us: bool,
    is_streamed: bool,
) -> SshOutcome:
    clean = events.closed and not by_us and events.loss is None and not connection.is_dead
    if events.has_exited and not late and fault is not SshFault.OVERFLOW:
        fault = None
    elif fault is None:
        fault = SshFault.CHANNEL_LOST if clean else SshFault.CONNECTION_LOST
    is_kept = events.stdout.is_whole and events.stderr.is_whole
    whole = fault is None and (events.at_eof or clean) and (is_kept or is_streamed)
    if clean and fault is None:
        attempt.reach(SshPhase.CLOSED)
    return attempt.outcome(
        SshOutcome(
            phase=attempt.phase,
            fault=fault,
            exit_status=events.status,
            exit_signal=events.signal,
            stdout=bytes(events.stdout.kept),
            stderr=bytes(events.stderr.kept),
            stdout_bytes=events.stdout.seen_bytes,
            stderr_bytes=events.stderr.seen_bytes,
            output_complete=whole,
            after_close=late,
        )
    )

"""Files over SFTP: put whole or not at all, get up to a cap.

A put writes beside its target, compares size and SHA-256 of what arrived, and only then renames over the target in one
step. Until the rename is asked for the target is untouched, whatever breaks. A link is not replaced. `settle` answers
for a rename that was not answered, and keeps it from happening late.
"""

import asyncio
import contextlib
import hashlib
import stat
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import asyncssh
from asyncssh.constants import FXF_CREAT, FXF_EXCL, FXF_READ, FXF_WRITE, OPEN_REQUEST_SESSION_FAILED

from broker.core.ssh.frozen import Get, Put
from broker.core.ssh.outcome import Replaced, SshFault, SshOutcome, SshPhase, Transfer
from broker.executors.ssh.attempt import Attempt
from broker.executors.ssh.connection import CheckedConnection
from broker.executors.ssh.faults import StoppedError, stopped

SLICE_BYTES = 262_144
BLOCK_BYTES = 32_768
REQUESTS = 16  # under way at once
PRIVATE = 0o600
PERMISSIONS = 0o7777
CLOSE_S = 2.0

_ABSENT = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)
_GONE = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class Far:
    """The far file system, each question to it with a deadline. `made`: a temporary file there is ours."""

    sftp: asyncssh.SFTPClient
    attempt: Attempt
    made: bool = False

    async def ask(self, answer: Awaitable[_Answer]) -> _Answer:
        """Raises StoppedError for silence and loss, asyncssh.SFTPError where the far side says no."""
        try:
            async with asyncio.timeout_at(self.attempt.by(self.attempt.deadlines.idle_s)):
                return await answer
        except TimeoutError:
            raise self.attempt.timed_out(SshFault.IDLE_TIMEOUT) from None
        except _GONE:
            raise StoppedError(SshFault.CONNECTION_LOST) from None
        except asyncssh.SFTPError:
            raise
        except Exception as cause:  # noqa: BLE001 - every ending is a value; faults.py names the known ones
            raise stopped(cause, self.attempt.phase) from None

    async def sort_of(self, path: str) -> asyncssh.SFTPAttrs | None:
        """What stands there, a link as itself; None where nothing does."""
        try:
            return await self.ask(self.sftp.lstat(path))
        except _ABSENT:
            return None


async def put(connection: CheckedConnection, action: Put, *, operation_id: str, attempt: Attempt) -> SshOutcome:
    """Raises StoppedError where no transfer could begin."""
    wanted = hashlib.sha256(action.content).hexdigest()
    transfer = Transfer(size=len(action.content), sha256=wanted)
    async with _far(connection, attempt) as far:
        beside = temporary(action.path, operation_id)
        try:
            old = await _target(far, action.path)
            mode = _mode(action, old)
            await _write(far, beside, action.content, mode=mode, owner=old)
            await _compare(far, beside, action.content, wanted)
        except (StoppedError, asyncssh.SFTPError) as cause:
            await _remove(far, beside, cause)
            return _ended(attempt, transfer, cause)
        try:
            await _replace(far, beside, action.path, is_new=old is None)
        except asyncssh.SFTPError as cause:
            await _remove(far, beside, cause)
            return _ended(attempt, transfer, cause)
        except StoppedError as cause:
            return _ended(attempt, replace(transfer, replaced=Replaced.UNKNOWN), cause)
    attempt.reach(SshPhase.CLOSED)
    done = replace(transfer, replaced=Replaced.YES, complete=True)
    return attempt.outcome(SshOutcome(phase=attempt.phase, transfer=done, output_complete=True))


async def get(connection: CheckedConnection, action: Get, *, cap_bytes: int, attempt: Attempt) -> SshOutcome:
    """The file in `stdout`, up to the cap. Raises StoppedError where no transfer could begin."""
    async with _far(connection, attempt) as far:
        content = bytearray()
        try:
            file = await _source(far, action.path)
            while len(content) <= cap_bytes:
                piece = await _piece(far, file, min(SLICE_BYTES, cap_bytes + 1 - len(content)), len(content))
                if not piece:
                    break
                attempt.reach(SshPhase.OUTPUT)
                content += piece
            size = (await far.ask(file.stat())).size
            await far.ask(file.close())
        except (StoppedError, asyncssh.SFTPError) as cause:
            return _ended(attempt, Transfer(size=None), cause)
    return _got(attempt, bytes(content), size, cap_bytes)


async def settle(
    connection: CheckedConnection, action: Put, seen: SshOutcome, *, operation_id: str, attempt: Attempt
) -> SshOutcome:
    """What became of the rename: with the temporary file taken away it can't happen any more; without, it has."""
    beside = temporary(action.path, operation_id)
    wanted = hashlib.sha256(action.content).hexdigest()
    transfer = seen.transfer or Transfer()
    async with _far(connection, attempt) as far:
        try:
            await far.ask(far.sftp.remove(beside))
        except _ABSENT:
            shown = await far.sort_of(action.path)
            if shown is None or not _is_file(shown) or shown.size != len(action.content):
                return seen
            await _compare(far, action.path, action.content, wanted)
            return replace(seen, fault=None, transfer=replace(transfer, replaced=Replaced.YES, complete=True))
    return replace(seen, transfer=replace(transfer, replaced=Replaced.NO))


def temporary(path: str, operation_id: str) -> str:
    """A name in the same directory that the operation alone has."""
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}.doorward-{operation_id}.part"


@asynccontextmanager
async def _far(connection: CheckedConnection, attempt: Attempt) -> AsyncIterator[Far]:
    sftp = await _start(connection, attempt)
    attempt.reach(SshPhase.EXEC_ACCEPTED)
    try:
        yield Far(sftp, attempt)
    finally:
        sftp.exit()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await sftp.wait_closed()


async def _start(connection: CheckedConnection, attempt: Attempt) -> asyncssh.SFTPClient:
    try:
        async with asyncio.timeout_at(attempt.by(attempt.deadlines.exec_s)):
            return await connection.start_sftp_client()
    except TimeoutError:
        raise attempt.timed_out(SshFault.EXEC_TIMEOUT) from None
    except asyncssh.ChannelOpenError as cause:
        if connection.is_dead:
            raise StoppedError(SshFault.CONNECTION_LOST) from None
        is_absent = cause.code == OPEN_REQUEST_SESSION_FAILED
        raise StoppedError(SshFault.NO_SFTP if is_absent else SshFault.CHANNEL_REFUSED, cause.reason) from None
    except asyncssh.SFTPError as cause:
        lost = connection.is_dead
        raise StoppedError(SshFault.CONNECTION_LOST if lost else SshFault.NO_SFTP, cause.reason) from None
    except Exception as cause:  # noqa: BLE001 - likewise
        raise stopped(cause, attempt.phase) from None


async def _source(far: Far, path: str) -> asyncssh.SFTPClientFile:
    """The open file. Raises StoppedError where that is no regular one: reading a pipe may have no end."""
    if not _is_file(await far.ask(far.sftp.stat(path))):
        raise StoppedError(SshFault.REMOTE_FILE, "this is no regular file")
    return await far.ask(_opened(far.sftp, path, FXF_READ))


async def _target(far: Far, path: str) -> asyncssh.SFTPAttrs | None:
    """What is to be replaced. Raises StoppedError where that is no regular file."""
    shown = await far.sort_of(path)
    if shown is not None and not _is_file(shown):
        kind = "a symbolic link" if stat.S_ISLNK(shown.permissions or 0) else "no regular file"
        raise StoppedError(SshFault.REMOTE_FILE, f"the target is {kind}, which is not replaced")
    return shown


def _mode(action: Put, old: asyncssh.SFTPAttrs | None) -> int:
    if action.mode is not None:
        return action.mode & PERMISSIONS
    return PRIVATE if old is None else (old.permissions or PRIVATE) & PERMISSIONS


async def _write(far: Far, beside: str, content: bytes, *, mode: int, owner: asyncssh.SFTPAttrs | None) -> None:
    file = await far.ask(_opened(far.sftp, beside, FXF_WRITE | FXF_CREAT | FXF_EXCL))
    far.made = True
    far.attempt.reach(SshPhase.OUTPUT)
    for start in range(0, len(content), SLICE_BYTES):
        await far.ask(file.write(content[start : start + SLICE_BYTES], start))
    mine = await far.ask(file.stat())
    if owner is not None and (owner.uid, owner.gid) != (mine.uid, mine.gid):
        await far.ask(file.setstat(asyncssh.SFTPAttrs(uid=owner.uid, gid=owner.gid)))
    await far.ask(file.setstat(asyncssh.SFTPAttrs(permissions=mode)))
    with contextlib.suppress(asyncssh.SFTPOpUnsupported):
        await far.ask(file.fsync())
    await far.ask(file.close())


async def _compare(far: Far, path: str, content: bytes, wanted: str) -> None:
    """Read what arrived. Raises StoppedError where it is not what was sent."""
    file = await far.ask(_opened(far.sftp, path, FXF_READ))
    arrived = hashlib.sha256()
    at = 0
    while at <= len(content):
        piece = await _piece(far, file, SLICE_BYTES, at)
        if not piece:
            break
        arrived.update(piece)
        at += len(piece)
    await far.ask(file.close())
    if at != len(content) or arrived.hexdigest() != wanted:
        raise StoppedError(SshFault.REMOTE_FILE, "what arrived is not what was sent")


async def _replace(far: Far, beside: str, path: str, *, is_new: bool) -> None:
    """One step. A server that can't do that may only make a file where there is none."""
    try:
        await far.ask(far.sftp.posix_rename(beside, path))
    except asyncssh.SFTPOpUnsupported:
        if not is_new:
            raise asyncssh.SFTPOpUnsupported("the host can't replace a file in one step") from None
        await far.ask(far.sftp.rename(beside, path))


async def _remove(far: Far, beside: str, cause: Exception) -> None:
    """Take the temporary file away, where there is still somebody to ask and it is ours."""
    if far.made and (not isinstance(cause, StoppedError) or cause.fault is SshFault.REMOTE_FILE):
        with contextlib.suppress(StoppedError, asyncssh.SFTPError):
            await far.ask(far.sftp.remove(beside))


async def _opened(sftp: asyncssh.SFTPClient, path: str, flags: int) -> asyncssh.SFTPClientFile:
    attributes = asyncssh.SFTPAttrs(permissions=PRIVATE) if flags & FXF_CREAT else asyncssh.SFTPAttrs()
    return await sftp.open(path, flags, attributes, encoding=None, block_size=BLOCK_BYTES, max_requests=REQUESTS)


async def _piece(far: Far, file: asyncssh.SFTPClientFile, size: int, at: int) -> bytes:
    """What stands there without a gap."""
    return await far.ask(_read(file, size, at))


async def _read(file: asyncssh.SFTPClientFile, size: int, at: int) -> bytes:
    """Block by block, for the library fills a gap with zeros."""
    spans = [(start, min(BLOCK_BYTES, at + size - start)) for start in range(at, at + size, BLOCK_BYTES)]
    blocks = await asyncio.gather(*(_block(file, *span) for span in spans), return_exceptions=True)
    piece = b""
    for block, (_, wanted) in zip(blocks, spans, strict=True):
        if isinstance(block, BaseException):
            raise block
        piece += block
        if len(block) < wanted:
            break
    return piece


async def _block(file: asyncssh.SFTPClientFile, start: int, size: int) -> bytes:
    """As much as there is. Raises StoppedError where more comes than was asked for."""
    block = b""
    while len(block) < size:
        answer: Any = await file.read(size - len(block), start + len(block))  # the stubs know of text alone
        if not answer:
            break
        block += bytes(answer)
    if len(block) > size:
        raise StoppedError(SshFault.REMOTE_FILE, "the host sent more of the file than was asked for")
    return block


def _is_file(shown: asyncssh.SFTPAttrs) -> bool:
    return stat.S_ISREG(shown.permissions or 0)


def _got(attempt: Attempt, content: bytes, size: int | None, cap_bytes: int) -> SshOutcome:
    is_cut = len(content) > cap_bytes
    kept = content[:cap_bytes]
    is_whole = not is_cut and (not size or size == len(content))  # some files say that they are empty, and are not
    if not is_cut:
        attempt.reach(SshPhase.CLOSED)
    transfer = Transfer(
        size=size, sha256=hashlib.sha256(kept).hexdigest() if is_whole else None, complete=is_whole, cut=is_cut
    )
    return attempt.outcome(
        SshOutcome(
            phase=attempt.phase,
            fault=None if is_whole or is_cut else SshFault.REMOTE_FILE,
            stdout=kept,
            stdout_bytes=len(content) if size is None else max(size, len(content)),
            output_complete=is_whole,
            transfer=transfer,
        )
    )


def _ended(attempt: Attempt, transfer: Transfer, cause: StoppedError | asyncssh.SFTPError) -> SshOutcome:
    end = cause if isinstance(cause, StoppedError) else StoppedError(SshFault.REMOTE_FILE, cause.reason)
    return replace(attempt.ended(end), transfer=transfer)

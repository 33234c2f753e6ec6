"""The process behind a connection, from the kernel and never from the client's word (Linux).

Taken by SO_PEERPIDFD where the kernel has it (6.5), else by SO_PEERCRED and pidfd_open, which can name a process that
was recycled in between; `peerpidfd_works` tells which, and `doorward doctor` says so. A peer that is gone, or lives
outside this process's pid namespace, is refused.
"""

import errno
import hashlib
import os
import select
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from broker.core.identity import PeerFacts, ProcessFacts
from broker.server import namespaces

SO_PEERPIDFD = getattr(socket, "SO_PEERPIDFD", 77)  # Python 3.11 has no constant
ANCESTORS_MAX = 32
ARGV_BYTES = 16_384
OUTSIDE = (
    "the caller lives outside this pid namespace and can't be told from others there; give its container a listener of "
    "its own: doorward listen --for NAME PATH"
)
_STACK = 25  # among the fields of /proc/PID/stat behind the name


class PeerError(Exception):
    """The peer can't be told. The message names the remedy."""


class Endpoint(Protocol):
    """The daemon's end of a connection: a socket, or what an event loop shows of one."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPeer:
    """Facts about a peer, and a pidfd that keeps naming the same process. The owner closes it."""

    facts: PeerFacts
    pidfd: int

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.pidfd)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def peerpidfd_works() -> bool:
    """Whether this kernel pins the peer of a connection by itself; else a recycled pid can mislead (see `doctor`)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            os.close(_pinned_by_kernel(ours))
        except OSError:
            return False
    return True


def inspect(connection: Endpoint, *, boot: str) -> PinnedPeer:
    """The process that connected, and its ancestors. Raises PeerError."""
    pidfd = _peer_pidfd(connection)
    try:
        process, parent = _read(pidfd)
        ancestors = _ancestors(pidfd, parent)
        theirs = namespaces.of_pid(process.pid)
        foreign = theirs is not None and theirs != namespaces.our_own()
        facts = PeerFacts(
            process=process,
            ancestors=ancestors,
            boot_id=boot,
            foreign_namespace=foreign,
            container=namespaces.container_of(process.pid) if foreign else None,
        )
        return PinnedPeer(facts=facts, pidfd=pidfd)
    except BaseException:
        os.close(pidfd)
        raise


def ourselves(*, boot: str) -> PeerFacts:
    """Facts of this very process, for what it does by itself; who started it is no part of that."""
    pidfd = os.pidfd_open(os.getpid())
    try:
        return PeerFacts(process=_read(pidfd)[0], ancestors=(), boot_id=boot)
    finally:
        os.close(pidfd)


def nobody_behind(process: ProcessFacts) -> PeerFacts:
    """Facts of no connection at all, for explaining what a policy would say to a name."""
    return PeerFacts(process=process, ancestors=(), boot_id="")


def alive(pidfd: int) -> bool:
    """Whether the process behind the pidfd has not exited."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


def open_process(pid: int, *, start_ticks: int, inode: int) -> int | None:
    """A pidfd of exactly this process, or None where it is gone or the pid names another one."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        same = os.fstat(pidfd).st_ino == inode if inode else _read(pidfd)[0].start_ticks == start_ticks
    except (OSError, PeerError):
        same = False
    if same and alive(pidfd):
        return pidfd
    os.close(pidfd)
    return None


def run_of(pid: int) -> tuple[int, ...] | None:
    """What a process executes now, as `ProcessFacts.run` says it; None where that can't be read."""
    try:
        status = os.stat(f"/proc/{pid}/exe")  # noqa: PTH116 - asked for on each request, and a Path costs as much again
        stack = int(_after_name(_contents(f"/proc/{pid}/stat"))[_STACK])
    except OSError:
        return None
    return (status.st_dev, status.st_ino, stack)


def _contents(path: str) -> bytes:
    """What one of the kernel's short files says."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def image_of(pid: int) -> tuple[int, ...] | None:
    """Names the content of what a process runs: another file, size or time of change is another image."""
    try:
        status = Path(f"/proc/{pid}/exe").stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def with_digest(process: ProcessFacts) -> ProcessFacts:
    """The same process with the SHA-256 of its executable, where that can be read."""
    try:
        with Path(f"/proc/{process.pid}/exe").open("rb") as image:
            return replace(process, exe_sha256=hashlib.file_digest(image, "sha256").hexdigest())
    except OSError:
        return process


def _peer_pidfd(connection: Endpoint) -> int:
    try:
        pidfd = _pinned_by_kernel(connection)
    except OSError as cause:
        if cause.errno == errno.ENOPROTOOPT:
            return _fallback_pidfd(connection, cause)
        # Some kernels answer so for a peer that is gone: its pid may name somebody else by now.
        raise PeerError("the process that connected has exited") from cause
    if not alive(pidfd):
        os.close(pidfd)
        raise PeerError("the process that connected has exited")
    return pidfd


def _pinned_by_kernel(connection: Endpoint) -> int:
    """Raises OSError; with ENOPROTOOPT where the kernel is older than 6.5."""
    pidfd: int = struct.unpack("=i", connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4))[0]
    os.set_inheritable(pidfd, False)  # noqa: FBT003 - positional-only
    return pidfd


def _fallback_pidfd(connection: Endpoint, cause: OSError) -> int:
    """Before Linux 6.5: the pid may have been recycled between connect and here, which is said in `doctor`."""
    pid: int = struct.unpack("=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    if pid <= 0:
        raise PeerError(OUTSIDE) from cause
    try:
        return os.pidfd_open(pid)
    except OSError as gone:
        raise PeerError("the process that connected has exited") from gone


def pid_of(pidfd: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="ascii").splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    raise PeerError("the kernel does not tell the pid of a pidfd")


def _read(pidfd: int) -> tuple[ProcessFacts, int]:
    """Facts of the process behind a pidfd, read through one directory descriptor, and its parent's pid."""
    pid = pid_of(pidfd)
    if pid == 0:
        raise PeerError(OUTSIDE)
    if pid < 0:
        raise PeerError("the process that connected has exited")
    try:
        directory = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as cause:
        raise PeerError("the process that connected has exited") from cause
    try:
        if not alive(pidfd):  # the pid could have been recycled before the open
            raise PeerError("the process that connected has exited")
        return _read_directory(directory, pid, pidfd)
    except OSError as cause:
        raise PeerError("the process that connected has exited") from cause
    finally:
        os.close(directory)


def _read_directory(directory: int, pid: int, pidfd: int) -> tuple[ProcessFacts, int]:
    fields = _after_name(_file(directory, "stat"))
    parent, start_ticks = int(fields[1]), int(fields[19])
    uid = 0
    for line in _file(directory, "status").splitlines():
        if line.startswith(b"Uid:"):
            uid = int(line.split()[2])
    exe, exe_id = _link(directory, "exe"), _stat_id(directory, "exe")
    facts = ProcessFacts(
        pid=pid,
        start_ticks=start_ticks,
        inode=_inode(pidfd),
        uid=uid,
        exe=exe,
        exe_id=exe_id,
        exe_here=namespaces.is_here(directory, exe, exe_id),
        argv=_argv(directory),
        cwd=_link(directory, "cwd"),
        stack=int(fields[_STACK]),
    )
    return facts, parent


def _after_name(stat: bytes) -> list[bytes]:
    """The fields behind the name, which may hold spaces and parentheses."""
    return stat[stat.rindex(b")") + 2 :].split()


def _inode(pidfd: int) -> int:
    """The inode that names a process for good (Linux 6.9); 0 where all anonymous descriptors share one."""
    anonymous = os.eventfd(0)
    try:
        status = os.fstat(pidfd)
        return 0 if status.st_dev == os.fstat(anonymous).st_dev else status.st_ino
    finally:
        os.close(anonymous)


def _ancestors(pidfd: int, parent: int) -> tuple[ProcessFacts, ...]:
    """Walk up one pinned process at a time; each child is looked at again after its parent was pinned."""
    found: list[ProcessFacts] = []
    held: list[int] = []
    child = pidfd
    try:
        while parent > 0 and len(found) < ANCESTORS_MAX:
            try:
                pinned = os.pidfd_open(parent)
            except OSError:
                break
            held.append(pinned)
            try:
                if not alive(child) or _read(child)[1] != parent:
                    break
                facts, above = _read(pinned)
            except PeerError:
                break
            found.append(facts)
            child, parent = pinned, above
    finally:
        for descriptor in held:
            os.close(descriptor)
    return tuple(found)


def _file(directory: int, name: str, limit: int = 8192) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


def _argv(directory: int) -> tuple[str, ...]:
    try:
        raw = _file(directory, "cmdline", ARGV_BYTES)
    except PermissionError:
        return ()
    return tuple(word.decode("utf-8", "backslashreplace") for word in raw.rstrip(b"\0").split(b"\0"))


def _link(directory: int, name: str) -> str | None:
    try:
        return os.fsdecode(os.readlink(name, dir_fd=directory)).encode("utf-8", "backslashreplace").decode("utf-8")
    except OSError:
        return None


def _stat_id(directory: int, name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name, dir_fd=directory)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)

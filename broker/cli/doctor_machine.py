"""Checks of the machine: the kernel's part in knowing peers, and what programs of the same user could do to us."""

import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import broker
from broker.cli.doctor_finding import Finding, fault, fine, warning
from broker.cli.own_cgroup import delegated
from broker.client.hardening import dumpable

SO_PEERPIDFD = 77  # Linux 6.5; Python 3.11 has no name for it


def machine(environ: Mapping[str, str], *, hardened: bool) -> Iterator[Finding]:
    yield from _kernel()
    yield _cgroups(delegated=delegated())
    yield from _hardening(hardened=hardened)
    yield _multiplexer(environ)
    yield _tiocsti(_read("/proc/sys/dev/tty/legacy_tiocsti"))
    yield _yama(_read("/proc/sys/kernel/yama/ptrace_scope"))
    yield _cores(_read("/proc/sys/kernel/core_pattern"))
    yield _installation()


def _kernel() -> Iterator[Finding]:
    if not sys.platform.startswith("linux"):
        yield warning(
            "kernel", f"{sys.platform}: untested; peers are known by pid alone", "run it on Linux 6.9 or newer"
        )
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            raw = ours.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4)
        except OSError:
            yield warning(
                "kernel",
                f"{os.uname().release} has no SO_PEERPIDFD: peers are known by pid and start time",
                "a kernel of 6.5 or newer closes the gap of re-used pids",
            )
            return
    (descriptor,) = struct.unpack("i", raw)
    try:
        inode = os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
    if _shares_inode(inode):
        yield warning(
            "kernel",
            f"{os.uname().release}: pidfds have no inode of their own; sessions hang on pid and start time",
            "a kernel of 6.9 or newer",
        )
    else:
        yield fine("kernel", f"{os.uname().release}: peers are known by pidfd")


def _cgroups(*, delegated: bool) -> Finding:
    if delegated:
        return fine("cgroups", "doorward run gives a tree a cgroup of its own, and a kill reaches its orphans by that")
    return warning(
        "cgroups",
        "cgroup v2 is not delegated where this was started: sessions revoke --kill reaches what is below the launcher",
        "start agents below your user's manager: systemd-run --user --scope -p Delegate=yes doorward run -- AGENT",
    )


def _shares_inode(inode: int) -> bool:
    other = os.pidfd_open(os.getppid()) if os.getppid() > 0 else -1
    if other < 0:
        return False
    try:
        return os.fstat(other).st_ino == inode
    finally:
        os.close(other)


def _hardening(*, hardened: bool) -> Iterator[Finding]:
    if hardened and not dumpable():
        yield fine("hardening", "human verbs and the daemon can't be looked into by the same user")
    else:
        yield fault(
            "hardening",
            "this process could not be made undumpable: others of the same user can read its memory",
            "run on Linux; in a container allow prctl",
        )
    if sys.flags.isolated:
        yield fine("isolation", "Python runs isolated (-I)")
    else:
        yield warning("isolation", "Python was not started with -I", "use the doorward script, not python -m")


def _multiplexer(environ: Mapping[str, str]) -> Finding:
    inside = [name for name in ("TMUX", "STY") if environ.get(name)]
    if inside:
        return warning(
            "terminal",
            f"this terminal runs inside a multiplexer (${inside[0]}): programs of yours can type into it",
            "open the approval screen in a terminal of its own",
        )
    return fine("terminal", "no multiplexer")


def _tiocsti(value: str | None) -> Finding:
    if value == "0":
        return fine("tiocsti", "programs can't fake key presses on a shared terminal")
    return warning(
        "tiocsti",
        "a program on the same terminal can fake key presses (TIOCSTI)",
        "sysctl dev.tty.legacy_tiocsti=0 (Linux 6.2 or newer)",
    )


def _yama(value: str | None) -> Finding:
    if value is not None and value != "0":
        return fine("yama", f"ptrace is restricted (ptrace_scope {value})")
    return warning(
        "yama",
        "programs of the same user can trace each other; ours are undumpable, your terminal is not",
        "sysctl kernel.yama.ptrace_scope=1",
    )


def _cores(pattern: str | None) -> Finding:
    if pattern is not None and pattern.startswith("|"):
        return fine("cores", "cores go to a program; ours leave none, they are undumpable")
    return fine("cores", "no core is left: RLIMIT_CORE is 0 in human verbs and the daemon")


def _installation() -> Finding:
    """Whether programs of the same user could change the code that the daemon runs next time."""
    places = {Path(broker.__file__).resolve().parent, Path(sys.executable), Path(sys.prefix)}
    writable = sorted(str(place) for place in places if os.access(place, os.W_OK))
    if not writable:
        return fine("installation", "this user can't change the installed code")
    if os.getuid() == 0:
        return warning("installation", "running as root: everything is writable", "run doorward as a user of its own")
    return warning(
        "installation",
        f"programs of the same user can change the code: {', '.join(writable)}",
        "install it for the system, owned by root",
    )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None

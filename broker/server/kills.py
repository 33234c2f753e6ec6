"""Ending the processes of a session, and saying what was reached and what may have escaped.

Of a tree everything is stopped before anything is killed, so that nothing forks away meanwhile and no death of a
parent hides a child; each process is pinned by a pidfd first, so that no other is hit for it. Where the tree has a
cgroup of its own, what left the tree for good is reached by that. Never ends the daemon itself, should it be in there.
"""

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from broker.contract.wire import JsonObject
from broker.core.identity import Span
from broker.server.cgroups import PASSES_MAX, Cgroup
from broker.server.peer import PeerError, alive, pid_of

CHILDREN = "/proc/{pid}/task/{task}/children"  # where the kernel was built to tell
LIMIT_S = 10.0
PINNED_MAX = 1024  # descriptors held at once; what is beyond is next
SETTLE_S = 0.002
_GONE = frozenset("ZX")
_AT_REST = frozenset("ZXTtD")  # what waits for the disk is stopped before it runs on
_LEFT_OUT = {
    Span.PROCESS: "Only this process was ended; what it started is no part of its session.",
    Span.CONNECTION: "Only this process was ended; what it started is no part of its session.",
    Span.CONTAINER: "The listener was ended, so nothing comes from there any more; the container's processes run on.",
}
BY_TREE = (
    "The tree has no cgroup of its own: what had left it before, handed to another service or forked away where nobody "
    "adopts it, could not be seen."
)
BY_CGROUP = "Only what had moved itself out of the tree and out of its cgroup as well could be missed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """How it was done (process, tree, cgroup, none), how many were ended, how many run on."""

    way: str
    processes: int
    left: int
    escape: str

    def to_json(self) -> JsonObject:
        return {"way": self.way, "processes": self.processes, "left": self.left, "escape": self.escape}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    parent: int
    start_ticks: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    live: dict[tuple[int, int], str]  # states by pid and start
    seen: set[int]  # the dead as well


@dataclass(slots=True, kw_only=True)
class _Hunt:
    """One tree under way to its end."""

    root: int
    root_pidfd: int
    deadline_s: float
    pinned: dict[tuple[int, int], int] = field(default_factory=dict)  # pidfds by pid and start
    out_of_reach: set[tuple[int, int]] = field(default_factory=set)
    zombies: set[int] = field(default_factory=set)  # of the root, which is stopped and buries none: no pid comes again
    ended: int = 0

    def walk(self) -> "_Walk":
        """What runs below the root now; neither this process nor what that started."""
        live: dict[tuple[int, int], str] = {}
        seen: set[int] = set()
        below = _children_of()
        open_ = [self.root]
        while open_:
            parent = open_.pop()
            children = set(below(parent)) - {os.getpid()}
            seen |= children
            for pid in children - self.zombies:
                stat = _stat_of(pid)
                if stat is not None and stat.state not in _GONE:
                    live[pid, stat.start_ticks] = stat.state
                    open_.append(pid)
                elif parent == self.root:
                    self.zombies.add(pid)
        return _Walk(live=live, seen=seen)

    def close(self) -> None:
        for pidfd in self.pinned.values():
            os.close(pidfd)
        self.pinned.clear()


def kill(pidfd: int, *, span: Span, cgroup: Cgroup | None, limit_s: float = LIMIT_S) -> Killed:
    """End what a session spans. `pidfd` is its anchor's. Blocks for at most about `limit_s`."""
    deadline_s = time.monotonic() + limit_s
    if span is not Span.TREE:
        sent = _send(pidfd, signal.SIGKILL)
        gone = sent and _dead_by([pidfd], deadline_s)
        return Killed(
            way="process" if sent else "none", processes=int(gone), left=int(not gone), escape=_LEFT_OUT[span]
        )
    try:
        hunt = _Hunt(root=pid_of(pidfd), root_pidfd=pidfd, deadline_s=deadline_s)
    except (PeerError, OSError):
        return Killed(way="none", processes=0, left=0, escape="Its first process had ended before; nothing was sent.")
    try:
        return _kill_tree(hunt, cgroup)
    finally:
        _send(pidfd, signal.SIGKILL)  # whatever happened: it must not stay behind, stopped
        hunt.close()


def _kill_tree(hunt: _Hunt, cgroup: Cgroup | None) -> Killed:
    if not _send(hunt.root_pidfd, signal.SIGSTOP):  # it adopts orphans as long as it is there, and must not run on
        return Killed(
            way="none", processes=0, left=1, escape="It belongs to another user, whom this daemon can't signal."
        )
    left = _end_below(hunt)
    by_cgroup = cgroup is not None and cgroup.exists()
    if cgroup is not None and by_cgroup:
        in_it = cgroup.members() - {os.getpid(), hunt.root}
        _empty(cgroup, hunt.deadline_s)
        hunt.ended += len({pid for pid in in_it if _is_live(pid)} - cgroup.members())
    _send(hunt.root_pidfd, signal.SIGKILL)
    gone = _dead_by([hunt.root_pidfd], hunt.deadline_s)
    if cgroup is not None and by_cgroup:
        cgroup.empty_by(hunt.deadline_s)
        left += len(cgroup.members() - {os.getpid()})
        cgroup.remove()
    return Killed(
        way="cgroup" if by_cgroup else "tree",
        processes=hunt.ended + gone,
        left=left + (not gone),
        escape=BY_CGROUP if by_cgroup else BY_TREE,
    )


def _end_below(hunt: _Hunt) -> int:
    """End what is below the root; how many run on.

    Nothing is left when two looks in a row find nobody alive and the same dead: whoever lives so shortly that both
    looks miss it leaves a body in between.
    """
    before: set[int] | None = None
    while True:
        found = hunt.walk()
        within = found.live.keys() - hunt.out_of_reach
        if (not within and found.seen == before) or time.monotonic() >= hunt.deadline_s:
            return len(found.live)
        before = found.seen
        if within:
            _stop_all(hunt)
            for pidfd in hunt.pinned.values():
                _send(pidfd, signal.SIGKILL)
            _dead_by(list(hunt.pinned.values()), hunt.deadline_s)
            hunt.ended += sum(not alive(pidfd) for pidfd in hunt.pinned.values())
            hunt.close()


def _stop_all(hunt: _Hunt) -> None:
    """Pin and stop what is below the root until nothing new is there and nothing moves."""
    while time.monotonic() < hunt.deadline_s and len(hunt.pinned) < PINNED_MAX:
        live = hunt.walk().live
        fresh = [key for key in live if key not in hunt.pinned and key not in hunt.out_of_reach]
        for key in fresh[: PINNED_MAX - len(hunt.pinned)]:
            _pin(hunt, key)
        if not fresh:
            if all(state in _AT_REST for key, state in live.items() if key in hunt.pinned):
                return
            time.sleep(SETTLE_S)


def _pin(hunt: _Hunt, key: tuple[int, int]) -> None:
    try:
        pidfd = os.pidfd_open(key[0])
    except OSError:
        return  # gone meanwhile
    stat = _stat_of(key[0])
    if stat is None or stat.start_ticks != key[1] or not alive(pidfd):
        os.close(pidfd)
    elif _send(pidfd, signal.SIGSTOP):
        hunt.pinned[key] = pidfd
    else:
        hunt.out_of_reach.add(key)
        os.close(pidfd)


def _empty(cgroup: Cgroup, deadline_s: float) -> None:
    """By the kernel at one stroke where it does that and we are not in there; else again and again by pidfds."""
    if os.getpid() not in cgroup.members() and cgroup.kill():
        return
    for _ in range(PASSES_MAX):
        pinned: dict[int, int] = {}
        for pid in cgroup.members() - {os.getpid()}:
            with suppress(OSError):
                pinned[pid] = os.pidfd_open(pid)
        still = cgroup.members()
        sent = [_send(pidfd, signal.SIGKILL) for pid, pidfd in pinned.items() if pid in still]
        _dead_by(list(pinned.values()), min(deadline_s, time.monotonic() + 1))
        for pidfd in pinned.values():
            os.close(pidfd)
        if not any(sent) or time.monotonic() >= deadline_s:
            return


def _send(pidfd: int, number: signal.Signals) -> bool:
    """False where it is gone or another user's."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    return True


def _dead_by(pidfds: list[int], deadline_s: float) -> bool:
    waiting = select.poll()
    left = set(pidfds)
    for pidfd in left:
        waiting.register(pidfd, select.POLLIN)
    while left:
        for pidfd, _ in waiting.poll(max(0, int((deadline_s - time.monotonic()) * 1000))):
            waiting.unregister(pidfd)
            left.discard(pidfd)
        if time.monotonic() >= deadline_s:
            break
    return not left


def _children_of() -> Callable[[int], list[int]]:
    """How to find the children of a process: told by the kernel, else by a look at all processes now."""
    if Path(CHILDREN.format(pid=os.getpid(), task=os.getpid())).exists():
        return _told_children
    found: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (stat := _stat_of(int(entry.name))) is not None:
            found.setdefault(stat.parent, []).append(int(entry.name))
    return lambda pid: found.get(pid, [])


def _told_children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/task"):
            with suppress(OSError):
                words = Path(CHILDREN.format(pid=pid, task=entry.name)).read_bytes().split()
                found += [int(word) for word in words]
    return found


def _is_live(pid: int) -> bool:
    stat = _stat_of(pid)
    return stat is not None and stat.state not in _GONE


def _stat_of(pid: int) -> _Stat | None:
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = told[told.rindex(b")") + 2 :].split()
    return _Stat(parent=int(fields[1]), start_ticks=int(fields[19]), state=fields[0].decode("ascii"))

"""Processes that stand for more than themselves: launchers of a tree, and listeners of a container.

Each is held by a pidfd and forgotten when it exits. They outlive a lock; no grant does.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from broker.core.identity import ProcessFacts, Span
from broker.server import cgroups
from broker.server.cgroups import Cgroup
from broker.server.peer import open_process
from broker.server.session import ProcessKey

LAUNCHERS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    pidfd: int
    cgroup: Cgroup | None


class Launchers:
    def __init__(self) -> None:
        self._known: dict[ProcessKey, Launcher] = {}
        self._holders: dict[ProcessKey, Span] = {}
        self._listeners: dict[ProcessKey, str] = {}

    @property
    def holders(self) -> Mapping[ProcessKey, Span]:
        """Which processes declared that all that they start is one session with them."""
        return self._holders

    @property
    def listeners(self) -> Mapping[ProcessKey, str]:
        """Which processes hand on what a container asks, and the name that was signed for each."""
        return self._listeners

    def __contains__(self, process: ProcessKey) -> bool:
        return process in self._known

    def cgroup(self, process: ProcessKey) -> Cgroup | None:
        known = self._known.get(process)
        return None if known is None else known.cgroup

    def add_tree(self, process: ProcessFacts) -> bool:
        """False where it is gone, or there are as many as there may be."""
        if process.key in self._holders:
            return True
        if process.key in self._listeners or not self._hold(process, cgroups.of_launcher(process.pid)):
            return False
        self._holders[process.key] = Span.TREE
        return True

    def add_listener(self, process: ProcessFacts, name: str) -> bool:
        """Likewise; and where it goes by another name already, or launched a tree."""
        if process.key in self._known:
            return self._listeners.get(process.key) == name
        if not self._hold(process, None):
            return False
        self._listeners[process.key] = name
        return True

    def close(self) -> None:
        for key in list(self._known):
            self._forget(key)

    def _hold(self, process: ProcessFacts, cgroup: Cgroup | None) -> bool:
        if len(self._known) >= LAUNCHERS_MAX:
            return False
        pidfd = open_process(process.pid, start_ticks=process.start_ticks, inode=process.inode)
        if pidfd is None:
            return False
        self._known[process.key] = Launcher(pidfd=pidfd, cgroup=cgroup)
        asyncio.get_running_loop().add_reader(pidfd, self._forget, process.key)
        return True

    def _forget(self, key: ProcessKey) -> None:
        self._holders.pop(key, None)
        self._listeners.pop(key, None)
        known = self._known.pop(key, None)
        if known is not None:
            asyncio.get_running_loop().remove_reader(known.pidfd)
            os.close(known.pidfd)

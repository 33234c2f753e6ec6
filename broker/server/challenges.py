"""Challenges: nonces that a signature has to name, and the control sessions that such a signature opened.

A nonce works once, for the process that asked for it, within a minute. A control session belongs to one process, held
by pidfd: it is gone with the process, and no later one of the same number finds it.
"""

import os
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass

from broker.server.peer import alive

NONCE_S = 60.0
NONCES_MAX = 4096
NONCES_PER_PROCESS = 64  # so that one process can't use up what others need
SESSIONS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSession:
    """A process that proved to hold an approver key."""

    key_id: str
    pidfd: int


class Challenges:
    """Nonces and control sessions by the process that they were given to."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._nonces: OrderedDict[str, tuple[Hashable, float]] = OrderedDict()  # the oldest first
        self._held: Counter[Hashable] = Counter()
        self._sessions: OrderedDict[Hashable, ControlSession] = OrderedDict()

    def issue(self, process: Hashable) -> str:
        now = self._monotonic_s()
        for nonce, (_, until) in list(self._nonces.items()):
            if until > now:
                break
            self._take(nonce)
        if self._held[process] >= NONCES_PER_PROCESS:
            self._take(next(nonce for nonce, (owner, _) in self._nonces.items() if owner == process))
        elif len(self._nonces) >= NONCES_MAX:
            self._take(next(iter(self._nonces)))
        fresh = secrets.token_hex(16)
        self._nonces[fresh] = (process, now + NONCE_S)
        self._held[process] += 1
        return fresh

    def use(self, nonce: str, process: Hashable) -> bool:
        """True once, for the process that the nonce was given to, while it is fresh."""
        owner, until = self._nonces.get(nonce, (None, 0.0))
        if owner != process:
            return False
        self._take(nonce)
        return self._monotonic_s() < until

    def open(self, process: Hashable, key_id: str, pidfd: int) -> None:
        """From now on this process may read what is sealed. The descriptor stays the caller's."""
        self.close(process)
        held = os.dup(pidfd)
        self._sessions[process] = ControlSession(key_id=key_id, pidfd=held)
        self._forget_dead()
        while len(self._sessions) > SESSIONS_MAX:
            self.close(next(iter(self._sessions)))

    def session(self, process: Hashable) -> ControlSession | None:
        found = self._sessions.get(process)
        if found is not None and not alive(found.pidfd):
            self.close(process)
            return None
        return found

    def close(self, process: Hashable) -> None:
        found = self._sessions.pop(process, None)
        if found is not None:
            with suppress(OSError):
                os.close(found.pidfd)

    def close_of(self, key_id: str) -> None:
        """Close the control sessions that this key opened."""
        for process, found in list(self._sessions.items()):
            if found.key_id == key_id:
                self.close(process)

    def close_all(self) -> None:
        for process in list(self._sessions):
            self.close(process)
        self._nonces.clear()
        self._held.clear()

    def __len__(self) -> int:
        """How many approvers' processes are there now."""
        self._forget_dead()
        return len(self._sessions)

    def _forget_dead(self) -> None:
        for process, found in list(self._sessions.items()):
            if not alive(found.pidfd):
                self.close(process)

    def _take(self, nonce: str) -> None:
        owner, _ = self._nonces.pop(nonce)
        self._held[owner] -= 1
        if self._held[owner] <= 0:
            del self._held[owner]

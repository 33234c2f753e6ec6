"""Challenges: nonces that a signature has to name, and the control sessions that such a signature opened.

A nonce works once, for the process that asked for it, within a minute. A control session belongs to one process.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

NONCE_S = 60.0
NONCES_MAX = 4096
SESSIONS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSession:
    """A process that proved to hold an approver key."""

    key_id: str
    opened_at_s: float


class Challenges:
    """Nonces and control sessions by the process that they were given to."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._nonces: OrderedDict[str, tuple[Hashable, float]] = OrderedDict()
        self._sessions: OrderedDict[Hashable, ControlSession] = OrderedDict()

    def issue(self, process: Hashable) -> str:
        nonce = secrets.token_hex(16)
        self._nonces[nonce] = (process, self._monotonic_s() + NONCE_S)
        while len(self._nonces) > NONCES_MAX:
            self._nonces.popitem(last=False)
        return nonce

    def use(self, nonce: str, process: Hashable) -> bool:
        """True once, for the process that the nonce was given to, while it is fresh."""
        owner, until = self._nonces.pop(nonce, (None, 0.0))
        return owner == process and self._monotonic_s() < until

    def open(self, process: Hashable, key_id: str) -> None:
        self._sessions[process] = ControlSession(key_id=key_id, opened_at_s=self._monotonic_s())
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

    def session(self, process: Hashable) -> ControlSession | None:
        return self._sessions.get(process)

    def close(self, process: Hashable) -> None:
        self._sessions.pop(process, None)

    def close_all(self) -> None:
        self._sessions.clear()
        self._nonces.clear()

    def __len__(self) -> int:
        return len(self._sessions)

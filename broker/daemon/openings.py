"""Openings of the vault that are under way or wait for their turn: a lock calls all of them off.

Whoever asks for a lock has it at once, however slow the disk is that an opening waits for.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from broker.server.faults import ControlError


class Openings:
    """Begun and called off on the event loop; a thread that opens looks at its own word alone."""

    def __init__(self) -> None:
        self._under_way: set[threading.Event] = set()

    @contextmanager
    def begin(self) -> Iterator[threading.Event]:
        """What is set once the opening is called off."""
        called_off = threading.Event()
        self._under_way.add(called_off)
        try:
            yield called_off
        finally:
            self._under_way.discard(called_off)

    def call_off(self) -> None:
        """What is asked for after this is not meant."""
        for called_off in self._under_way:
            called_off.set()


def refuse_called_off(called_off: threading.Event | None) -> None:
    """Raises ControlError."""
    if called_off is not None and called_off.is_set():
        raise ControlError(
            "vault_locked", "The vault was locked while it was being opened. Unlock it again if need be."
        )

"""The rung `keyring` of the log's anchor: its head, put into the OS keyring when an epoch begins and at the stop.

Written by a thread of its own, so that no record ever waits for the keyring. Best effort: what could not be put there
is a warning, and the anchor then lags behind, which proves less and is never wrong.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from broker.audit import AuditError
from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor
from broker.audit.verdict import Rung
from broker.core.secret import Secret
from broker.vault.keychain import Keychain, KeychainError

JOIN_S = 12.0  # a call that hangs, and the last one


class KeyringAnchor:
    """`head` gives the anchor to keep, or None while there is none to vouch for. Close it after the log."""

    def __init__(
        self, keychain: Keychain, log_id: str, *, head: Callable[[], Anchor | None], warn: Callable[[str], None]
    ) -> None:
        self._keychain = keychain
        self._item = f"audit-anchor/{log_id}"
        self._head = head
        self._warn = warn
        self.kept_seq: int | None = None
        """The record that the keyring holds as the head, as far as this process knows."""
        self._due = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="keyring-anchor", daemon=True)
        self._thread.start()

    def note(self) -> None:
        """The head has moved; it is put there soon. Waits for nothing."""
        self._due.set()

    def write(self, anchor: Anchor) -> None:
        """Put it there now. Never raises."""
        try:
            self._keychain.put(self._item, Secret(anchor.pack()))
        except KeychainError as error:
            self._warn(f"the head of the audit log is not anchored in the keyring: {error}")
        else:
            self.kept_seq = anchor.seq

    def held(self) -> HeldAnchor | None:
        """What is kept there, if anything can be told. Never raises."""
        try:
            line = self._keychain.get_public(self._item)
        except KeychainError as error:
            self._warn(f"the audit log was not held against the keyring: {error}")
            return None
        if line is None:
            return None
        with suppress(AuditError):
            anchor = Anchor.parse(line, source=Path("the keyring"))
            self.kept_seq = anchor.seq
            return HeldAnchor(rung=Rung.KEYRING, anchor=anchor)
        self._warn("what the keyring holds as the audit log's anchor is none; it was passed over")
        return None

    def close(self) -> None:
        """Put the last head there, and end the thread and the keyring's child."""
        self._closing = True
        self._due.set()
        self._thread.join(JOIN_S)
        self._keychain.close()

    def _run(self) -> None:
        while not self._closing:
            self._due.wait()
            self._due.clear()
            anchor = self._head()
            if anchor is not None:
                self.write(anchor)

"""Signed notes of the audit log's head, given out on request.

With the vault open they have the root's line too. Asking again while nothing was recorded gives the same note again,
so that nobody makes the log grow by asking. The note itself is in the log; who asked is not known to it.
"""

from broker.audit import AuditError
from broker.audit.checkpoint import parse_note
from broker.audit.writer import AuditWriter
from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject
from broker.server.faults import ControlError
from broker.vault import Vault


class Checkpoints:
    """One at a time: the caller keeps turns."""

    def __init__(self, writer: AuditWriter, vault: Vault) -> None:
        self._writer = writer
        self._vault = vault
        self._last: JsonObject | None = None
        self._head: tuple[int, str] | None = None  # where the log stood when the last one was written

    async def give(self) -> JsonObject:
        """Raises ControlError where the log can't be written."""
        root = self._vault.sign_as_root if self._vault.state is VaultState.READY else None
        countersigned = root is not None
        last = self._last
        if last is not None and self._head == self._writer.head and last["countersigned"] in {True, countersigned}:
            return last
        try:
            note = await self._writer.checkpoint(root)
        except AuditError as cause:
            raise ControlError("audit_unwritable", str(cause)) from None
        parsed = parse_note(note)
        if parsed is None:
            raise ControlError("internal", "The note that was written can't be read.")
        self._last = {"note": note.decode(), "size": parsed.size, "countersigned": countersigned}
        self._head = self._writer.head
        return self._last

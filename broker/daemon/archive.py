"""The Office's stores: operations in doubt, audit events.

What widens was signed before it came here; it is recorded with the key that signed.
"""

import asyncio
import threading
from collections.abc import Mapping

from broker.audit import AuditError
from broker.audit.reader import read_events
from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject
from broker.core.audit_query import AuditQuery
from broker.core.effects import effect_word
from broker.core.events import EventName
from broker.core.ledger import Attempt, AttemptState
from broker.core.policy.model import Policy
from broker.core.ssh.look_up_words import in_words
from broker.core.ssh.recall import look_ups, recalled
from broker.daemon.openings import refuse_called_off
from broker.daemon.policy_office import PolicyOffice
from broker.operations.ledger import LedgerError
from broker.operations.reconcile import settled_by_human
from broker.server.agent_routes import new_correlation_id
from broker.server.faults import ControlError
from broker.server.office import Signed
from broker.server.runs import Overloaded, Stopping
from broker.server.shapes import text_or_none
from broker.vault import Opened, QuarantineReason


class Archive(PolicyOffice):
    """The part of the Office that keeps things."""

    async def operations(self, state: str | None) -> JsonObject:
        if state not in {None, "in_doubt"}:
            raise ControlError("schema", "state: in_doubt was expected.")
        try:
            attempts = await self._at.ledger.in_doubt()
        except LedgerError as error:
            raise ControlError("vault_locked", str(error)) from None
        return {"operations": [self._operation(attempt) for attempt in attempts]}

    async def settle(self, signed: Signed) -> JsonObject:
        """A human's signed word on what became of an operation."""
        target, applied = str(signed.params["correlation_id"]), signed.params["as"] == "applied"
        try:
            async with self._at.ledger.settling:
                await self._settle(target, signed, applied=applied)
        except LedgerError as error:
            raise ControlError("vault_locked", str(error)) from None
        return {"correlation_id": target, "as": "applied" if applied else "not_applied"}

    async def _settle(self, target: str, signed: Signed, *, applied: bool) -> None:
        at = self._at
        attempt = await at.ledger.by_id(target)
        if attempt is None:
            raise ControlError("unknown", "There is no such operation. See: doorward operations list")
        if attempt.state is not AttemptState.IN_DOUBT:
            raise ControlError("settled", "This operation is not in doubt (any more).")
        correlation_id, reason = new_correlation_id(self._now()), text_or_none(signed.params, "reason")
        settlement = settled_by_human(attempt, correlation_id=correlation_id, applied=applied)
        await at.record(
            EventName.OPERATION_SETTLED, correlation_id, of=target, applied=applied, reason=reason, key=signed.key_id
        )
        await at.ledger.settle(target, settlement)

    async def reconcile(self, correlation_id: str) -> JsonObject:
        try:
            return await self._at.engine.reconcile_for_human(correlation_id)
        except (Overloaded, Stopping):
            raise ControlError("limit", "The broker has as much work as it takes, or is stopping.") from None

    async def audit_events(self, query: AuditQuery) -> JsonObject:
        return await self._at.reading.events(query)

    async def audit_activity(self, query: AuditQuery) -> JsonObject:
        return await self._at.reading.activity(query)

    async def audit_checkpoints(self, query: AuditQuery) -> JsonObject:
        return await self._at.reading.checkpoints(query)

    async def audit_sessions(self, query: AuditQuery) -> JsonObject:
        return await self._at.reading.sessions(query)

    async def diagnostic(self, reference: str) -> JsonObject:
        """The kept details of one failure, opened."""
        at = self._at
        if at.vault.state is not VaultState.READY:
            raise ControlError("vault_locked", "Details of failures are sealed while the vault is locked.")
        key = self._of_vault(at.vault.audit_sk)
        try:
            found = await asyncio.to_thread(at.diagnostics.show, reference, key)
        except AuditError as cause:
            raise ControlError("damaged", f"{cause}.") from None
        if found is None:
            raise ControlError("unknown", at.diagnostics.gone)
        return {"ref": reference, **found}

    async def audit_checkpoint(self) -> JsonObject:
        """A signed note of the log's head; with the vault open the root signs it too."""
        async with self._turn:  # no lock comes between the vault's state and its signature
            return await self._checkpoints.give()

    def _check(self, opened: Opened, called_off: threading.Event) -> QuarantineReason | None:
        """While unlocking: log and vault belong together, and neither has gone back behind what the other knows."""
        at = self._at
        if not at.pin.opened_by(opened.audit_keys().audit_sk):
            return QuarantineReason.AUDIT_MISMATCH
        try:
            found = at.watch.at_unlock(known=opened.known_damage(), head=opened.audit_head(), called_off=called_off)
            at.watch.refuse_unusable(found)
            reason = at.watch.reason(found)
            if reason is None and self._told_generation(opened, called_off) > opened.generation:
                self._warn("the audit log tells of a later vault than the one that is here")
                reason = QuarantineReason.GENERATION_WENT_BACK
        except AuditError as cause:  # that proves nothing against the vault, and nothing for it
            refuse_called_off(called_off)
            text = f"The audit log can't be used, so the vault stays locked: {cause}"
            raise ControlError("audit_unwritable", text) from None
        return reason

    def _told_generation(self, opened: Opened, called_off: threading.Event) -> int:
        """The latest vault that the log tells of since the head that this one remembers. Raises AuditError.

        Raises ControlError where the opening is called off: that head may lie far back.
        """
        known, generation, self._ledger_told = opened.audit_head(), 0, 0
        key, directory = opened.audit_keys().audit_sk, self._at.audit_paths.directory
        for _, told in read_events(directory, key, start_seq=known.seq if known else 0):
            refuse_called_off(called_off)
            self._ledger_told = max(self._ledger_told, _number_in(told, "ledger"))
            generation = max(generation, _number_in(told, "generation"))
        return generation

    def _operation(self, attempt: Attempt) -> JsonObject:
        return {
            "correlation_id": attempt.correlation_id,
            "state": attempt.state.value,
            "phase": "unrecorded" if attempt.envelope is None else str(attempt.envelope.get("code")),
            "operation": attempt.operation,
            "effect": _effect(self._at.rulebook.current(), attempt),
            "summary": attempt.summary,
            "agent": attempt.agent,
            "session_id": attempt.session_id,
            "sent_at_ms": attempt.started_at_ms,
            "read_back": _read_back(self._at.rulebook.current(), attempt),
            "change_key": attempt.change_key,
        }


def _effect(policy: Policy, attempt: Attempt) -> str:
    """What it would do, by the policy in force; a change that this declares no more is a write."""
    if recalled(attempt.args) is not None:
        return "RUN"
    service = policy.services.get(attempt.service)
    name = attempt.operation.removeprefix(f"{attempt.service}.")
    operation = None if service is None else service.operations.get(name)
    if operation is None:
        return "DELETE" if attempt.summary.startswith("DELETE ") else "WRITE"
    return effect_word(operation.effect, destructive=operation.destructive)


def _read_back(policy: Policy, attempt: Attempt) -> str | None:
    """What would be read to settle an attempt: the declared operation, or what SSH left on its host."""
    name = attempt.operation.removeprefix(f"{attempt.service}.")
    if recalled(attempt.args) is not None:
        id_ = attempt.correlation_id
        ways = look_ups(policy, attempt.args, service=attempt.service, operation=name, correlation_id=id_)
        return in_words(ways[0]) if ways else None
    service = policy.services.get(attempt.service)
    operation = None if service is None else service.operations.get(name)
    return None if operation is None or operation.reconcile is None else operation.reconcile.operation


def _number_in(event: JsonObject, name: str) -> int:
    """A generation of vault or ledger that a record of the audit log tells of; 0 where it tells of none."""
    fields = event.get("fields")
    number = fields.get(name) if isinstance(fields, Mapping) else None
    return number if isinstance(number, int) else 0

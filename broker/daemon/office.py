"""The Office: what humans can have done through control.sock: the vault's state, approvals and sessions.

Policy is policy_office.py's, operations and audit events archive.py's, credentials are credentials.py's.
Each change is recorded durably before the answer; what takes away happens even where it can't be recorded.
"""

import asyncio
import os
import threading
from collections.abc import Hashable, Mapping
from contextlib import suppress

from broker.approvals.answers import Answer, AnswerRefused
from broker.audit import AuditError
from broker.audit.endorse import Sign
from broker.audit.seal import EpochReason
from broker.contract.openapi import document
from broker.contract.reasons import ApprovalState, LockReason, VaultState
from broker.contract.schemas import UnknownSchemaError, schema
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.daemon.credentials import told
from broker.daemon.log_watch import told_of
from broker.daemon.openings import refuse_called_off
from broker.daemon.people import PeopleOffice
from broker.daemon.unlock_ways import UnlockWays
from broker.operations.ledger import LedgerError
from broker.policyfiles.files import PolicyError
from broker.ports import AuditUnwritable
from broker.server.faults import ControlError
from broker.server.office import Refused, Signed
from broker.server.sessions import Ended
from broker.server.shapes import decoded, text_or_none
from broker.vault import Opened, QuarantineReason, VaultError, in_words, remedy
from broker.vault.unlocking import Given

FINGERPRINTS = "ledger/fingerprints"
SEALS = "ledger/seals"
EVIDENCE_FINGERPRINTS = "evidence/fingerprints"
EVIDENCE_SEALS = "evidence/seals"
EPOCH_WAIT_S = 1.0  # the log's writer goes on with it, whoever waits


class DaemonOffice(PeopleOffice, UnlockWays):
    """Implements server.office.Office."""

    @property
    def log_id(self) -> str:
        return self._at.vault.log_id

    @property
    def term(self) -> int:
        return self._at.vault.term

    def refused(self, refused: Refused) -> None:
        self._at.refusals.record(refused)

    def schema(self, name: str) -> JsonObject | None:
        try:
            return schema(name)
        except UnknownSchemaError:
            return None

    def openapi(self) -> JsonObject:
        return document("control")

    async def session_opened(self, key_id: str, pid: int) -> None:
        await self._at.record(EventName.CONTROL_OPENED, key=key_id, pid=pid)
        self._at.changed()

    async def status(self) -> JsonObject:
        at = self._at
        reason = at.vault.quarantine_reason
        return {
            "version": at.version,
            "log_id": self.log_id,
            "vault": {
                "state": at.custody.state.value,
                "term": at.vault.term,
                "kdf": at.vault.kdf.to_json(),
                "reason": None if reason is None else reason.value,
                "locked_for": self._locked_for,
                **self._open_words(),
                "methods": [method.value for method in at.vault.methods],
            },
            "policy": await self._policy_status(),
            "audit": at.watch.to_json(),
            "approvals": {"pending": at.desk.pending},
            "sessions": len(at.sessions),
            "frozen": at.sessions.frozen,
            "warnings": self._warnings(),
            "operations": {"in_doubt": await asyncio.to_thread(self._doubtful)},
            "desktop": at.desktop.to_json(),
        }

    async def unlock(self, kek: bytes | None) -> JsonObject:
        """Open the vault. What can't be recorded is not opened, nor what was locked meanwhile."""
        with self._openings.begin() as called_off:
            given = await self._given(kek, called_off)
            async with self._turn:
                refuse_called_off(called_off)
                was_open = self._at.vault.state is VaultState.READY  # in use, or about to be locked
                await self._open_vault(given, called_off)
                if not was_open:
                    try:
                        refuse_called_off(called_off)
                        await self._put_in_use(called_off)
                    except BaseException:
                        await self._lock(because=None)
                        raise
        self._at.changed()
        latest = self._at.watch.latest
        return self._state() if was_open or latest is None else {**self._state(), "audit": told_of(latest.inspection)}

    async def _open_vault(self, given: Given, called_off: threading.Event) -> None:
        at = self._at
        known = at.vault.quarantine_reason

        def check(opened: Opened) -> QuarantineReason | None:
            return self._check(opened, called_off)

        try:
            await asyncio.to_thread(at.vault.unlock, given.kek, share=given.share, check=check)
        except VaultError as error:
            await self._not_opened(error, "/v1/unlock", known=known is not None)
            raise told(error) from None

    async def _put_in_use(self, called_off: threading.Event) -> None:
        """Everything that hangs on the open vault; actions may run when all of it stands and no lock is waiting."""
        at = self._at
        at.ledger.unlock(
            seal_key=self._of_vault(lambda: at.vault.derived_key(SEALS)),
            fingerprint_key=self._of_vault(lambda: at.vault.derived_key(FINGERPRINTS)),
        )
        at.evidence.unlock(
            seal_key=self._of_vault(lambda: at.vault.derived_key(EVIDENCE_SEALS)),
            fingerprint_key=self._of_vault(lambda: at.vault.derived_key(EVIDENCE_FINGERPRINTS)),
        )
        try:
            at.rulebook.use(self._of_vault(at.vault.trusted_policy))
        except PolicyError as error:
            self._warn(f"the trusted policy does not load, so nothing is allowed: {error}")
        await self._look_at_ledger()
        await self._new_epoch(EpochReason.UNLOCK, root=at.vault.sign_as_root)
        self._post_verified()
        await at.record(EventName.VAULT_UNLOCKED, term=at.vault.term, generation=at.vault.generation)
        await self._remember_head()
        at.floods.summarise(afresh=True)  # who was refused for the lock's sake may ask again at once
        if not called_off.is_set():
            at.reading.open(self._of_vault(at.vault.audit_sk))
            at.custody.use()
            self._locked_for, self._open_since_ms = None, self._now()

    async def lock(self, reason: LockReason = LockReason.ASKED) -> JsonObject:
        """Lock, void cards, end sessions, drop connections; work in flight finishes. Locks even if not recorded."""
        self._close_down(Happening.LOCKED, Ended.LOCKED)  # at once, whatever else is under way
        self._openings.call_off()
        async with self._turn:
            await self._lock(because=reason)
        self._at.changed()
        return self._state()

    async def _lock(self, *, because: LockReason | None) -> None:
        at = self._at
        self._close_down(Happening.LOCKED, Ended.LOCKED)
        was_open, names = at.vault.state is VaultState.READY, self._credential_names()
        if was_open:
            await self._remember_head()
        with suppress(VaultError):  # locked in memory even where the new term could not be written
            await asyncio.to_thread(at.vault.lock)
        at.rulebook.forget()
        at.ledger.lock()
        at.evidence.lock()
        for name in names:
            await at.executor.close_credential(name)
        if was_open and because is not None:
            self._locked_for = because.value
            term, generation = at.vault.term, at.vault.generation
            await at.record(EventName.VAULT_LOCKED, term=term, generation=generation, reason=because.value)
            await self._epoch_of_lock()

    async def _epoch_of_lock(self) -> None:
        """Nobody waits long for it: the keyring that may keep its seed can be slow, and all else is done by then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(EPOCH_WAIT_S):
                await self._new_epoch(EpochReason.LOCK)

    async def _look_at_ledger(self) -> None:
        """Whether the ledger is the one that vault and log know; nothing runs else until a human has looked."""
        at, known = self._at, self._of_vault(self._at.vault.ledger_mark)
        try:
            why = await asyncio.to_thread(at.ledger.hold_against, known, told=self._ledger_told)
        except LedgerError as error:
            raise ControlError("internal", str(error)) from None
        if why is not None:
            self.distrust_ledger(why)

    def distrust_ledger(self, why: str) -> None:
        """What was in doubt may be forgotten, so nothing runs until a human's signed word."""
        if not self._at.sessions.frozen:
            self._freeze()
            self._post(EventName.DAEMON_FROZEN, why=why)

    async def freeze(self) -> JsonObject:
        was_frozen = self._at.sessions.frozen
        self._freeze()
        if not was_frozen:  # who says it again and again makes no log grow
            await self._at.record(EventName.DAEMON_FROZEN)
        return {"frozen": True}

    def _freeze(self) -> None:
        at = self._at
        at.sessions.frozen = True
        at.desk.void(Happening.FROZEN)
        at.sessions.end_all(Ended.FROZEN)
        at.changed()

    async def thaw(self, signed: Signed) -> JsonObject:
        """Let things run again; a ledger that was not trusted is taken as it is then."""
        at = self._at
        adopted = at.ledger.distrusted
        if adopted is None:
            await at.record(EventName.DAEMON_THAWED, key=signed.key_id)
        else:
            await at.record(EventName.DAEMON_THAWED, key=signed.key_id, ledger_adopted=adopted)
            await asyncio.to_thread(at.ledger.adopt)
            await self._remember_head()
        at.sessions.frozen = False
        at.changed()
        return {"frozen": False}

    def approvals(self, state: str | None) -> JsonObject:
        return {"approvals": list(self._at.desk.listing(state))}

    def approval(self, card_id: str, viewer: Hashable) -> JsonObject:
        try:
            waiting, served = self._at.desk.served(card_id, viewer)
        except AnswerRefused as refused:
            raise _refused(refused) from None
        return {
            "id": waiting.id,
            "state": waiting.state.value,
            "card": waiting.card,
            "card_digest": waiting.digest,
            "nonce": served.nonce,
            "arming_ms": waiting.card["arming_ms"],
            "served_at_ms": self._at.clock.now_ms(),
            "expires_at_ms": waiting.card["expires_at_ms"],
            "joined": waiting.joined,
        }

    async def decide(self, card_id: str, document: JsonObject, viewer: Hashable) -> JsonObject:
        statement, signature = document.get("statement"), document.get("signature")
        try:
            waiting = await self._at.desk.answer(
                card_id,
                Answer(
                    decision=str(document["decision"]),
                    scope=str(document.get("scope", "once")),
                    choice=text_or_none(document, "choice"),
                    confirm=text_or_none(document, "confirm"),
                    reason=text_or_none(document, "reason"),
                    statement=statement if isinstance(statement, Mapping) else None,
                    signature=None if signature is None else decoded(document, "signature"),
                ),
                viewer,
            )
        except AnswerRefused as refused:
            raise _refused(refused) from None
        except AuditUnwritable as cause:
            raise ControlError("audit_unwritable", str(cause)) from None
        except VaultError as error:
            raise told(error) from None
        if document.get("end_session") is True:
            self._at.sessions.end(waiting.question.session.id, Ended.REVOKED)
        denial = waiting.denial if waiting.state is ApprovalState.DENIED else {}
        return {"id": waiting.id, "state": waiting.state.value, **denial}

    async def _remember_head(self) -> None:
        at = self._at
        seq, head = at.writer.head
        try:
            segment, offset = await asyncio.to_thread(at.watch.place_of_head)
            await asyncio.to_thread(
                at.vault.remember_audit_head,
                seq,
                head,
                segment=segment,
                offset=offset,
                at_ms=self._now(),
                ledger=at.ledger.mark if at.ledger.distrusted is None else None,
            )
            at.watch.vault_seq = seq
        except VaultError as error:
            self._warn(f"the vault could not take the head of the audit log: {error}")

    async def _new_epoch(self, reason: EpochReason, *, root: Sign | None = None) -> None:
        """With the root the head that was verified is countersigned."""
        try:
            await self._at.writer.new_epoch(reason, root)
        except AuditError as cause:
            raise ControlError("audit_unwritable", str(cause)) from None

    def _doubtful(self) -> int:
        try:
            return self._at.ledger.doubtful
        except LedgerError as error:
            self._warn(str(error))
            return 0

    def _credential_names(self) -> list[str]:
        with suppress(VaultError):
            return [meta.name for meta in self._at.vault.credentials()]
        return []

    def _warnings(self) -> list[JsonValue]:
        at = self._at
        found = [*self._warned, *at.watch.warnings()]
        if at.writer.poisoned is not None:
            found.append(at.writer.poisoned)
        elif at.writer.endorsed and not at.writer.room():
            found.append("the disk of the audit log is nearly full; actions are refused until there is room")
        if at.diagnostics.fault is not None:
            found.append(at.diagnostics.fault)
        if at.ledger.distrusted is not None:
            found.append(
                f"{at.ledger.distrusted}: changes in doubt may be forgotten. Look at `doorward operations list` and "
                "`doorward audit show`; doorward thaw takes the ledger as it is"
            )
        if at.vault.quarantine_reason is not None:
            reason = at.vault.quarantine_reason
            found.append(f"the vault is quarantined ({reason.value}): {in_words(reason)}; {remedy(reason)}")
        if os.environ.get("TMUX") or os.environ.get("STY"):
            found.append("the daemon runs inside a terminal multiplexer that others of this user can type into")
        return list(found)

    def _state(self) -> JsonObject:
        return {"state": self._at.custody.state.value, "term": self._at.vault.term}


def _refused(refused: AnswerRefused) -> ControlError:
    recorded = refused.code != "unknown"  # the desk records what it knows a card of
    if refused.retry_after_ms is None:
        return ControlError(refused.code, str(refused), recorded=recorded)
    return ControlError(refused.code, str(refused), recorded=recorded, retry_after_s=refused.retry_after_ms / 1000)

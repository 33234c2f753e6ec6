"""The Office: what humans can have done through control.sock. State, approvals and sessions; stores are in archive.py.

Each change is recorded durably before the answer; what takes away happens even where it can't be recorded.
"""

import asyncio
import os
import signal
from collections.abc import Hashable, Mapping
from contextlib import suppress

from broker.approvals.answers import Answer, AnswerRefused
from broker.audit.seal import EpochReason
from broker.contract.openapi import document
from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.events import AuditEvent, EventName
from broker.core.secret import Secret
from broker.daemon.archive import Archive, told
from broker.policyfiles.files import PolicyError
from broker.ports import AuditUnwritable
from broker.server.faults import ControlError
from broker.server.office import Signed
from broker.server.sessions import Ended
from broker.vault import Fault, Opened, QuarantineReason, VaultError

FINGERPRINTS = "ledger/fingerprints"
SEALS = "ledger/seals"


class DaemonOffice(Archive):
    """Implements server.office.Office."""

    @property
    def log_id(self) -> str:
        return self._at.vault.log_id

    @property
    def term(self) -> int:
        return self._at.vault.term

    def refused_agent(self, agent: str, path: str) -> None:
        self._post(EventName.CONTROL_REFUSED, agent=agent, path=path)

    def openapi(self) -> JsonObject:
        return document("control")

    async def session_opened(self, key_id: str, pid: int) -> None:
        await self._at.record(EventName.CONTROL_OPENED, key=key_id, pid=pid)
        self._at.changed()

    async def status(self) -> JsonObject:
        at = self._at
        seq, _ = at.writer.head
        return {
            "version": at.version,
            "log_id": self.log_id,
            "vault": {"state": at.vault.state.value, "term": at.vault.term, "kdf": at.vault.kdf.to_json()},
            "policy": {
                "digest": at.rulebook.digest,
                "counter": at.rulebook.counter,
                "pending": await asyncio.to_thread(self._is_pending),
            },
            "audit": {"seq": seq, "anchored": at.writer.poisoned is None},
            "approvals": {"pending": at.desk.pending},
            "sessions": len(at.sessions),
            "frozen": at.sessions.frozen,
            "warnings": self._warnings(),
            "operations": {"in_doubt": at.ledger.doubtful},
        }

    async def unlock(self, kek: bytes) -> JsonObject:
        at = self._at
        try:
            await asyncio.to_thread(at.vault.unlock, Secret(kek), check=self._check)
        except VaultError as error:
            if error.fault in {Fault.WRONG_PASSPHRASE, Fault.TOO_SOON}:
                await at.record(EventName.VAULT_UNLOCK_FAILED, why=error.fault.value)
            elif error.fault is Fault.QUARANTINED:
                await at.record(EventName.VAULT_QUARANTINED, why=str(at.vault.quarantine_reason))
                at.changed()
            raise told(error) from None
        if self._open:
            return self._state()
        at.ledger.unlock(seal_key=at.vault.derived_key(SEALS), fingerprint_key=at.vault.derived_key(FINGERPRINTS))
        try:
            at.rulebook.use(at.vault.trusted_policy())
        except PolicyError as error:
            at.rulebook.use(None)
            self._warn(f"the trusted policy can't be read by this version, so nothing is allowed: {error}")
        self._open = True
        await at.writer.new_epoch(EpochReason.UNLOCK)
        await at.record(EventName.VAULT_UNLOCKED, term=at.vault.term, generation=at.vault.generation)
        await self._remember_head()
        at.changed()
        return self._state()

    async def lock(self) -> JsonObject:
        """Lock, void cards, end sessions, drop connections; work in flight finishes. Locks even if not recorded."""
        at = self._at
        if at.vault.state is VaultState.READY:
            await self._remember_head()
        names = self._credential_names()
        at.challenges.close_all()
        at.desk.void(Happening.LOCKED)
        at.sessions.end_all(Ended.LOCKED)
        was_open, self._open = self._open, False
        with suppress(VaultError):  # locked in memory even where the new term could not be written
            await asyncio.to_thread(at.vault.lock)
        at.rulebook.forget()
        at.ledger.lock()
        at.custody.forget()
        for name in names:
            await at.executor.close_credential(name)
        at.changed()
        if was_open:
            await at.record(EventName.VAULT_LOCKED, term=at.vault.term)
            await at.writer.new_epoch(EpochReason.LOCK)
        return self._state()

    async def freeze(self) -> JsonObject:
        at = self._at
        at.sessions.frozen = True
        at.desk.void(Happening.FROZEN)
        at.sessions.end_all(Ended.FROZEN)
        at.changed()
        await at.record(EventName.DAEMON_FROZEN)
        return {"frozen": True}

    async def thaw(self, signed: Signed) -> JsonObject:
        await self._at.record(EventName.DAEMON_THAWED, key=signed.key_id)
        self._at.sessions.frozen = False
        self._at.changed()
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
                    choice=_text(document, "choice"),
                    confirm=_text(document, "confirm"),
                    reason=_text(document, "reason"),
                    statement=statement if isinstance(statement, Mapping) else None,
                    signature=None if signature is None else self._decoded(document, "signature"),
                ),
                viewer,
            )
        except AnswerRefused as refused:
            raise _refused(refused) from None
        except AuditUnwritable as cause:
            raise ControlError("audit_unwritable", str(cause)) from None
        if document.get("end_session") is True:
            self._at.sessions.end(waiting.question.session.id, Ended.REVOKED)
        return {"id": waiting.id, "state": waiting.state.value}

    async def sessions(self) -> JsonObject:
        return {"sessions": list(self._at.sessions.listing())}

    async def revoke(self, session_id: str, *, kill: bool) -> JsonObject:
        sessions = self._at.sessions
        pidfd = sessions.pidfd(session_id)
        if pidfd is None:
            raise ControlError("unknown", "There is no such session. See: doorward sessions list")
        if kill:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        sessions.end(session_id, Ended.REVOKED)
        return {"id": session_id, "ended": True, "killed": kill}

    async def mute(self, session_id: str) -> JsonObject:
        if not self._at.sessions.mute(session_id, "muted by the human"):
            raise ControlError("unknown", "There is no such session. See: doorward sessions list")
        return {"id": session_id, "muted": True}

    async def unmute(self, session_id: str, signed: Signed) -> JsonObject:
        if not self._at.sessions.unmute(session_id):
            raise ControlError("unknown", "There is no such session. See: doorward sessions list")
        await self._at.record(EventName.SESSION_UNMUTED, session=session_id, key=signed.key_id)
        return {"id": session_id, "muted": False}

    async def grants(self) -> JsonObject:
        return {"grants": list(self._at.sessions.grant_listing())}

    async def revoke_grant(self, grant_id: str) -> JsonObject:
        if not self._at.sessions.drop_grants(grant_id=grant_id):
            raise ControlError("unknown", "There is no such grant. See: doorward grants list")
        self._at.changed()
        return {"id": grant_id, "ended": True}

    def _check(self, opened: Opened) -> QuarantineReason | None:
        """While unlocking: the vault's audit key is the pinned one, and the log has not gone back behind its memory."""
        if self._audit_public_key(opened.audit_keys().audit_sk) != self._at.pin.audit_key:
            return QuarantineReason.AUDIT_MISMATCH
        known = opened.audit_head()
        if known is not None and known.seq > self._at.writer.head[0]:
            return QuarantineReason.AUDIT_MISMATCH
        return None

    async def _remember_head(self) -> None:
        seq, head = self._at.writer.head
        try:
            await asyncio.to_thread(self._at.vault.remember_audit_head, seq, head)
        except VaultError as error:
            self._warn(f"the vault could not take the head of the audit log: {error}")

    def _credential_names(self) -> list[str]:
        with suppress(VaultError):
            return [meta.name for meta in self._at.vault.credentials()]
        return []

    def _warnings(self) -> list[JsonValue]:
        at = self._at
        found = list(self._warned)
        if at.writer.poisoned is not None:
            found.append(at.writer.poisoned)
        elif not at.writer.room():
            found.append("the disk of the audit log is nearly full; actions are refused until there is room")
        if at.vault.quarantine_reason is not None:
            found.append(f"the vault is quarantined: {at.vault.quarantine_reason.value}")
        if os.environ.get("TMUX") or os.environ.get("STY"):
            found.append("the daemon runs inside a terminal multiplexer that others of this user can type into")
        return list(found)

    def _is_pending(self) -> bool:
        if self._at.vault.state is not VaultState.READY:
            return False
        try:
            return self._at.rulebook.is_pending()
        except PolicyError:
            return True

    def _state(self) -> JsonObject:
        return {"state": self._at.vault.state.value, "term": self._at.vault.term}

    def _post(self, name: EventName, **fields: JsonValue) -> None:
        with suppress(AuditUnwritable):  # the refusal stands all the same
            self._at.journal.post(AuditEvent(name=name, at_ms=self._at.clock.now_ms(), fields=fields))


def _text(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _refused(refused: AnswerRefused) -> ControlError:
    more: dict[str, JsonValue] = {}
    if refused.retry_after_ms is not None:
        more["retry_after_s"] = refused.retry_after_ms / 1000
    return ControlError(refused.code, str(refused), **more)

"""The Office with the audit log under watch: verified at the start, quarantined for what is found, taken over again.

A quarantine is lifted by a human's signed word alone, over the very damage that was shown; what still can't be proven
behind it is kept sealed as known. Whatever goes wrong half-way leaves the vault quarantined.
"""

import asyncio
import logging
import threading
from contextlib import suppress

from broker.audit import AuditError
from broker.audit.inspection import FROM_OUTSIDE, Inspection
from broker.audit.verdict import VerdictName
from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.damage import KnownDamage
from broker.core.events import AuditEvent, EventName
from broker.daemon.credentials import told
from broker.daemon.log_watch import aged
from broker.daemon.office import DaemonOffice
from broker.daemon.openings import refuse_called_off
from broker.daemon.premises import Premises
from broker.daemon.readoption_words import lost, proven
from broker.daemon.session_office import SessionOffice
from broker.server.faults import ControlError
from broker.server.office import Claimed
from broker.server.sessions import Ended
from broker.vault import NEEDS_BACKUP, Opened, QuarantineReason, VaultError, in_words, remedy, verify
from broker.vault.unlocking import Given

LOG = logging.getLogger("doorward.daemon")
_LOSSES = frozenset(
    {
        QuarantineReason.AUDIT_TRUNCATED,
        QuarantineReason.AUDIT_ROLLBACK,
        QuarantineReason.AUDIT_WRONG_LOG,
        QuarantineReason.AUDIT_EMPTY_OR_MISSING,
    }
)
"""Reasons that tell a human of records that are gone."""


class WatchedOffice(SessionOffice, DaemonOffice):
    """Implements server.office.Office."""

    def __init__(self, premises: Premises) -> None:
        super().__init__(premises)
        self._transient: bool | None = None  # of a start that could not be recorded yet
        self._looked = asyncio.Event()  # the verification of the start has ended
        self._looking = asyncio.Lock()  # one at a time

    async def announce(self, *, transient: bool) -> None:
        """The first records of this run: that it started, what it recovered, and what it found in doubt."""
        at = self._at
        reason = at.watch.reason(None)
        if at.writer.suspended is not None:
            self._transient = transient
            LOG.warning("the audit log is not written to until a human takes it over")
            if reason is not None:
                await self._quarantine(reason)
            return
        recovered = str(at.writer.recovered or "")
        await at.record(EventName.DAEMON_STARTED, version=at.version, transient=transient, recovered=recovered)
        if (cut := at.writer.recovery) is not None:
            self._post(
                EventName.AUDIT_RECOVERED,
                segment=cut.segment,
                offset=cut.offset,
                bytes=cut.cut_bytes,
                sha256=cut.sha256.hex(),
                anchored_seq=cut.anchored_seq,
            )
        for correlation_id in await asyncio.to_thread(at.ledger.interrupted):
            at.journal.post(
                AuditEvent(
                    name=EventName.OPERATION_IN_DOUBT,
                    at_ms=self._now(),
                    correlation_id=correlation_id,
                    fields={"why": "the daemon ended before the outcome was recorded"},
                )
            )

    async def verify_at_start(self) -> None:
        """In the background: the whole log, held against the anchors of its start."""
        at = self._at
        try:
            found = await asyncio.to_thread(at.watch.at_start)
            self._post_verified()
            reason = at.watch.reason(found)
            async with self._turn:
                if reason is not None and at.vault.state is VaultState.LOCKED:
                    await self._quarantine(reason)
        except AuditError:
            LOG.warning("the audit log was not verified")  # why, the status says
        finally:
            self._looked.set()
        at.changed()

    async def quarantine(self) -> JsonObject:
        """Why nothing runs, and what it would be to take it over."""
        await self._looked.wait()
        async with self._looking:  # it may take an inspection, and anybody may ask
            reason = self._at.vault.quarantine_reason
            if reason is None:
                return {"state": self._at.custody.state.value, "reason": None}
            found = await self._found()
            reason = self._at.vault.quarantine_reason or reason
        verdict = None if found is None else found.judged
        return {
            "state": self._at.custody.state.value,
            "reason": reason.value,
            "words": in_words(reason),
            "remedy": remedy(reason),
            "adoptable": reason not in NEEDS_BACKUP,
            "lost": lost(reason, verdict),
            "proven": proven(verdict),
            "found": None if verdict is None else verdict.to_json(),
            "statement": self._params(reason, found),
        }

    async def readopt(self, kek: bytes, claimed: Claimed) -> JsonObject:
        """Take the vault over as it is, and the log with it, at a human's signed word."""
        with self._openings.begin() as called_off:
            given = await self._given(kek, called_off)
            async with self._turn:
                return await self._readopt(given, claimed, called_off)

    async def _readopt(self, given: Given, claimed: Claimed, called_off: threading.Event) -> JsonObject:
        at = self._at
        reason = at.vault.quarantine_reason
        if reason is None:
            raise ControlError("settled", "The vault is not quarantined; there is nothing to take over.")
        if reason in NEEDS_BACKUP:
            raise ControlError("damaged", f"The vault can't be taken over: {in_words(reason)}; {remedy(reason)}.")
        shown = await self._found(called_off)
        if dict(claimed.params) != self._params(reason, shown):
            raise ControlError("changed", "What was signed is not what is here now; look at it again.")
        await self._still(shown, called_off)
        key_id = await self._take_over(given, claimed, reason, shown, called_off)
        try:
            await self._go_on(reason, shown, key_id, called_off)
        except BaseException:
            if at.vault.state is VaultState.READY:  # else it is quarantined for what was found meanwhile
                await self._quarantine(reason)
            raise
        at.changed()
        return {**self._state(), "known": at.vault.known_damage() is not None, "frozen": at.sessions.frozen}

    async def _quarantine(self, reason: QuarantineReason) -> None:
        at = self._at
        self._close_down(Happening.LOCKED, Ended.LOCKED)
        await asyncio.to_thread(at.vault.quarantine, reason)
        at.rulebook.forget()
        at.ledger.lock()
        at.evidence.lock()
        self._post(EventName.VAULT_QUARANTINED, why=reason.value)
        at.changed()

    async def _found(self, called_off: threading.Event | None = None) -> Inspection | None:
        """What spoke against the log, or else what the latest inspection said. Raises ControlError."""
        watch = self._at.watch
        if watch.cause is not None:
            return watch.cause
        return await self._inspected(None, called_off) if watch.latest is None else watch.latest.inspection

    async def _inspected(self, known: KnownDamage | None, called_off: threading.Event | None) -> Inspection:
        try:
            found = await asyncio.to_thread(self._at.watch.again, known, called_off)
            self._at.watch.refuse_unusable(found)
        except AuditError as cause:
            refuse_called_off(called_off)
            raise ControlError("audit_unwritable", f"The audit log can't be used: {cause}") from None
        return found

    async def _still(self, shown: Inspection | None, called_off: threading.Event) -> None:
        """Raises ControlError where the log is not what was shown: a human takes over only what he has seen."""
        damage = None if shown is None else shown.damage
        now = await self._inspected(damage, called_off)
        if damage is None:
            same = not now.suspect
        elif damage.verdict in FROM_OUTSIDE:  # what the vault remembers is sealed: without it the log may well be whole
            same = now.intact and (not now.suspect or now.verdict.verdict.value == damage.verdict)
        else:
            same = now.known
        if not same:
            how = "look at it again" if now.suspect else "start the daemon again, and look"
            raise ControlError("changed", f"The audit log is not as it was shown any more; {how}.")

    async def _take_over(
        self,
        given: Given,
        claimed: Claimed,
        reason: QuarantineReason,
        shown: Inspection | None,
        called_off: threading.Event,
    ) -> str:
        """The vault, ready but in no use yet; the id of the key that signed. Raises ControlError."""
        signers: list[str] = []
        worse: list[QuarantineReason] = []

        def check(opened: Opened) -> int:
            signer = verify(opened.approver_keys(), claimed.message, claimed.signature)
            if signer is None:
                raise ControlError("bad_signature", "No enrolled approver key made this signature.")
            if not self._at.pin.opened_by(opened.audit_keys().audit_sk):
                raise ControlError("damaged", "The pin of the audit log is not this vault's: restore your copy of it.")
            if reason not in _LOSSES and (more := self._more_lost(opened, shown, called_off)) is not None:
                worse.append(more)
                raise _more_than_shown(more)
            signers.append(signer)
            with suppress(AuditError):
                return self._told_generation(opened, called_off)
            return 0

        try:
            await asyncio.to_thread(self._at.vault.readopt, given.kek, share=given.share, floor=check)
        except VaultError as error:
            await self._not_opened(error, "/v1/vault/readopt", known=True)
            raise told(error) from None
        except ControlError:
            if worse:
                await self._quarantine(worse[0])
            raise
        return signers[0]

    def _more_lost(
        self, opened: Opened, shown: Inspection | None, called_off: threading.Event
    ) -> QuarantineReason | None:
        """What only the opened vault can tell; the head that it remembers is forgotten by a takeover."""
        watch, head = self._at.watch, opened.audit_head()
        try:
            more = watch.lost_behind(head, shown)
            if more is not None:
                watch.at_unlock(  # so that the next look shows it
                    known=opened.known_damage(), head=head, called_off=called_off
                )
        except AuditError as cause:
            refuse_called_off(called_off)
            raise ControlError("audit_unwritable", f"The audit log can't be used: {cause}") from None
        return more

    async def _go_on(
        self, reason: QuarantineReason, shown: Inspection | None, key_id: str, called_off: threading.Event
    ) -> None:
        """The log goes on under the root's word, what stays broken is known, and everything is put in use."""
        at = self._at
        if at.writer.suspended is not None or not at.writer.endorsed or (shown is not None and shown.suspect):
            try:
                broken = shown is not None and shown.suspect and shown.judged.verdict not in FROM_OUTSIDE
                lineage = shown is not None and shown.unendorsed
                await at.writer.readopt(at.vault.sign_as_root, next_file=broken and not lineage)
            except AuditError as cause:
                raise ControlError("damaged", f"The audit log can't be taken over: {cause}") from None
        damage = await self._remaining(shown, called_off)
        at.watch.cause = None
        await self._vault_work(lambda: at.vault.remember_damage(damage))
        if self._transient is not None:
            await self.announce(transient=self._transient)
            self._transient = None
        verdict = None if shown is None else shown.judged
        await at.record(
            EventName.VAULT_READOPTED,
            why=reason.value,
            key=key_id,
            generation=at.vault.generation,
            **self._params(reason, shown),
            segment=None if verdict is None else verdict.segment,
            proven_to=None if verdict is None else verdict.proven_to,
            known=damage is not None,
        )
        await self._put_in_use(called_off)

    async def _remaining(self, shown: Inspection | None, called_off: threading.Event) -> KnownDamage | None:
        """What is broken for good, once the log goes on behind it."""
        at = self._at
        await asyncio.to_thread(at.watch.anchor_anew)
        found = await self._inspected(None, called_off)
        if not found.suspect or found.damage is None:
            at.watch.keep_copy(None)
            return None
        damage = aged(found.damage, self._now())
        behind = await self._inspected(damage, called_off)
        if behind.suspect or not _is_shown(damage, shown):
            new = at.watch.reason(found) or QuarantineReason.AUDIT_ALTERED
            await self._quarantine(new)
            raise _more_than_shown(new)
        at.watch.keep_copy(damage)
        return damage

    def _params(self, reason: QuarantineReason, found: Inspection | None) -> dict[str, JsonValue]:
        """What a human signs: the reason, the verdict and its place, and a digest of the bytes that are broken."""
        damage = None if found is None or not found.suspect else found.damage
        return {
            "reason": reason.value,
            "verdict": None if found is None else found.judged.verdict.value,
            "seq": None if found is None else found.judged.seq,
            "head": None if damage is None else damage.sha256,
        }


def _more_than_shown(reason: QuarantineReason) -> ControlError:
    text = f"More is wrong than was shown: {in_words(reason)}. Look again: doorward vault readopt"
    return ControlError("changed", text)


def _is_shown(damage: KnownDamage, shown: Inspection | None) -> bool:
    if shown is None or shown.damage is None:
        return False
    before = shown.damage
    if before.verdict == VerdictName.EMPTY_OR_MISSING:
        return True
    return (damage.verdict, damage.segment, damage.offset, damage.seq) == (
        before.verdict,
        before.segment,
        before.offset,
        before.seq,
    )

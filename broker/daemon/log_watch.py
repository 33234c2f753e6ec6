"""Watch over the audit log: what its verifications found, what they were held against, and what is told of them.

A verification runs in a child process, in the background at the start and, once more, while the vault is opened: then
it also knows the head that the vault remembers and the damage that a human took over. The copy of that damage which
lies beside the log in clear only keeps a start from calling a quarantine what was taken over: opening the vault asks
what is sealed.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from broker.audit import AuditError
from broker.audit.disk import LocalDisk, read_private_file, write_durably
from broker.audit.inspection import SUSPECT, Inspection, Inspector
from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor, AuditPaths
from broker.audit.reader import hash_of, stands_somewhere
from broker.audit.verdict import Rung, VerdictName
from broker.audit.writer import AuditWriter
from broker.client.places import Places
from broker.contract.wire import JsonValue, WireError, canonical, parse_object
from broker.core.damage import KnownDamage
from broker.daemon import disk_look
from broker.daemon.keyring_anchor import KeyringAnchor
from broker.daemon.log_reach import reach
from broker.vault import AuditHead, QuarantineReason
from broker.vault.keychain import Keychain

MAX_COPY_BYTES = 1 << 20
MAX_NOTICES = 20
_WELL = frozenset({VerdictName.OK, VerdictName.OK_UNANCHORED})
_NO_KEY = "0" * 64


class Notices:
    """What a human should know of the log's keeping, each thing once. Called from any thread."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def __call__(self, what: str) -> None:
        if len(self._told) < MAX_NOTICES:
            self._told[what] = None

    def listed(self) -> list[str]:
        return list(self._told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The latest inspection, and when it was made."""

    inspection: Inspection
    at_ms: int


class LogWatch:
    """One log, its writer, and everything that is known of it.

    `at_start`, `at_unlock` and `again` wait for an inspection, and for the keyring: call them in a thread.
    """

    def __init__(
        self,
        *,
        places: Places,
        paths: AuditPaths,
        writer: AuditWriter,
        inspector: Inspector,
        keychain: Keychain | None,
        anchor_at_start: HeldAnchor | None,
        notices: Notices,
        now_ms: Callable[[], int],
    ) -> None:
        """`anchor_at_start` is what the anchor's file held before the writer opened the log."""
        self._copy = places.known_damage
        self._paths = paths
        self._writer = writer
        self._inspector = inspector
        self._anchor_at_start = anchor_at_start
        self._now_ms = now_ms
        self.notices = notices
        self.latest: Watched | None = None
        self.cause: Inspection | None = None
        """The inspection that spoke against the log, until a human took it over."""
        self.failed: str | None = None
        """Why the latest inspection gave no verdict; None where it gave one."""
        self.vault_seq: int | None = None
        """The record that the vault remembers as the head, as far as was told here."""
        self.keyring = None
        if keychain is not None:
            self.keyring = KeyringAnchor(keychain, writer.log_id, head=self.head, warn=notices)

    def at_start(self) -> Inspection:
        """Raises AuditError."""
        first = [] if self._anchor_at_start is None else [self._anchor_at_start]
        return self._inspect([*first, *self._from_keyring()], self._copied())

    def at_unlock(
        self, *, known: KnownDamage | None, head: AuditHead | None, called_off: threading.Event
    ) -> Inspection:
        """Also held against the head that the vault remembers. Raises AuditError, soon where it is called off."""
        remembered = [] if head is None else [HeldAnchor(rung=Rung.VAULT, anchor=self._anchor_of(head))]
        self.vault_seq = None if head is None else head.seq
        return self._inspect([*self._from_file(), *self._from_keyring(), *remembered], known, called_off)

    def again(self, known: KnownDamage | None = None, called_off: threading.Event | None = None) -> Inspection:
        """Without the vault's word. Raises AuditError, soon where it is called off."""
        return self._inspect([*self._from_file(), *self._from_keyring()], known, called_off)

    def epoch_began(self) -> None:
        """The head goes to the keyring soon, once what was found there before was looked at."""
        if self.keyring is not None and self.latest is not None:
            self.keyring.note()

    def anchor_anew(self) -> None:
        """Put the head into the keyring in place of what was there, at a human's word. Never raises."""
        if self.keyring is not None:
            seq, h = self._writer.head
            self.keyring.write(self._anchor_of(AuditHead(seq=seq, h=h)))

    def stop(self) -> None:
        """Verify nothing any more."""
        self._inspector.stop()

    def close(self) -> None:
        """After the log's own end: its last head goes to the keyring."""
        if self.keyring is not None:
            self.keyring.close()

    def reason(self, inspection: Inspection | None) -> QuarantineReason | None:
        """Why nothing may run; None where nothing speaks against the log."""
        suspended = self._writer.suspended
        if suspended is not None and suspended.verdict in SUSPECT:
            return _reason(suspended.verdict)
        if inspection is None or not inspection.suspect:
            return None
        if inspection.unendorsed and suspended is None and not self._writer.endorsed:
            return QuarantineReason.AUDIT_UNENDORSED
        return _reason(inspection.judged.verdict)

    def lost_behind(self, head: AuditHead | None, shown: Inspection | None) -> QuarantineReason | None:
        """What the vault's memory says beyond what was shown: its head is gone, or another record has its number.

        Whoever cuts the log off can do something else to it besides, which is found first, is milder, and hides that.
        Raises AuditError.
        """
        if head is None:
            return None
        directory = self._paths.directory
        found = hash_of(directory, head.seq)
        if found is not None:
            return None if found == head.h else QuarantineReason.AUDIT_ROLLBACK
        broken = shown is not None and shown.suspect and not shown.unendorsed
        return None if broken and stands_somewhere(directory, head.h) else QuarantineReason.AUDIT_TRUNCATED

    def refuse_unusable(self, inspection: Inspection) -> None:
        """Raises AuditError where the log can't be used although nothing is proven against it."""
        suspended, judged = self._writer.suspended, inspection.judged
        if suspended is not None and suspended.verdict not in SUSPECT:
            raise AuditError(suspended.note)
        if judged.verdict is VerdictName.UNREADABLE:
            raise AuditError(f"{judged.segment or 'the log'}: {judged.note}")

    def to_json(self) -> dict[str, JsonValue]:
        """The part `audit` of the status."""
        seq, h = self._writer.head
        told: dict[str, JsonValue] = {
            "seq": seq,
            "behind_ms": self._writer.behind_ms,
            **reach(self._paths, hash_=h, keyring_seq=self._in_keyring(), vault_seq=self.vault_seq),
            "anchored": self._is_anchored(),
            "trouble": self._trouble(),
            "verdict": None,
            "rung": None,
            "verified_at": None,
            "known": False,
            "verifying": self._inspector.percent,
        }
        if self.latest is not None:
            found = self.latest.inspection
            told |= {"verdict": found.verdict.verdict.value, "rung": found.judged.rung.value, "known": found.known}
            told["verified_at"] = self.latest.at_ms
        if self._writer.suspended is not None and not (self.latest and self.latest.inspection.suspect):
            told["verdict"] = self._writer.suspended.verdict.value
        return told

    def _in_keyring(self) -> int | None:
        return None if self.keyring is None else self.keyring.kept_seq

    def _is_anchored(self) -> bool:
        writes = self._writer.poisoned is None and self._writer.suspended is None
        return writes and disk_look.anchor_is_there(self._paths)

    def _trouble(self) -> str | None:
        """Why no action begins although nothing speaks against what is written."""
        writer = self._writer
        if writer.poisoned is not None:
            return "unwritable"
        return "disk_low" if writer.endorsed and not writer.room() else None

    def warnings(self) -> list[str]:
        """What a human should mend, in words."""
        found = [*self.notices.listed(), *disk_look.trouble(self._paths)]
        suspended = self._writer.suspended
        if suspended is not None:
            found.append(f"nothing is recorded and nothing runs: {suspended.note}")
        elif not self._writer.endorsed:
            found.append("the audit log's signing seed was lost; nobody vouches for what is recorded since")
        if self.failed is not None:
            found.append(self.failed)
        if self.latest is not None and self.latest.inspection.verdict.verdict not in _WELL:
            verdict = self.latest.inspection.verdict
            known = " (taken over by a human)" if self.latest.inspection.known else ""
            place = (
                "" if verdict.segment is None else f" {verdict.segment} offset {verdict.offset} record {verdict.seq}"
            )
            found.append(f"audit log: {verdict.verdict.value}{known}:{place} {verdict.note}")
        return found

    def place_of_head(self) -> tuple[int, int]:
        """Segment and offset at which the head ends, as far as the anchor's file says so."""
        with suppress(AuditError):
            anchor = Anchor.load(self._paths.anchor)
            if (anchor.seq, anchor.head) == self._writer.head:
                return anchor.segment, anchor.offset
        return 1, 0

    def head(self) -> Anchor | None:
        """The writer's head as an anchor; None while nothing vouches for it, so that what does is not overwritten."""
        seq, h = self._writer.head
        found = None if self.latest is None else self.latest.inspection
        if seq < 0 or found is None or self.reason(found) is not None:
            return None
        segment, offset = self.place_of_head()
        return self._anchor_of(AuditHead(seq=seq, h=h, segment=segment, offset=offset))

    def keep_copy(self, damage: KnownDamage | None) -> None:
        """Beside the log, in clear. Raises AuditError."""
        try:
            if damage is None:
                self._copy.unlink(missing_ok=True)
            else:
                write_durably(self._copy, canonical(damage.to_json()) + b"\n", LocalDisk())
        except OSError as cause:
            raise AuditError(f"{self._copy} can't be written: {cause.strerror or cause}") from cause

    def _inspect(
        self, anchors: list[HeldAnchor], known: KnownDamage | None, called_off: threading.Event | None = None
    ) -> Inspection:
        try:
            found = self._inspector.inspect(anchors, known=known, called_off=called_off)
        except AuditError as error:
            if called_off is None or not called_off.is_set():
                self.failed = str(error)
            raise
        self.failed = None
        self.latest = Watched(inspection=found, at_ms=self._now_ms())
        if found.suspect:
            self.cause = found
        return found

    def _from_file(self) -> list[HeldAnchor]:
        with suppress(AuditError):
            return [HeldAnchor(rung=Rung.FILE, anchor=Anchor.load(self._paths.anchor))]
        return []

    def _from_keyring(self) -> list[HeldAnchor]:
        held = None if self.keyring is None else self.keyring.held()
        return [] if held is None else [held]

    def _anchor_of(self, head: AuditHead) -> Anchor:
        return Anchor(
            log_id=self._writer.log_id,
            seq=head.seq,
            segment=head.segment,
            offset=head.offset,
            head=head.h,
            epoch_key=_NO_KEY,
        )

    def _copied(self) -> KnownDamage | None:
        if not os.path.lexists(self._copy):
            return None
        with suppress(AuditError, WireError, ValueError):
            content = read_private_file(self._copy, max_bytes=MAX_COPY_BYTES)
            return KnownDamage.from_json(parse_object(content, max_bytes=MAX_COPY_BYTES))
        return None


def anchor_before(paths: AuditPaths) -> tuple[HeldAnchor | None, str | None]:
    """What the anchor's file holds before a writer opens the log, and what is to be told where that is nothing."""
    if not os.path.lexists(paths.anchor):
        return None, f"the anchor of the audit log ({paths.anchor}) was missing at the start and was made anew"
    try:
        return HeldAnchor(rung=Rung.FILE, anchor=Anchor.load(paths.anchor)), None
    except AuditError as fault:
        return None, f"the anchor of the audit log was made anew at the start: {fault}"


def told_of(found: Inspection) -> dict[str, JsonValue]:
    """What an event says of an inspection."""
    judged = found.judged
    return {
        "verdict": found.verdict.verdict.value,
        "rung": judged.rung.value,
        "proven_to": judged.proven_to,
        "known": found.known,
    }


def aged(damage: KnownDamage, at_ms: int) -> KnownDamage:
    return replace(damage, at_ms=at_ms)


def _reason(verdict: VerdictName) -> QuarantineReason:
    return QuarantineReason(f"audit_{verdict.value.lower()}")

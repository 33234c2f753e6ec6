"""The states of a vault: locked, ready or quarantined, and how it gets from one to another.

The term grows whenever the vault becomes locked, ready or quarantined, and at each opening of the file; it is on disk
before it counts. Every check at unlocking is against the sealed index; a whole older file is told by `generation`,
which the caller compares with the audit log. Calls that write wait for the disk: run them in a thread. Reads of an
open vault use a snapshot in memory and wait for nobody. The passphrase is never seen here, only the key made of it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from broker.contract.kdf import KdfParams
from broker.contract.reasons import VaultState
from broker.contract.unlock_methods import UnlockMethod
from broker.core.secret import Secret
from broker.vault.faults import (
    Damage,
    Fault,
    QuarantineReason,
    UnlockTooSoon,
    VaultError,
    VaultLocked,
    VaultQuarantined,
    WrongPassphrase,
)
from broker.vault.index import RecordKind
from broker.vault.opened import Opened, opened
from broker.vault.records import Edit, checked
from broker.vault.sealed import SealBroken, VaultKey
from broker.vault.slowdown import Slowdown
from broker.vault.store import Contents, Head, Store, Wrap
from broker.vault.unlocking import Given, spelled, unwrapped

Check: TypeAlias = Callable[[Opened], QuarantineReason | None]


class Lifecycle:
    """An open vault file and its state. Vault adds what may be asked of it."""

    def __init__(self, store: Store, contents: Contents, monotonic_s: Callable[[], float]) -> None:
        self._store = store
        self._writing = threading.RLock()
        self._slowdown = Slowdown(monotonic_s)
        self._log_id = contents.head.log_id
        self._known = spelled(contents.wraps)
        self._term = contents.head.term
        self._generation = contents.head.generation
        self._opened: Opened | None = None
        self._quarantine = _quarantine_of(contents.head.quarantine)
        self._state = VaultState.LOCKED if self._quarantine is None else VaultState.QUARANTINED

    @classmethod
    def open(cls, path: Path, *, monotonic_s: Callable[[], float] = time.monotonic) -> Self:
        """The vault of a file, locked (or still quarantined), under a new term. Raises VaultError."""
        store = Store.open(path)
        try:
            held = cls(store, store.read(), monotonic_s)
            held._move_term()
        except BaseException:
            store.close()
            raise
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Lock, and let go of the file."""
        with self._writing:
            try:
                self.lock()
            finally:
                self._store.close()

    # State, readable by anyone at any time.

    @property
    def state(self) -> VaultState:
        return self._state

    @property
    def term(self) -> int:
        return self._term

    @property
    def generation(self) -> int:
        """Counts sealed writes. To be recorded in the audit log; unauthenticated until the vault was unlocked."""
        return self._generation

    @property
    def log_id(self) -> str:
        """Unauthenticated until the vault was unlocked."""
        return self._log_id

    @property
    def kdf(self) -> KdfParams:
        """How the passphrase becomes the key. A client decides by itself whether that is strong enough."""
        return self._known[0].kdf

    @property
    def methods(self) -> tuple[UnlockMethod, ...]:
        """How it can be opened. Unauthenticated until the vault was unlocked."""
        return tuple(item.method for item in self._known)

    @property
    def shares(self) -> frozenset[str]:
        """Names of the keyring's shares that its methods use."""
        return frozenset(item.share for item in self._known if item.share is not None)

    @property
    def quarantine_reason(self) -> QuarantineReason | None:
        return self._quarantine

    @property
    def retry_after_s(self) -> float:
        """Seconds until the next passphrase is looked at; 0 where none was wrong."""
        return self._slowdown.remaining_s

    # Changes of state.

    def unlock(self, kek: Secret | None, *, share: Secret | None = None, check: Check | None = None) -> None:
        """Check everything sealed and become ready, under a new term. On a ready vault it only checks the key.

        `check` looks at what was opened while the state is still `unlocking` (the audit log against generation and
        remembered head) and may name a reason for quarantine. Raises WrongPassphrase, UnlockTooSoon, VaultQuarantined,
        and VaultError where what was given is too little for any of the vault's methods.
        """
        given = Given(kek=kek, share=share)
        with self._writing:
            self._refuse_quarantined()
            if self._opened is not None:
                self._unwrapped(self._opened.records.head, self._opened.records.wraps, given).wipe()
                return
            with self._unlocking(given, self._store.read()) as candidate:
                reason = None if check is None else check(candidate)
                if reason is not None:
                    raise Damage(reason)
                self._use(self._written(candidate, Edit(), term=self._term + 1))

    def lock(self) -> None:
        """Wipe the keys, then write the new term. The vault is locked even where that write fails and raises."""
        with self._writing:
            if self._opened is None:
                return
            self._wipe()
            self._state = VaultState.LOCKED
            self._move_term()

    def quarantine(self, reason: QuarantineReason) -> None:
        """Wipe the keys and refuse everything, also after a restart where the file can be written."""
        with self._writing:
            self._quarantined(reason)

    def readopt(
        self,
        kek: Secret | None,
        *,
        share: Secret | None = None,
        generation_floor: int = 0,
        floor: Callable[[Opened], int] | None = None,
    ) -> None:
        """Take a quarantined vault over as it is, at a human's word, and become ready.

        What is sealed has to agree with itself; what is broken needs a backup. The remembered audit head is forgotten,
        and the generation rises above `generation_floor`, the highest that the audit log knows. `floor` gives another
        one from what was opened, and may raise to leave everything as it is: the vault stays quarantined then.
        """
        with self._writing:
            if self._quarantine is None:
                raise VaultError(Fault.NOT_QUARANTINED, "the vault is not quarantined; there is nothing to adopt")
            contents = self._store.resume()
            self._known = spelled(contents.wraps)
            with self._unlocking(Given(kek=kek, share=share), contents, adopting=True) as candidate:
                known = generation_floor if floor is None else max(generation_floor, floor(candidate))
                term = max(self._term, contents.head.term, candidate.records.index.term) + 1
                generation = max(candidate.generation, known) + 1
                edit = Edit(removes=candidate.records.ids(RecordKind.AUDIT_HEAD))
                self._use(self._written(candidate, edit, term=term, generation=generation))

    # How it is done.

    def _in_use(self) -> Opened:
        current = self._opened
        if current is None:
            self._refuse_quarantined()
            raise VaultLocked
        return current

    def _refuse_quarantined(self) -> None:
        if self._quarantine is not None:
            raise VaultQuarantined(self._quarantine)

    @contextmanager
    def _unlocking(self, given: Given, contents: Contents, *, adopting: bool = False) -> Iterator[Opened]:
        """The checked contents, in no use yet. Their key is wiped unless they were put in use."""
        key: VaultKey | None = None
        self._state = VaultState.UNLOCKING
        try:
            key = self._unwrapped(contents.head, contents.wraps, given)
            yield opened(checked(key, contents, term=None if adopting else self._term))
        except Damage as damage:
            raise self._quarantined(damage.reason) from None
        finally:
            if self._opened is None:
                self._state = VaultState.LOCKED if self._quarantine is None else VaultState.QUARANTINED
                if key is not None:
                    key.wipe()

    def _unwrapped(self, head: Head, wraps: Sequence[Wrap], given: Given) -> VaultKey:
        """Raises WrongPassphrase, UnlockTooSoon within the wait after one, VaultError where too little was given."""
        if self._slowdown.remaining_s > 0:
            raise UnlockTooSoon(self._slowdown.remaining_s)
        try:
            key = unwrapped(wraps, given, head)
        except SealBroken:
            raise WrongPassphrase(self._slowdown.failed()) from None
        self._slowdown.succeeded()
        return key

    def _apply(self, edit: Edit) -> None:
        self._opened = self._written(self._in_use(), edit, term=self._term)

    def _written(self, before: Opened, edit: Edit, *, term: int, generation: int | None = None) -> Opened:
        """The contents after an edit, once they are durable."""
        records, change = before.records.changed(edit, term=term, generation=generation)
        after = opened(records)
        with self._noticing_others():
            self._store.write(change)
        self._term, self._generation = term, after.generation
        return after

    def _use(self, candidate: Opened) -> None:
        self._opened = candidate
        self._quarantine = None
        self._state = VaultState.READY

    def _move_term(self) -> None:
        self._term += 1
        with self._noticing_others():
            self._store.write_state(term=self._term, quarantine=self._quarantine)

    @contextmanager
    def _noticing_others(self) -> Iterator[None]:
        try:
            yield
        except VaultError as error:
            if error.fault is Fault.CHANGED_UNDERNEATH:
                raise self._quarantined(QuarantineReason.CHANGED_UNDERNEATH) from error
            raise

    def _quarantined(self, reason: QuarantineReason) -> VaultQuarantined:
        self._wipe()
        self._quarantine = reason
        self._state = VaultState.QUARANTINED
        self._term += 1
        with suppress(VaultError):  # a file that can't be written is no reason to go on
            self._store.write_state(term=self._term, quarantine=reason)
        return VaultQuarantined(reason)

    def _wipe(self) -> None:
        current, self._opened = self._opened, None
        if current is not None:
            current.records.key.wipe()


def _quarantine_of(spelling: str | None) -> QuarantineReason | None:
    """The reason that the file names; one that is not known counts as a quarantine all the same."""
    if spelling is None:
        return None
    known = {reason.value: reason for reason in QuarantineReason}
    return known.get(spelling, QuarantineReason.INDEX_BROKEN)

"""Changes of how a vault is opened: another passphrase, one more unlock method, one less. Never none.

Only the vault key's wraps are written anew; no record is. A copy of the file from before keeps opening as it did then.
"""

from broker.contract.kdf import KdfParams
from broker.contract.unlock_methods import UnlockMethod
from broker.core.secret import Secret
from broker.vault.faults import Fault, VaultError
from broker.vault.lifecycle import Lifecycle
from broker.vault.opened import Opened
from broker.vault.records import Edit
from broker.vault.sealed import KEY_BYTES
from broker.vault.unlocking import Given, share_name, spelled, wrapped


class Rewrapping(Lifecycle):
    """Each change is durable when its call returns, and raises VaultError where nothing was changed."""

    def rewrap(self, old_kek: Secret, new_kek: Secret, new_kdf: KdfParams, *, share: Secret | None = None) -> None:
        """Another passphrase for the same vault, locked or ready, in every method. `share` where one of them uses it.

        Raises WrongPassphrase where the old one is not this vault's.
        """
        if len(new_kek) != KEY_BYTES:
            raise VaultError(Fault.INVALID, f"a key has {KEY_BYTES} bytes")
        old = Given(kek=old_kek, share=share)
        with self._writing:
            self._refuse_quarantined()
            self._refuse_other_share(share, wanted=bool(self.shares))
            new = Given(kek=new_kek, share=share)
            if self._opened is not None:
                self._unwrapped(self._opened.records.head, self._opened.records.wraps, old).wipe()
                self._opened = self._rewrapped(self._opened, new, new_kdf)
                return
            with self._unlocking(old, self._store.read()) as candidate:
                self._rewrapped(candidate, new, new_kdf)
            self._move_term()

    def add_method(self, method: UnlockMethod, given: Given) -> None:
        """One more way to open a vault that is open. A passphrase has to be the one that it has already."""
        with self._writing:
            current = self._in_use()
            if method in self.methods:
                raise VaultError(Fault.NAME_TAKEN, f"the vault is opened with {method.value} already")
            self._refuse_other_share(given.share, wanted=method.takes_share)
            if method.takes_passphrase and given.kek is not None and self._opens_with_passphrase:
                share = given.share if self.shares else None
                checked = Given(kek=given.kek, share=share)
                self._unwrapped(current.records.head, current.records.wraps, checked).wipe()
            added = wrapped(method, current.records.key, given, self.kdf, log_id=self.log_id)
            self._opened = self._rewritten(current, Edit(wraps=(added,)))

    def remove_method(self, method: UnlockMethod) -> None:
        """One way less; the last is not removed."""
        with self._writing:
            current = self._in_use()
            if method not in self.methods:
                raise VaultError(Fault.UNKNOWN_CREDENTIAL, f"the vault is not opened with {method.value}")
            if len(self.methods) == 1:
                raise VaultError(
                    Fault.LAST_METHOD, "that is the only unlock method: without it nobody could open the vault"
                )
            self._opened = self._rewritten(current, Edit(drops=(method.value,)))

    @property
    def _opens_with_passphrase(self) -> bool:
        return any(method.takes_passphrase for method in self.methods)

    def _refuse_other_share(self, share: Secret | None, *, wanted: bool) -> None:
        if share is None:
            if wanted:
                raise VaultError(Fault.SHARE_MISSING, "the key share of the keyring is needed for that")
            return
        if self.shares and share_name(share) not in self.shares:
            raise VaultError(Fault.SHARE_MISSING, "the keyring holds the key share of another vault, not of this one")

    def _rewrapped(self, before: Opened, given: Given, kdf: KdfParams) -> Opened:
        key, log_id = before.records.key, self.log_id
        return self._rewritten(
            before, Edit(wraps=tuple(wrapped(method, key, given, kdf, log_id=log_id) for method in self.methods))
        )

    def _rewritten(self, before: Opened, edit: Edit) -> Opened:
        after = self._written(before, edit, term=self._term)
        self._known = spelled(after.records.wraps)
        return after

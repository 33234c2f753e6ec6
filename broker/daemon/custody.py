"""Custody: the vault as the pipeline and the executor see it.

A lease keeps a credential's value for work in flight, so that a lock in between neither breaks that work nor leaves
its answer unscrubbed; it ends with the work.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from broker.contract.reasons import VaultState
from broker.core.credential import Claims, CredentialSecret, SshSecret, claims
from broker.core.secret_set import SecretSet, secret_set
from broker.ports import CredentialGone
from broker.vault import Fault, Vault, VaultError


class Custody:
    """Implements ports.Vault and ports.SecretStore over one vault."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._in_use = False
        self._leased: dict[tuple[str, int], tuple[CredentialSecret, SecretSet, int]] = {}
        self._sets: dict[tuple[str, int], SecretSet] = {}  # costly to build; dropped at lock
        self._claims: dict[tuple[str, int], Claims] = {}  # names, no values; dropped at lock

    @property
    def state(self) -> VaultState:
        """The vault's; ready only once everything that hangs on it is in use as well."""
        state = self._vault.state
        return state if self._in_use or state is not VaultState.READY else VaultState.LOCKED

    @property
    def term(self) -> int:
        return self._vault.term

    def credential_version(self, name: str) -> int | None:
        return self._vault.credential_version(name)

    def covers(self, name: str, url: str) -> bool:
        return self._vault.covers(name, url)

    def claims(self, name: str) -> Claims:
        version = self._vault.credential_version(name)
        if version is None:
            raise CredentialGone
        found = self._claims.get((name, version))
        if found is None:
            secret = self._value(name, version)
            found = self._claims[name, version] = Claims() if isinstance(secret, SshSecret) else claims(secret)
        return found

    def secret_of(self, name: str, version: int) -> CredentialSecret:
        """The value that is on lease. Raises LookupError where no work in flight holds it."""
        return self._leased[(name, version)][0]

    def use(self) -> None:
        """After an unlock, when ledger and policy are in use too: from now on actions may run."""
        self._in_use = True

    def forget(self) -> None:
        """At lock, before anything else: no action runs any more; what work in flight holds stays until its end."""
        self._in_use = False
        self._sets.clear()
        self._claims.clear()

    @contextmanager
    def lease(self, name: str, version: int) -> Iterator[SecretSet]:
        """Hold a credential for one piece of work. Raises CredentialGone: the vault changes in threads of its own."""
        key = (name, version)
        held = self._leased.get(key)
        if held is None:
            secret = self._value(name, version)
            if key not in self._sets:
                self._sets[key] = secret_set(secret)
            held = (secret, self._sets[key], 0)
        secret, secrets, holders = held
        self._leased[key] = (secret, secrets, holders + 1)
        try:
            yield secrets
        finally:
            secret, secrets, holders = self._leased[key]
            if holders == 1:
                del self._leased[key]
            else:
                self._leased[key] = (secret, secrets, holders - 1)

    def _value(self, name: str, version: int) -> CredentialSecret:
        try:
            return self._vault.secret_of(name, version)
        except VaultError as error:
            if error.fault in {Fault.LOCKED, Fault.UNKNOWN_CREDENTIAL, Fault.QUARANTINED}:
                raise CredentialGone from error
            raise

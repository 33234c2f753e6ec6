"""A vault in memory: states, terms, credentials by version, and leases that are counted."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from broker.contract.reasons import VaultState
from broker.core.credential import (
    BearerSecret,
    Binding,
    Claims,
    CredentialSecret,
    SshSecret,
    claims,
    covers_url,
    parse_binding,
)
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet, secret_set
from broker.ports import CredentialGone


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    version: int
    bindings: tuple[Binding, ...]
    secret: CredentialSecret


class MemoryVault:
    """Implements ports.Vault and ports.SecretStore."""

    def __init__(self) -> None:
        self.state = VaultState.READY
        self.term = 1
        self.credentials: dict[str, Held] = {}
        self.leases: Counter[tuple[str, int]] = Counter()
        self.before_lease: Callable[[], object] = lambda: None

    def lock(self) -> None:
        self.state = VaultState.LOCKED

    def unlock(self) -> None:
        self.state = VaultState.READY
        self.term += 1

    def put(self, name: str, token: str, *origins: str, secret: CredentialSecret | None = None) -> None:
        """Add a credential, or its next version."""
        held = self.credentials.get(name)
        self.credentials[name] = Held(
            version=1 if held is None else held.version + 1,
            bindings=tuple(parse_binding(origin) for origin in origins),
            secret=secret or BearerSecret(token=Secret(token)),
        )

    def credential_version(self, name: str) -> int | None:
        held = self.credentials.get(name) if self.state is VaultState.READY else None
        return None if held is None else held.version

    def covers(self, name: str, url: str) -> bool:
        return any(covers_url(binding, url) for binding in self.credentials[name].bindings)

    def claims(self, name: str) -> Claims:
        if self.credential_version(name) is None:
            raise CredentialGone
        secret = self.credentials[name].secret
        return Claims() if isinstance(secret, SshSecret) else claims(secret)

    def secret_of(self, name: str, version: int) -> CredentialSecret:
        """The value of a credential that is on lease."""
        if not self.leases[name, version]:
            raise LookupError("no work in flight holds this credential")
        return self.credentials[name].secret

    @contextmanager
    def lease(self, name: str, version: int) -> Iterator[SecretSet]:
        self.before_lease()
        held = self.credentials.get(name)
        if self.state is not VaultState.READY or held is None or held.version != version:
            raise CredentialGone
        self.leases[name, version] += 1
        try:
            yield secret_set(held.secret)
        finally:
            self.leases[name, version] -= 1

"""What the daemon remembers of SSH hosts: keys that a human accepted, and where markers lie. Sealed in the vault.

While the vault is locked nothing is known, and what was learned then is not kept: the next contact asks again.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from broker.contract.reasons import VaultState
from broker.core.events import AuditEvent, EventName
from broker.core.ssh.model import HostKeyMode, SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen
from broker.ports import AuditLog, AuditUnwritable, Clock
from broker.vault import Vault, VaultError
from broker.vault.hosts import AcceptedKey, KnownHosts


class SshHosts:
    """Implements ports.TrustStore."""

    def __init__(self, *, vault: Vault, audit: AuditLog, clock: Clock) -> None:
        self._vault = vault
        self._audit = audit
        self._clock = clock
        self._known: tuple[int, KnownHosts] | None = None  # by the vault's generation
        self._provisional: list[tuple[SshHost, HostKeySeen]] = []

    def known(self, host: SshHost) -> tuple[str, ...]:
        if host.trust.mode is not HostKeyMode.ACCEPT_NEW:
            return ()
        kept = self._remembered().key_of(host)
        if kept is not None:
            return (kept.public,)
        return tuple(key.public for of, key in self._provisional if (of.address, of.port) == (host.address, host.port))

    def accepted(self) -> tuple[AcceptedKey, ...]:
        return self._remembered().keys

    def store_of(self, host: SshHost) -> StoreSeen | None:
        return self._remembered().store_of(host)

    @contextmanager
    def provisionally(self, host: SshHost, key: HostKeySeen) -> Iterator[None]:
        entry = (host, key)
        self._provisional.append(entry)
        try:
            yield
        finally:
            self._provisional.remove(entry)

    async def remember(self, host: SshHost, key: HostKeySeen) -> None:
        if self._remembered().key_of(host) is not None:
            return  # another request that saw the same card came first
        if not await self._kept(lambda: self._vault.accept_host_key(host, key, now_ms=self._clock.now_ms())):
            return
        event = AuditEvent(
            name=EventName.HOSTKEY_ACCEPTED,
            at_ms=self._clock.now_ms(),
            fields={
                "host": host.name,
                "address": host.address,
                "port": host.port,
                "algorithm": key.algorithm,
                "fingerprint": key.fingerprint,
                "generation": self._vault.generation,
            },
        )
        with suppress(AuditUnwritable):  # whoever goes on meets that by itself
            self._audit.post(event)

    async def saw_store(self, host: SshHost, store: StoreSeen) -> None:
        if self.store_of(host) != store:
            await self._kept(lambda: self._vault.remember_store(host, store))

    async def _kept(self, change: Callable[[], None]) -> bool:
        try:
            await asyncio.to_thread(change)
        except VaultError:  # locked meanwhile, or full: then it is not remembered
            return False
        return True

    def _remembered(self) -> KnownHosts:
        if self._vault.state is not VaultState.READY:
            return KnownHosts()
        generation = self._vault.generation
        if self._known is None or self._known[0] != generation:
            try:
                self._known = (generation, self._vault.known_hosts())
            except VaultError:
                return KnownHosts()
        return self._known[1]

"""What is remembered of SSH hosts: the key that a human accepted at the first contact, and where markers lie.

A key is one host's, by address and port, whoever logs in; a store of markers is one user's on it. What is remembered
of the policy's own pins is nothing: those stand in the policy.
"""

from dataclasses import dataclass, replace

from broker.contract.wire import JsonValue, canonical
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen
from broker.vault.faults import Fault, VaultError
from broker.vault.fields import Fields

MAX_HOSTS = 512
MAX_STORES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedKey:
    """`name` is what the policy called the host when a human accepted its key."""

    address: str
    port: int
    name: str
    algorithm: str
    fingerprint: str
    public: str
    accepted_at_ms: int

    def is_of(self, host: SshHost) -> bool:
        return (self.address, self.port) == (host.address, host.port)

    def to_json(self) -> dict[str, JsonValue]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerStore:
    """The store that was last seen, as one user's on one host."""

    user: str
    address: str
    port: int
    seen: StoreSeen

    def is_of(self, host: SshHost) -> bool:
        return (self.user, self.address, self.port) == (host.user, host.address, host.port)

    def to_json(self) -> dict[str, JsonValue]:
        seen = self.seen
        return {
            "user": self.user,
            "address": self.address,
            "port": self.port,
            "path": seen.path,
            "id": seen.id,
            "boot": seen.boot,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHosts:
    """Everything remembered, newest last."""

    keys: tuple[AcceptedKey, ...] = ()
    stores: tuple[MarkerStore, ...] = ()

    def key_of(self, host: SshHost) -> AcceptedKey | None:
        return next((key for key in self.keys if key.is_of(host)), None)

    def store_of(self, host: SshHost) -> StoreSeen | None:
        return next((store.seen for store in self.stores if store.is_of(host)), None)

    def accepting(self, host: SshHost, seen: HostKeySeen, now_ms: int) -> "KnownHosts":
        """With one more key. Raises VaultError where there is one already, for that is a human's to forget."""
        if self.key_of(host) is not None:
            raise VaultError(Fault.NAME_TAKEN, f"a key of {host.name} is accepted already; forget that one first")
        if len(self.keys) >= MAX_HOSTS:
            raise VaultError(Fault.FULL, f"the vault holds the keys of {MAX_HOSTS} hosts; forget one")
        key = AcceptedKey(
            address=host.address,
            port=host.port,
            name=host.name,
            algorithm=seen.algorithm,
            fingerprint=seen.fingerprint,
            public=seen.public,
            accepted_at_ms=now_ms,
        )
        return replace(self, keys=(*self.keys, key))

    def forgetting(self, address: str, port: int) -> "KnownHosts":
        kept = tuple(key for key in self.keys if (key.address, key.port) != (address, port))
        if len(kept) == len(self.keys):
            raise VaultError(Fault.UNKNOWN_CREDENTIAL, f"no key of {address}:{port} was accepted")
        return replace(self, keys=kept)

    def seeing(self, host: SshHost, store: StoreSeen) -> "KnownHosts":
        """With the store as it is now; what is longest unseen gives way."""
        others = tuple(one for one in self.stores if not one.is_of(host))[-(MAX_STORES - 1) :]
        fresh = MarkerStore(user=host.user, address=host.address, port=host.port, seen=store)
        return replace(self, stores=(*others, fresh))

    def encode(self) -> bytes:
        return canonical(
            {"keys": [key.to_json() for key in self.keys], "stores": [store.to_json() for store in self.stores]}
        )


def decode_hosts(content: bytes) -> KnownHosts:
    fields = Fields.parse(content, {"keys", "stores"})
    return KnownHosts(
        keys=tuple(_key(Fields.of(item, AcceptedKey.__dataclass_fields__.keys())) for item in fields.items("keys")),
        stores=tuple(_store(item) for item in fields.items("stores")),
    )


def _key(fields: Fields) -> AcceptedKey:
    return AcceptedKey(
        address=fields.text("address"),
        port=fields.integer("port"),
        name=fields.text("name"),
        algorithm=fields.text("algorithm"),
        fingerprint=fields.text("fingerprint"),
        public=fields.text("public"),
        accepted_at_ms=fields.integer("accepted_at_ms"),
    )


def _store(item: JsonValue) -> MarkerStore:
    fields = Fields.of(item, {"user", "address", "port", "path", "id", "boot"})
    seen = StoreSeen(path=fields.text("path"), id=fields.text("id"), boot=fields.text("boot"))
    return MarkerStore(user=fields.text("user"), address=fields.text("address"), port=fields.integer("port"), seen=seen)

"""Services, hosts, frozen SSH requests and permits for tests of the SSH executor."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from broker.contract.reasons import Effect, VaultState
from broker.contract.result import GateReport
from broker.core.credential import CredentialSecret
from broker.core.gate import Permit, Standing, recheck
from broker.core.policy.model import Service
from broker.core.policy.place import Place
from broker.core.secret import Secret
from broker.core.ssh.frozen import Exec, FrozenSsh, SshAction, SshDeadlines
from broker.core.ssh.model import HostKeyMode, HostTrust, MarkerMode, SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen
from broker.core.ssh.secrets import SshKeySecret, SshPasswordSecret

HERE = Place(file="test.toml", line=1)
QUICK = SshDeadlines(connect_s=3.0, login_s=5.0, exec_s=5.0, idle_s=10.0, total_s=20.0)


class OneLogin:
    """A SecretStore with one credential."""

    def __init__(self, secret: CredentialSecret) -> None:
        self.secret = secret
        self.asked = 0

    def secret_of(self, name: str, version: int) -> CredentialSecret:
        del name, version
        self.asked += 1
        return self.secret


class Trusting:
    """A TrustStore in memory."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, ...]] = {}
        self.stores: dict[str, StoreSeen] = {}

    def known(self, host: SshHost) -> tuple[str, ...]:
        return self.keys.get(host.name, ())

    async def remember(self, host: SshHost, key: HostKeySeen) -> None:
        self.keys[host.name] = (*self.known(host), key.public)

    @contextmanager
    def provisionally(self, host: SshHost, key: HostKeySeen) -> Iterator[None]:
        self.keys[host.name] = (*self.known(host), key.public)
        yield
        kept = [*self.known(host)]
        kept.remove(key.public)  # once: what was remembered meanwhile stays
        self.keys[host.name] = tuple(kept)

    def store_of(self, host: SshHost) -> StoreSeen | None:
        return self.stores.get(host.name)

    async def saw_store(self, host: SshHost, store: StoreSeen) -> None:
        self.stores[host.name] = store


def key_secret(path: Path, certificate: Path | None = None) -> SshKeySecret:
    return SshKeySecret(
        private_key=Secret(path.read_bytes()),
        certificate=None if certificate is None else certificate.read_text(encoding="ascii").strip(),
    )


def password_secret(password: str) -> SshPasswordSecret:
    return SshPasswordSecret(password=Secret(password))


def host(
    port: int,
    user: str,
    *,
    known_hosts: str = "",
    pins: tuple[str, ...] = (),
    mode: HostKeyMode = HostKeyMode.STRICT,
    address: str = "127.0.0.1",
    jump: tuple[SshHost, ...] = (),
    name: str = "web-1",
) -> SshHost:
    trust = HostTrust(mode=mode, pins=pins, known_hosts=known_hosts)
    return SshHost(name=name, address=address, port=port, user=user, trust=trust, jump=jump)


def bare(command: str | bytes, *, stdin: bytes = b"", pty: bool = False) -> Exec:
    """A command without a marker."""
    octets = command.encode() if isinstance(command, str) else command
    return Exec(command=octets, stdin=stdin, pty=pty, marker=MarkerMode.OFF)


def frozen(
    target: SshHost,
    action: SshAction,
    *,
    deadlines: SshDeadlines = QUICK,
    output_bytes: int = 65_536,
    credential: str | None = "deploy",
) -> FrozenSsh:
    service = Service(
        name="web", base_url="", scheme="ssh", host="", port=0, base_path="", credential=credential, place=HERE
    )
    return FrozenSsh(
        service=service,
        operation="web.exec",
        declared=None,
        host=target,
        action=action,
        effect=Effect.WRITE,
        output_bytes=output_bytes,
        deadlines=deadlines,
    )


def permit(request: FrozenSsh, *, version: int | None = 1, operation_id: str | None = None, term: int = 1) -> Permit:
    """A permit as the gate makes it."""
    standing = Standing(
        vault=VaultState.READY,
        vault_term=term,
        policy_digest="sha256:0",
        credential_version=version,
        session_alive=True,
        frozen_daemon=False,
        request_digest=request.digest,
    )
    ruling = recheck(
        asked=standing,
        now=replace(standing),
        frozen=request,
        correlation_id=operation_id or f"op_{secrets.token_hex(12)}",
        gate=GateReport(),
    )
    assert isinstance(ruling, Permit)
    return ruling

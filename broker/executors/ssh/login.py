"""From a policy's host to a connection that is logged in: resolve, check, dial, judge the host key, log in, hop by hop.

Nothing ambient is used: no ssh config, known_hosts file, agent, default key, GSSAPI, X11 or environment. Exactly one
key, or one password once, is offered to each hop. A name behind a jump host is resolved there, out of our sight: its
spelling is checked here, and its host key proves it.
"""

import asyncio
import socket
from dataclasses import dataclass
from typing import Any

import asyncssh
from asyncssh.connection import SSHClientConnectionOptions
from typing_extensions import override

from broker.core.reach import reach
from broker.core.ssh.known_hosts import Known
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import SshFault, SshPhase
from broker.executors.addresses import Destination, Lookup, checked_addresses
from broker.executors.ssh.attempt import Attempt
from broker.executors.ssh.connection import CheckedConnection, host_key_algorithms
from broker.executors.ssh.faults import StoppedError, dial_fault, stopped
from broker.executors.ssh.keys import SIGNATURES, KeyLogin, Login, PasswordLogin

SCHEME = "ssh"
INFORMATION_ROUNDS = 4
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes128-ctr",
)
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
NO_OLD_EXCHANGES = "-*sha1*,gss-*,*@ssh.com,rsa*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalive:
    """A peer that answers nothing is given up after `interval_s` times one more than `missed`."""

    interval_s: float = 5.0
    missed: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A host with what is known of its key, and what to show it. Without either the key exchange is all."""

    host: SshHost
    known: Known | None
    login: Login | None


class OneCredential(asyncssh.SSHClient):
    """Answers the server's questions with the one credential, once."""

    def __init__(self, attempt: Attempt, login: Login | None) -> None:
        self._attempt = attempt
        self._login = login
        self._spent = False
        self._rounds = 0

    @override
    def begin_auth(self, username: str) -> None:
        self._attempt.reach(SshPhase.LOGIN)

    @override
    def password_auth_requested(self) -> str | None:
        return self._password()

    @override
    def kbdint_auth_requested(self) -> str | None:
        return "" if isinstance(self._login, PasswordLogin) and not self._spent else None

    @override
    def kbdint_challenge_received(self, name: str, instructions: str, lang: str, prompts: Any) -> list[str] | None:
        """One question that is not echoed gets the password; words without a question are taken note of."""
        self._rounds += 1
        if self._rounds > INFORMATION_ROUNDS:
            return None
        if not prompts:
            return []
        if len(prompts) != 1 or prompts[0][1]:
            return None
        password = self._password()
        return None if password is None else [password]

    def _password(self) -> str | None:
        if self._spent or not isinstance(self._login, PasswordLogin):
            return None
        self._spent = True  # a second try would count towards the lock-out of the account
        return self._login.password


async def log_in(hops: tuple[Hop, ...], *, lookup: Lookup, attempt: Attempt, keepalive: Keepalive) -> CheckedConnection:
    """A connection to the last hop through those before it. Raises StoppedError. Closing it closes all."""
    via: CheckedConnection | None = None
    try:
        for hop in hops:
            via = await _log_in(hop, via, lookup=lookup, attempt=attempt, keepalive=keepalive)
    except BaseException:
        if via is not None:
            via.abort()
        raise
    if via is None:
        raise StoppedError(SshFault.INTERNAL, "no host to log in to")
    return via


async def _log_in(
    hop: Hop, via: CheckedConnection | None, *, lookup: Lookup, attempt: Attempt, keepalive: Keepalive
) -> CheckedConnection:
    if via is not None:
        attempt.restart()  # the phases of the last hop are those that tell
    attempt.reach(SshPhase.CONNECTING)
    options = _options(hop, attempt, keepalive)
    sock = await _connect(hop.host, lookup, attempt) if via is None else None
    try:
        async with asyncio.timeout_at(attempt.by(attempt.deadlines.login_s)):
            return await _handshake(hop, options, sock=sock, via=via, attempt=attempt)
    except TimeoutError:
        raise attempt.timed_out(SshFault.LOGIN_TIMEOUT) from None


async def _connect(host: SshHost, lookup: Lookup, attempt: Attempt) -> socket.socket:
    """A socket that is connected to an address of the host that was checked."""
    destination = _destination(host)
    try:
        async with asyncio.timeout_at(attempt.by(attempt.deadlines.connect_s)):
            addresses = await checked_addresses(destination, lookup)
            return await _dial(addresses, host.port, attempt)
    except TimeoutError:
        raise attempt.timed_out(SshFault.CONNECT_TIMEOUT) from None
    except OSError as cause:
        raise dial_fault(cause) from None


def _destination(host: SshHost) -> Destination:
    """Raises StoppedError where the host's spelling leads nowhere allowed."""
    address = host.address.lower()
    if not reach(host=address, scheme=SCHEME, named=True):
        raise StoppedError(SshFault.ADDRESS_REFUSED)
    return Destination(scheme=SCHEME, host=address, port=host.port, named=True)


async def _dial(addresses: Any, port: int, attempt: Attempt) -> socket.socket:
    """The first address that answers; each but the last has its share of the time."""
    loop = asyncio.get_running_loop()
    until_s = attempt.by(attempt.deadlines.connect_s)
    failure: OSError = OSError("the name has no address")
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            async with asyncio.timeout((until_s - loop.time()) / left):
                await loop.sock_connect(sock, (address, port))
        except OSError as cause:  # a TimeoutError is one
            sock.close()
            failure = cause
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _handshake(
    hop: Hop,
    options: SSHClientConnectionOptions,
    *,
    sock: socket.socket | None,
    via: CheckedConnection | None,
    attempt: Attempt,
) -> CheckedConnection:
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    options.waiter = waiter
    connection = CheckedConnection(
        loop, options, known=hop.known, address=hop.host.address.lower(), reach=attempt.reach
    )
    try:
        if via is None:
            await loop.create_connection(lambda: connection, sock=sock)
        else:
            await _tunnel(hop, via, connection)
        await waiter
    except BaseException as cause:
        connection.abort()
        attempt.host_key = connection.offered or attempt.host_key
        if connection.refusal is not None:
            raise connection.refusal from None
        if isinstance(cause, Exception) and not isinstance(cause, TimeoutError):
            raise _broken_off(cause, attempt.phase) from None
        raise
    attempt.host_key = connection.offered
    if hop.login is not None:
        attempt.reach(SshPhase.LOGGED_IN)
    return connection


def _broken_off(cause: Exception, phase: SshPhase) -> StoppedError:
    """What is no fault of the transport here is one of the bytes that came: the library has no type for all of them."""
    end = stopped(cause, phase)
    return StoppedError(SshFault.LOST_DURING_LOGIN, end.said) if end.fault is SshFault.INTERNAL else end


async def _tunnel(hop: Hop, via: CheckedConnection, connection: CheckedConnection) -> None:
    """Through a channel of the jump host, which alone knows what it dials; so it is told only what may be dialled."""
    destination = _destination(hop.host)
    try:
        factory: Any = lambda: connection  # noqa: E731 - the library takes a factory of its session type
        await via.create_connection(factory, destination.host, destination.port)
    except asyncssh.ChannelOpenError as cause:
        raise StoppedError(SshFault.CONNECT_FAILED, f"the jump host: {cause.reason}") from None
    connection.set_tunnel(via)


def _options(hop: Hop, attempt: Attempt, keepalive: Keepalive) -> SSHClientConnectionOptions:
    """Every setting that could come from a file, an agent or the environment is given here."""
    login = hop.login
    is_key = isinstance(login, KeyLogin)
    return SSHClientConnectionOptions(
        config=None,
        host=hop.host.address.lower(),
        port=hop.host.port,
        username=hop.host.user,
        client_username="doorward",
        client_factory=lambda: OneCredential(attempt, login),
        client_version="doorward",
        tunnel=None,
        proxy_command=None,
        known_hosts=([], [], []),
        server_host_key_algs=list(host_key_algorithms(hop.known)),
        x509_trusted_certs=None,
        x509_trusted_cert_paths=[],
        client_keys=[login.pair] if isinstance(login, KeyLogin) else None,
        client_host_keysign=False,
        client_host_keys=None,
        host_based_auth=False,
        public_key_auth=is_key,
        password_auth=isinstance(login, PasswordLogin),
        kbdint_auth=isinstance(login, PasswordLogin),
        preferred_auth=["publickey"] if is_key else ["password", "keyboard-interactive"],
        agent_path=None,
        agent_identities=None,
        agent_forwarding=False,
        pkcs11_provider=None,
        gss_host=None,
        gss_kex=False,
        gss_auth=False,
        gss_delegate_creds=False,
        x11_forwarding=False,
        env=None,
        send_env=None,
        compression_algs=["none"],
        encryption_algs=list(CIPHERS),
        mac_algs=list(MACS),
        kex_algs=NO_OLD_EXCHANGES,
        signature_algs=list(SIGNATURES),
        connect_timeout=None,
        login_timeout=0,
        tcp_keepalive=True,
        keepalive_interval=keepalive.interval_s,
        keepalive_count_max=keepalive.missed,
    )

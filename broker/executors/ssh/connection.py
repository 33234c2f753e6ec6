"""An SSH connection whose host key is judged by what the policy knows of this very host, before any login.

Every key type that is taken is asked for, the known ones first, so that a server with another key than the known one
shows it and is told by it, rather than by a lost connection. Whatever the library does not offer publicly is
overridden here and in channel.py, and `assert_known_library` says at the start whether it still can be.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncssh
from asyncssh.connection import SSHClientConnection, SSHClientConnectionOptions
from asyncssh.constants import MSG_IGNORE, MSG_KEXINIT
from asyncssh.packet import SSHPacket, SSHPacketLogger
from asyncssh.public_key import (
    CERT_TYPE_HOST,
    SSHLocalKeyPair,
    SSHOpenSSHCertificate,
    decode_ssh_certificate,
    decode_ssh_public_key,
)
from typing_extensions import override

from broker.core.ssh.known_hosts import (
    KeyVerdict,
    Known,
    KnownHostsError,
    Offered,
    algorithm_of,
    fingerprint,
    judge,
    public_text,
)
from broker.core.ssh.outcome import HostKeySeen, SshFault, SshPhase
from broker.executors.ssh.faults import SshExecutorError, StoppedError
from broker.executors.ssh.keys import is_weak

RSA = "ssh-rsa"
_PLAIN: Final = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_RSA: Final = ("rsa-sha2-512", "rsa-sha2-256")
_CERTIFIED = "-cert-v01@openssh.com"
_VERDICTS: Final = {
    KeyVerdict.UNKNOWN: SshFault.HOST_KEY_UNKNOWN,
    KeyVerdict.CHANGED: SshFault.HOST_KEY_CHANGED,
    KeyVerdict.REVOKED: SshFault.HOST_KEY_REVOKED,
}
_NEEDED: Final = (
    "_recv_version", "_process_kexinit", "_packet_handlers", "validate_server_host_key", "public_key_auth_requested",
    "_choose_signature_alg", "send_packet", "_send", "_force_close",
)  # fmt: skip


def assert_known_library() -> None:
    """Raise SshExecutorError unless the library still has what is overridden here."""
    missing = [name for name in _NEEDED if not hasattr(SSHClientConnection, name)]
    if missing or MSG_KEXINIT not in SSHClientConnection._packet_handlers:  # noqa: SLF001 - no public hook
        raise SshExecutorError(f"this version of asyncssh can't be used: it has no {', '.join(missing) or 'kexinit'}")


def host_key_algorithms(known: Known | None) -> tuple[str, ...]:
    """Those that are asked for, best first. Certificates only where an authority is known."""
    known = known or Known()
    held = {algorithm_of(key) for key in known.keys}
    plain = sorted((*_PLAIN, RSA), key=lambda name: name not in held)  # sorting is stable
    spelled = [name for kind in plain for name in (_RSA if kind == RSA else (kind,))]
    certified = [name + _CERTIFIED for name in (*_PLAIN, *_RSA)] if known.authorities else []
    return (*certified, *spelled)


class CheckedConnection(SSHClientConnection):
    """`refusal` tells why the host key was not taken, `offered` which one it was.

    Where `known` is None the key is only looked at: the host proves to hold it, and no login follows.
    """

    refusal: StoppedError | None
    offered: HostKeySeen | None

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: SSHClientConnectionOptions,
        *,
        known: Known | None,
        address: str,
        reach: Callable[[SshPhase], None],
    ) -> None:
        super().__init__(loop, options, wait="kex" if known is None else "auth")
        self.refusal = None
        self.offered = None
        self._unsent: list[bytes] = []
        self._known = known
        self._address = address
        self._reach = reach

    @property
    def is_dead(self) -> bool:
        """Whether the connection is lost or closing; the library says so only once all of it is cleaned up."""
        return self._transport is None or self.is_closed()

    @override
    def _recv_version(self) -> bool:
        received = super()._recv_version()
        if self._server_version:
            self._reach(SshPhase.BANNER)
        return received

    def _process_keys_offer(self, kind: int, number: int, packet: SSHPacket) -> Awaitable[None]:
        """A server that has none of the key types that are taken is told by that, before it hangs up."""
        theirs = _host_key_names(packet.get_full_payload())
        ours = set(self._server_host_key_algs or ())
        if theirs and not ours & set(theirs):
            self._reach(SshPhase.HOST_KEY)
            names = b", ".join(theirs).decode("ascii", "replace")
            raise self._refuse(SshFault.HOST_KEY_WEAK, f"the host has only keys that are not taken: {names}")
        handled: Awaitable[None] = super()._process_kexinit(kind, number, packet)
        return handled

    @override
    def send_packet(self, pkttype: int, *args: bytes, handler: SSHPacketLogger | None = None) -> None:
        """Without the empty packet that the library puts before each: it protects CBC, and no such cipher is taken."""
        if pkttype != MSG_IGNORE:
            super().send_packet(pkttype, *args, handler=handler)

    @override
    def _send(self, data: bytes) -> None:
        """Once for each turn of the event loop: what several commands have to say goes out together."""
        if not self._unsent:
            self._loop.call_soon(self._send_all)
        self._unsent.append(data)

    @override
    def _force_close(self, exc: Exception | None) -> None:
        self._send_all()
        super()._force_close(exc)

    def _send_all(self) -> None:
        if self._unsent:
            data, self._unsent = b"".join(self._unsent), []
            super()._send(data)

    @override
    def validate_server_host_key(self, key_data: bytes) -> asyncssh.SSHKey:
        self._reach(SshPhase.HOST_KEY)
        certificate = _certificate(key_data)
        try:
            key = decode_ssh_public_key(key_data) if certificate is None else certificate.key
        except asyncssh.KeyImportError:
            raise self._refuse(SshFault.HOST_KEY_WEAK, "the host key can't be read") from None
        self.offered = seen(key.public_data)
        if is_weak(key):
            raise self._refuse(SshFault.HOST_KEY_WEAK, "the host key is DSA, RSA below 2048 bits, or of a strange kind")
        if self._known is None:
            self._server_host_key = key
            return key
        said, authority = self._authority(certificate, self._known)
        verdict = judge(self._known, Offered(key=key.public_data, authority=authority))
        if verdict is not KeyVerdict.ACCEPTED:
            raise self._refuse(_VERDICTS[verdict], said)
        self._server_host_key = key
        return key

    @override
    async def public_key_auth_requested(self) -> SSHLocalKeyPair | None:
        """The one key, once. The library would offer an RSA certificate under two names."""
        if not self._client_keys:
            return None
        pair = self._client_keys.pop(0)
        if not isinstance(pair, SSHLocalKeyPair) or not self._choose_signature_alg(pair):
            return None
        if pair.algorithm == (RSA + _CERTIFIED).encode():
            pair.algorithm = pair.sig_algorithm + _CERTIFIED.encode()
        return pair

    _packet_handlers = {**SSHClientConnection._packet_handlers, MSG_KEXINIT: _process_keys_offer}  # noqa: RUF012, SLF001

    def _authority(self, certificate: SSHOpenSSHCertificate | None, known: Known) -> tuple[str, bytes | None]:
        """Who signed a certificate that is valid for this host now, or why there is none."""
        if certificate is None:
            return "", None
        try:
            certificate.validate(CERT_TYPE_HOST, self._address)
        except ValueError as cause:
            return f"the host's certificate: {cause}", _revoked_signer(certificate, known)
        if not certificate.principals:
            return "the host's certificate names no host", _revoked_signer(certificate, known)
        return "the host's certificate is signed by another authority", certificate.signing_key.public_data

    def _refuse(self, fault: SshFault, said: str) -> asyncssh.HostKeyNotVerifiable:
        self.refusal = StoppedError(fault, said)
        return asyncssh.HostKeyNotVerifiable("the host key is not accepted")


def _revoked_signer(certificate: SSHOpenSSHCertificate, known: Known) -> bytes | None:
    """The signer of a certificate that is not valid, where it is revoked: that is the graver word."""
    signer: bytes = certificate.signing_key.public_data
    return signer if signer in known.revoked else None


def seen(blob: bytes) -> HostKeySeen | None:
    """A key as cards and records show it."""
    try:
        return HostKeySeen(algorithm=algorithm_of(blob), fingerprint=fingerprint(blob), public=public_text(blob))
    except KnownHostsError:
        return None


def _certificate(key_data: bytes) -> SSHOpenSSHCertificate | None:
    try:
        certificate: Any = decode_ssh_certificate(key_data)
    except (asyncssh.KeyImportError, ValueError):
        return None
    return certificate if isinstance(certificate, SSHOpenSSHCertificate) else None


def _host_key_names(payload: bytes) -> list[bytes]:
    """The second list of a key exchange's opening; empty where it can't be read, which the library then says."""
    packet = SSHPacket(payload)
    try:
        packet.get_byte()
        packet.get_bytes(16)
        packet.get_namelist()
        return list(packet.get_namelist())
    except asyncssh.packet.PacketDecodeError:
        return []

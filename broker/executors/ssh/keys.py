"""Credentials brought into the form that a login uses: exactly one key, with its certificate where it has one.

DSA, RSA below 2048 bits, keys that need a passphrase and hardware keys are refused here, before anything is dialled.
Signatures use SHA-2 alone.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import asyncssh
from asyncssh.public_key import SSHLocalKeyPair
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from broker.core.credential import CredentialSecret
from broker.core.ssh.outcome import SshFault
from broker.core.ssh.secrets import SshKeySecret, SshPasswordSecret
from broker.executors.ssh.faults import SshExecutorError, StoppedError

MIN_RSA_BITS = 2048
SIGNATURES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
KEY_TYPES = frozenset({"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLogin:
    pair: SSHLocalKeyPair = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    password: str = field(repr=False)


Login: TypeAlias = KeyLogin | PasswordLogin


def login_with(secret: CredentialSecret) -> Login:
    """Raises StoppedError where the key can't be used, SshExecutorError where it is no SSH credential."""
    match secret:
        case SshKeySecret():
            return KeyLogin(pair=_pair(secret))
        case SshPasswordSecret():
            try:
                return PasswordLogin(password=secret.password.reveal().decode("utf-8"))
            except UnicodeDecodeError:
                raise _unusable("the password is not UTF-8") from None
        case _:
            raise SshExecutorError("the service's credential is none of SSH")


def is_weak(key: asyncssh.SSHKey) -> bool:
    """Whether a public key, ours or a host's, is of a kind or size that is not taken."""
    if key.get_algorithm() not in KEY_TYPES:
        return True
    form = key.pyca_key
    return isinstance(form, RSAPrivateKey | RSAPublicKey) and form.key_size < MIN_RSA_BITS


def _pair(secret: SshKeySecret) -> SSHLocalKeyPair:
    try:
        key = asyncssh.import_private_key(secret.private_key.reveal())
    except asyncssh.KeyEncryptionError:
        raise _unusable("the private key is encrypted") from None
    except (asyncssh.KeyImportError, ValueError) as cause:
        encrypted = "passphrase" in str(cause).lower()
        raise _unusable("the private key is encrypted" if encrypted else "the private key can't be read") from None
    if is_weak(key):
        raise _unusable("the private key is DSA, RSA below 2048 bits, or of a kind that is not taken")
    return SSHLocalKeyPair(key, None, _certificate(secret.certificate, key), None)


def _certificate(line: str | None, key: asyncssh.SSHKey) -> asyncssh.SSHCertificate | None:
    if line is None:
        return None
    try:
        certificate = asyncssh.import_certificate(line)
    except (asyncssh.KeyImportError, ValueError):
        raise _unusable("the certificate can't be read") from None
    if certificate.is_x509 or certificate.key.public_data != key.public_data:
        raise _unusable("the certificate is not one of this key")
    return certificate


def _unusable(why: str) -> StoppedError:
    return StoppedError(SshFault.KEY_UNUSABLE, why)

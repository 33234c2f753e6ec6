"""Private keys: read in any usual form, checked, and brought into one form; and what of them may never be given out.

OpenSSH's own form, PKCS#1, SEC1 and PKCS#8 are read, with a passphrase where there is one. What a modern server
refuses (DSA, short RSA) is refused here, before it is stored. Messages hold nothing of the key.
"""

import base64
from collections.abc import Iterator

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_identity,
)

from broker.core.secret import Secret
from broker.core.ssh.secrets import SshKeySecret

MAX_KEY_BYTES = 16_384
MAX_CERTIFICATE_BYTES = 8192
MIN_RSA_BITS = 2048
MIN_OVERLAP = 16  # characters of a line that have to belong to a private part for the line to be one
_CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})
_LINES = (
    (PrivateFormat.OpenSSH, 70),  # as ssh-keygen breaks them
    (PrivateFormat.OpenSSH, 64),  # as others do
    (PrivateFormat.TraditionalOpenSSL, 64),
    (PrivateFormat.PKCS8, 64),
)
_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
PrivateKey = Ed25519PrivateKey | RSAPrivateKey | EllipticCurvePrivateKey


class KeyFormError(ValueError):
    """The key or its certificate can't be used. Says what to do, holds nothing of it."""


def key_secret(
    private_key: Secret, *, passphrase: Secret | None = None, certificate: str | None = None
) -> SshKeySecret:
    """The key in its one form. Raises KeyFormError."""
    key = _read(private_key, passphrase)
    line = None if certificate is None else _certificate(certificate, key)
    content = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return SshKeySecret(private_key=Secret(content), certificate=line)


def private_parts(secret: SshKeySecret) -> tuple[Secret, ...]:
    """Numbers and lines of a key file that nobody is given: what a host says of its own copy is cut by these."""
    key = _read(secret.private_key, None)
    parts = tuple(_numbers(key))
    lines = dict.fromkeys(line for form, length in _LINES for line in _private_lines(key, form, length, parts))
    return tuple(Secret(value) for value in (*parts, *lines))


def _read(text: Secret, passphrase: Secret | None) -> PrivateKey:
    octets = text.reveal().replace(b"\r\n", b"\n").strip() + b"\n"
    if len(octets) > MAX_KEY_BYTES:
        raise KeyFormError(f"the private key has more than {MAX_KEY_BYTES} bytes")
    if octets.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        raise KeyFormError("this is a public key; the private one is in the file without .pub")
    if octets.startswith(b"PuTTY-User-Key-File"):
        raise KeyFormError("this is PuTTY's form; export it in OpenSSH's with puttygen")
    if b"DSA PRIVATE KEY" in octets:
        raise KeyFormError("DSA keys are refused by servers of today; make an ed25519 one")
    return _checked(_loaded(octets, passphrase))


def _loaded(octets: bytes, passphrase: Secret | None) -> object:
    load = load_ssh_private_key if octets.startswith(_OPENSSH) else load_pem_private_key
    try:
        return load(octets, None if passphrase is None else passphrase.reveal())
    except TypeError:
        if passphrase is None:
            raise KeyFormError("the private key has a passphrase, which is needed to take it in") from None
        raise KeyFormError("the private key has no passphrase, and one was given") from None
    except UnsupportedAlgorithm:
        raise KeyFormError("keys of this kind are not taken: ed25519, RSA and ECDSA are") from None
    except ValueError:
        why = "it is no private key that can be read" if passphrase is None else "the passphrase is not the key's"
        raise KeyFormError(f"the private key does not open: {why}") from None


def _checked(key: object) -> PrivateKey:
    if isinstance(key, RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        raise KeyFormError(f"an RSA key of {key.key_size} bits is too short; it has to have {MIN_RSA_BITS}")
    if isinstance(key, Ed25519PrivateKey | RSAPrivateKey):
        return key
    if isinstance(key, EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return key
    raise KeyFormError("keys of this kind are not taken: ed25519, RSA and ECDSA (P-256, P-384, P-521) are")


def _certificate(text: str, key: PrivateKey) -> str:
    """The certificate as one line, of this key and for users."""
    line = " ".join(text.split())
    if len(line) > MAX_CERTIFICATE_BYTES:
        raise KeyFormError(f"the certificate has more than {MAX_CERTIFICATE_BYTES} bytes")
    try:
        found = load_ssh_public_identity(line.encode("ascii"))
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFormError("the certificate can't be read; it is the one line of a file -cert.pub") from None
    if not isinstance(found, SSHCertificate):
        raise KeyFormError("this is a public key and no certificate; that is in the file -cert.pub")
    if found.type is not SSHCertificateType.USER:
        raise KeyFormError("this is a certificate of a host; a user's is needed")
    own, certified = (
        one.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for one in (key.public_key(), found.public_key())
    )
    if own != certified:
        raise KeyFormError("the certificate is another key's")
    return line


def _numbers(key: PrivateKey) -> Iterator[bytes]:
    match key:
        case Ed25519PrivateKey():
            yield key.private_bytes_raw()
        case RSAPrivateKey():
            numbers = key.private_numbers()
            for number in (numbers.d, numbers.p, numbers.q, numbers.dmp1, numbers.dmq1, numbers.iqmp):
                yield number.to_bytes((number.bit_length() + 7) // 8)
        case EllipticCurvePrivateKey():
            scalar = key.private_numbers().private_value.to_bytes((key.curve.key_size + 7) // 8)
            yield scalar
            if scalar.startswith(b"\0"):  # OpenSSH's form leaves zeros at the beginning out
                yield scalar.lstrip(b"\0")


def _private_lines(key: PrivateKey, form: PrivateFormat, length: int, parts: tuple[bytes, ...]) -> Iterator[bytes]:
    """The lines of a key file that hold enough of a private part; the others are alike for all keys, or public."""
    if form is PrivateFormat.TraditionalOpenSSL and isinstance(key, Ed25519PrivateKey):
        return
    lines = key.private_bytes(Encoding.PEM, form, NoEncryption()).split(b"\n")
    body = b"".join(line for line in lines if not line.startswith(b"-----"))
    content = base64.b64decode(body)
    for part in parts:
        at = content.find(part)
        begin, end = at * 4 // 3, (at + len(part)) * 4 // 3
        for start in range(0, len(body) if at >= 0 else 0, length):
            if min(end, start + length) - max(begin, start) >= MIN_OVERLAP:
                yield body[start : start + length]

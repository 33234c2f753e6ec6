import base64
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
)

from broker.contract.wire import dump
from broker.core.secret import Secret
from broker.core.secret_set import PLACEHOLDER, secret_set
from broker.core.ssh.keyform import MAX_CERTIFICATE_BYTES, MAX_KEY_BYTES, KeyFormError, key_secret, private_parts
from broker.core.ssh.secrets import SshKeySecret

PASSPHRASE = b"canary-passphrase"
WEAK_BITS = 1024
ED = Ed25519PrivateKey.generate()
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def pem(key: object, form: PrivateFormat = PrivateFormat.OpenSSH, passphrase: bytes | None = None) -> bytes:
    cipher = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, form, cipher)  # type: ignore[attr-defined,no-any-return]  # each kind has it


def certified(key: Ed25519PrivateKey, kind: SSHCertificateType = SSHCertificateType.USER) -> str:
    builder = (
        SSHCertificateBuilder()
        .public_key(key.public_key())
        .serial(7)
        .type(kind)
        .key_id(b"deploy")
        .valid_principals([b"deploy"])
        .valid_after(0)
        .valid_before(2**63)
    )
    return builder.sign(Ed25519PrivateKey.generate()).public_bytes().decode()


@pytest.mark.parametrize("key", [ED, RSA, EC], ids=["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.PKCS8])
@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_every_usual_form_is_brought_into_one(key: object, form: PrivateFormat, passphrase: bytes | None) -> None:
    text = Secret(pem(key, form, passphrase).replace(b"\n", b"\r\n"))
    found = key_secret(text, passphrase=None if passphrase is None else Secret(passphrase))

    assert found.private_key.reveal().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert found == replace(key_secret(found.private_key), private_key=found.private_key)
    assert None is found.certificate


def test_the_older_form_of_openssh_is_taken() -> None:
    text = Secret(pem(RSA, PrivateFormat.TraditionalOpenSSL, PASSPHRASE))

    assert None is key_secret(text, passphrase=Secret(PASSPHRASE)).certificate


@pytest.mark.parametrize(
    ("text", "passphrase", "says"),
    [
        (lambda: pem(ED, passphrase=PASSPHRASE), None, "has a passphrase"),
        (lambda: pem(ED, passphrase=PASSPHRASE), b"canary-other", "not the key's"),
        (lambda: pem(ED, PrivateFormat.PKCS8), PASSPHRASE, "has no passphrase"),
        (lambda: pem(ED)[:120], None, "no private key that can be read"),
        (lambda: b"canary-no-key", None, "no private key that can be read"),
        (lambda: b"x" * (MAX_KEY_BYTES + 1), None, "more than"),
        (lambda: b"ssh-ed25519 AAAAC3 deploy@example", None, "public key"),
        (lambda: b"PuTTY-User-Key-File-3: ssh-ed25519", None, "puttygen"),
        (lambda: pem(dsa.generate_private_key(WEAK_BITS), PrivateFormat.TraditionalOpenSSL), None, "DSA"),
        (lambda: pem(dsa.generate_private_key(WEAK_BITS), PrivateFormat.PKCS8), None, "not taken"),
        (lambda: pem(rsa.generate_private_key(65537, WEAK_BITS)), None, "1024 bits"),
        (lambda: pem(Ed448PrivateKey.generate(), PrivateFormat.PKCS8), None, "not taken"),
        (lambda: pem(ec.generate_private_key(ec.SECP256K1()), PrivateFormat.PKCS8), None, "not taken"),
    ],
)
def test_a_key_that_can_not_be_used_is_refused_by_name(
    text: Callable[[], bytes], passphrase: bytes | None, says: str
) -> None:
    with pytest.raises(KeyFormError, match=says) as fault:
        key_secret(Secret(text()), passphrase=None if passphrase is None else Secret(passphrase))

    assert "canary" not in str(fault.value)


def test_a_cipher_that_is_not_known_is_told() -> None:
    lines = pem(ED).splitlines()
    content = base64.b64decode(b"".join(lines[1:-1]))
    plain = b"\0\0\0\x04none\0\0\0\x04none\0\0\0\0"
    odd = b"\0\0\0\x03odd\0\0\0\x06bcrypt\0\0\0\x0c\0\0\0\x04salt\0\0\0\x10"
    text = b"\n".join([lines[0], base64.b64encode(content.replace(plain, odd)), lines[-1]])

    with pytest.raises(KeyFormError, match="not taken"):
        key_secret(Secret(text), passphrase=Secret(PASSPHRASE))


def test_a_hardware_key_is_refused() -> None:
    kind = (
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n"
        b"b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAASgAAABpzay1zc2gtZWQyNTUxOUBvcGVuc3NoLmNvbQ==\n"
        b"-----END OPENSSH PRIVATE KEY-----\n"
    )

    with pytest.raises(KeyFormError):
        key_secret(Secret(kind))


def test_a_certificate_of_the_key_is_kept_as_one_line() -> None:
    line = certified(ED)

    assert line == key_secret(Secret(pem(ED)), certificate=f"  {line}\n").certificate


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("canary-no-certificate", "can't be read"),
        ("x" * (MAX_CERTIFICATE_BYTES + 1), "more than"),
        (ED.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(), "no certificate"),
        (certified(ED, SSHCertificateType.HOST), "of a host"),
        (certified(Ed25519PrivateKey.generate()), "another key's"),
        ("ssh-ed25519-cert-v01@openssh.com \u00e9", "can't be read"),
    ],
)
def test_another_certificate_is_refused(line: str, says: str) -> None:
    with pytest.raises(KeyFormError, match=says) as fault:
        key_secret(Secret(pem(ED)), certificate=line)

    assert "canary" not in str(fault.value)


@pytest.mark.parametrize(
    ("key", "form"),
    [
        *((key, form) for key in (ED, RSA, EC) for form in (PrivateFormat.OpenSSH, PrivateFormat.PKCS8)),
        (RSA, PrivateFormat.TraditionalOpenSSL),
        (EC, PrivateFormat.TraditionalOpenSSL),
    ],
)
def test_no_private_line_of_a_copy_on_the_host_gets_out(key: object, form: PrivateFormat) -> None:
    secret = key_secret(Secret(pem(key)))
    copy = pem(key, form)
    cleaned = secret_set(secret).clean(b"$ cat id\n" + copy)

    private = [value.reveal() for value in private_parts(secret)]
    assert cleaned.is_echo
    assert cleaned.withheld or all(value not in cleaned.data for value in private)
    assert cleaned.withheld or PLACEHOLDER in cleaned.data


@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_a_number_that_begins_with_zeros_is_known_in_every_form(
    form: PrivateFormat, curve: ec.EllipticCurve, zeros: int
) -> None:
    """OpenSSH's form leaves them out, the others keep them: half of all P-521 keys have one."""
    size = curve.key_size // 8 - zeros
    value = int.from_bytes(b"\x7f" + bytes(range(1, size)))
    key = ec.derive_private_key(value, curve)
    copy = pem(key, form, None)
    cleaned = secret_set(key_secret(Secret(pem(key)))).clean(copy)
    whole = base64.b64decode(b"".join(copy.split(b"\n")[1:-2]))
    at = whole.index(value.to_bytes(size)) * 4 // 3
    told = b"".join(copy.split(b"\n")[1:-2])[at : at + size]

    assert cleaned.is_echo
    assert cleaned.withheld or not any(told[i : i + 24] in cleaned.data for i in range(len(told) - 24))


def test_what_all_keys_have_in_common_is_no_echo() -> None:
    secret = key_secret(Secret(pem(ED)))
    other = pem(Ed25519PrivateKey.generate())

    assert not secret_set(secret).clean(other).is_echo


def test_nothing_of_a_key_is_printed() -> None:
    secret = SshKeySecret(private_key=Secret("canary"), certificate=None)

    assert "canary" not in f"{secret!r} {dump({'n': 1})!r}"

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.contract.key_id import key_id
from broker.vault.approver_keys import verify

ONE = Ed25519PrivateKey.from_private_bytes(b"1" * 32)
TWO = Ed25519PrivateKey.from_private_bytes(b"2" * 32)
KEYS = tuple(key.public_key().public_bytes_raw() for key in (ONE, TWO))
MESSAGE = b"doorward/decision/v1\0{}"


def test_the_key_that_signed_is_named() -> None:
    assert key_id(KEYS[0]) == verify(KEYS, MESSAGE, ONE.sign(MESSAGE))
    assert key_id(KEYS[1]) == verify(KEYS, MESSAGE, TWO.sign(MESSAGE))


@pytest.mark.parametrize(
    ("keys", "message", "signature"),
    [
        ((), MESSAGE, ONE.sign(MESSAGE)),
        (KEYS[1:], MESSAGE, ONE.sign(MESSAGE)),
        (KEYS, MESSAGE + b" ", ONE.sign(MESSAGE)),
        (KEYS, MESSAGE, ONE.sign(MESSAGE)[:-1]),
        (KEYS, MESSAGE, ONE.sign(MESSAGE) + b"\0"),
        (KEYS, MESSAGE, b""),
        (KEYS, MESSAGE, bytes(64)),
    ],
)
def test_nothing_else_counts_as_signed(keys: tuple[bytes, ...], message: bytes, signature: bytes) -> None:
    assert verify(keys, message, signature) is None

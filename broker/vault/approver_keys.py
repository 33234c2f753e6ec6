"""Checking what an approver signed, against the public keys that the vault holds.

Which bytes were to be signed is the contract's business, whether a decision may be made at all the gate's.
"""

from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from broker.contract.key_id import key_id

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64


def verify(keys: Iterable[bytes], message: bytes, signature: bytes) -> str | None:
    """The short id of the key that made the signature; None where none of them did."""
    if len(signature) != SIGNATURE_BYTES:
        return None
    for public_key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
        except InvalidSignature:
            continue
        return key_id(public_key)
    return None

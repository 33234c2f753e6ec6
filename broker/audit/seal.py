"""Sealing: each epoch's secret to the audit key, and each event under a ratchet that forgets.

Whoever takes the memory of a running writer reads nothing that was written before. Opening needs the audit key,
which exists only in the vault. What is not promised: CPython may leave copies of a key in freed memory.
"""

import hashlib
import secrets
import struct
from dataclasses import dataclass
from enum import IntEnum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from broker.core.chain import BLOCK_BYTES, MAX_BODY, MIN_BODY, TAG_BYTES
from broker.core.secret import Secret

MAX_PLAINTEXT_BYTES = (MAX_BODY - MIN_BODY - TAG_BYTES) // BLOCK_BYTES * BLOCK_BYTES - 1

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_EPOCH_INFO = b"doorward/audit/epoch-secret/v1\0"
_RATCHET = b"doorward/audit/ratchet/v1"
_NONCE = bytes(12)  # each message key is used once
_SECRET_BYTES = 32
_OPENING = struct.Struct(">32sB7xQ16x")


class EpochReason(IntEnum):
    """Why an epoch began. Sealed, since it would tell when the vault was locked."""

    CREATED = 1
    START = 2
    LOCK = 3
    UNLOCK = 4
    SEGMENT = 5
    EVENTS = 6
    AGE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOpening:
    """What an EPOCH record seals to the audit key."""

    secret: Secret
    reason: int
    at_ms: int


def new_opening(reason: EpochReason, at_ms: int) -> EpochOpening:
    return EpochOpening(secret=Secret(secrets.token_bytes(_SECRET_BYTES)), reason=reason, at_ms=at_ms)


def seal_opening(opening: EpochOpening, *, audit_key: bytes, log_id: bytes, epoch: int, epoch_key: bytes) -> bytes:
    plain = _OPENING.pack(opening.secret.reveal(), opening.reason, opening.at_ms)
    return _SUITE.encrypt(plain, X25519PublicKey.from_public_bytes(audit_key), _info(log_id, epoch, epoch_key))


def open_opening(
    sealed: bytes, *, audit_sk: X25519PrivateKey, log_id: bytes, epoch: int, epoch_key: bytes
) -> EpochOpening | None:
    """None where the seal does not open: another key, another log, another epoch, or altered bytes."""
    try:
        plain = _SUITE.decrypt(sealed, audit_sk, _info(log_id, epoch, epoch_key))
    except InvalidTag:
        return None
    if len(plain) != _OPENING.size:
        return None
    secret, reason, at_ms = _OPENING.unpack(plain)
    return EpochOpening(secret=Secret(secret), reason=reason, at_ms=at_ms)


def _info(log_id: bytes, epoch: int, epoch_key: bytes) -> bytes:
    return _EPOCH_INFO + log_id + struct.pack(">I", epoch) + epoch_key


class Ratchet:
    """Gives each event of an epoch its own key, and forgets the way back."""

    __slots__ = ("_chain_key",)

    def __init__(self, epoch_secret: Secret) -> None:
        self._chain_key = epoch_secret.reveal()

    def seal(self, plain: bytes, associated: bytes) -> bytes:
        return self._next().encrypt(_NONCE, plain, associated)

    def open(self, sealed: bytes, associated: bytes) -> bytes | None:
        both = hashlib.blake2b(_RATCHET, key=self._chain_key).digest()  # as in `_next`: a call less where it counts
        self._chain_key = both[:_SECRET_BYTES]
        try:
            return ChaCha20Poly1305(both[_SECRET_BYTES:]).decrypt(_NONCE, sealed, associated)
        except InvalidTag:
            return None

    def skip(self) -> None:
        self._chain_key = hashlib.blake2b(_RATCHET, key=self._chain_key).digest()[:_SECRET_BYTES]

    def _next(self) -> ChaCha20Poly1305:
        both = hashlib.blake2b(_RATCHET, key=self._chain_key).digest()
        self._chain_key = both[:_SECRET_BYTES]
        return ChaCha20Poly1305(both[_SECRET_BYTES:])


def pad(plain: bytes) -> bytes:
    """0x80 and zeros up to a whole number of blocks, so that the length tells little."""
    return plain + b"\x80" + bytes(-(len(plain) + 1) % BLOCK_BYTES)


def unpad(padded: bytes) -> bytes | None:
    plain = padded.rstrip(b"\0")
    within_last_block = len(padded) - len(plain) < BLOCK_BYTES
    return plain[:-1] if plain.endswith(b"\x80") and within_last_block else None

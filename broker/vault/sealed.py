"""Sealing: which cipher, which key for which record, and what a sealed value is bound to.

Each record has a key of its own (HKDF-SHA256 from the vault key and the record's id). Domain, id and version are
associated data, so that a sealed value opens in its own place only. Content is padded: its size shows to 64 bytes.
The vault key is kept in a bytearray and overwritten by `wipe`; copies that the cipher library makes are beyond reach.
"""

import os
from contextlib import suppress
from enum import StrEnum
from typing import final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from broker.core.secret import Secret

KEY_BYTES = 32
NONCE_BYTES = 12
PAD_BYTES = 64
_RECORD = b"doorward/vault/record/v1"
_INDEX = b"doorward/vault/index/v1"
_PURPOSE = b"doorward/vault/purpose/v1"


class Aead(StrEnum):
    """The ciphers of the format, by their spelling in the file."""

    AES_256_GCM_SIV = "aes-256-gcm-siv"
    CHACHA20_POLY1305 = "chacha20-poly1305"


class SealBroken(Exception):  # noqa: N818 - what happened, not whose fault it is
    """The key, the place or the bytes are not those of the sealing."""


def available(aead: Aead) -> bool:
    """Whether this machine's cipher library has it."""
    with suppress(UnsupportedAlgorithm):
        _cipher(aead, bytes(KEY_BYTES))
        return True
    return False


def preferred() -> Aead:
    """The cipher for a new vault: the one that forgives a repeated nonce, where the library has it."""
    return Aead.AES_256_GCM_SIV if available(Aead.AES_256_GCM_SIV) else Aead.CHACHA20_POLY1305


def seal(aead: Aead, key: bytes | bytearray, content: bytes, bound_to: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _cipher(aead, key).encrypt(nonce, content, bound_to)


def unseal(aead: Aead, key: bytes | bytearray, sealed: bytes, bound_to: bytes) -> bytes:
    """Raises SealBroken."""
    try:
        return _cipher(aead, key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):
        raise SealBroken from None


@final
class VaultKey:
    """The vault key in use: seals records and the index, derives keys for other purposes."""

    __slots__ = ("_key", "_wiped", "aead")

    def __init__(self, aead: Aead, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise SealBroken
        self.aead = aead
        self._key = bytearray(key)
        self._wiped = False

    @classmethod
    def fresh(cls, aead: Aead) -> "VaultKey":
        return cls(aead, os.urandom(KEY_BYTES))

    def seal_record(self, record_id: bytes, version: int, content: bytes) -> bytes:
        return seal(self.aead, self._record_key(record_id), _padded(content), _place(record_id, version))

    def open_record(self, record_id: bytes, version: int, sealed: bytes) -> bytes:
        return _unpadded(unseal(self.aead, self._record_key(record_id), sealed, _place(record_id, version)))

    def seal_index(self, generation: int, content: bytes) -> bytes:
        return seal(self.aead, self._derive(_INDEX), _padded(content), _numbered(_INDEX, generation))

    def open_index(self, generation: int, sealed: bytes) -> bytes:
        return _unpadded(unseal(self.aead, self._derive(_INDEX), sealed, _numbered(_INDEX, generation)))

    def for_purpose(self, purpose: str) -> Secret:
        return Secret(self._derive(_PURPOSE + b"\0" + purpose.encode()))

    def wrapped(self, kek: Secret, bound_to: bytes) -> bytes:
        self._refuse_wiped()
        return seal(self.aead, kek.reveal(), bytes(self._key), bound_to)

    @classmethod
    def unwrapped(cls, aead: Aead, kek: Secret, sealed: bytes, bound_to: bytes) -> "VaultKey":
        """Raises SealBroken."""
        return cls(aead, unseal(aead, kek.reveal(), sealed, bound_to))

    def wipe(self) -> None:
        """Overwrite the key. What was copied from it while in use is not reached."""
        self._wiped = True
        self._key[:] = bytes(KEY_BYTES)

    def _record_key(self, record_id: bytes) -> bytes:
        return self._derive(_RECORD + b"\0" + record_id)

    def _derive(self, info: bytes) -> bytes:
        derived = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(self._key)
        self._refuse_wiped()  # afterwards: another thread may have wiped the key while it was read
        return derived

    def _refuse_wiped(self) -> None:
        if self._wiped:
            raise SealBroken


def _cipher(aead: Aead, key: bytes | bytearray) -> AESGCMSIV | ChaCha20Poly1305:
    match aead:
        case Aead.AES_256_GCM_SIV:
            return AESGCMSIV(key)
        case Aead.CHACHA20_POLY1305:
            return ChaCha20Poly1305(key)


def _place(record_id: bytes, version: int) -> bytes:
    return _numbered(_RECORD + b"\0" + record_id, version)


def _numbered(domain: bytes, number: int) -> bytes:
    return domain + b"\0" + number.to_bytes(8, "big")


def _padded(content: bytes) -> bytes:
    framed = len(content).to_bytes(4, "big") + content
    return framed + bytes(-len(framed) % PAD_BYTES)


def _unpadded(framed: bytes) -> bytes:
    length = int.from_bytes(framed[:4], "big")
    if len(framed) < 4 or length > len(framed) - 4:
        raise SealBroken
    return framed[4 : 4 + length]

"""Sealing: each epoch's secret to the audit key, and each event under a ratchet that forgets.

Whoever takes the memory of a running writer reads nothing that was written before. Opening needs the audit key,
which exists only in the vault. What is not promised: CPython may leave copies of a key in freed memory.
"""

import hashlib
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from broker.core.chain import (
    BLOCK_BYTES,
    HASH_BYTES,
    HEADER,
    HEADER_BYTES,
    LENGTH_BYTES,
    MAX_BODY,
    MIN_BODY,
    TAG_BYTES,
    RecordType,
)
from broker.core.secret import Secret

MAX_PLAINTEXT_BYTES = (MAX_BODY - MIN_BODY - TAG_BYTES) // BLOCK_BYTES * BLOCK_BYTES - 1

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_EPOCH_INFO = b"doorward/audit/epoch-secret/v1\0"
_RATCHET = b"doorward/audit/ratchet/v1"
NOT_OPENED = "its seal does not open"
_END_OF_PLAIN = 0x80
_NONCE = bytes(12)  # each message key is used once
_SECRET_BYTES = 32
_FRAME = struct.Struct(">IB")  # body_len, type
_EVENT = int(RecordType.EVENT)
_EVENT_EXTRA_BYTES = MIN_BODY + TAG_BYTES  # what its length counts beside the padded plaintext
_PADDINGS = tuple(b"\x80" + bytes(-(rest + 1) % BLOCK_BYTES) for rest in range(BLOCK_BYTES))  # by length, mod a block
_OPENING = struct.Struct(">32sB7xQ16x")

Entry: TypeAlias = tuple[int, bytes | str]
"""A record's number and the event's plaintext, or why there is none to give."""


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

    def seal_run(
        self, plains: Sequence[bytes], *, epoch: int, seq: int, head: bytes
    ) -> tuple[list[bytes], list[bytes]]:
        """The EVENT records of these plaintexts, from number `seq` on after `head`: their bytes, and their hashes.

        It gives what `pad`, `seal`, `header_of` and `seal_record` give one by one. This is what writing costs, so it
        makes no calls.
        """
        pack, sha256, blake2b, cipher = HEADER.pack, hashlib.sha256, hashlib.blake2b, ChaCha20Poly1305
        chain_key = self._chain_key
        records: list[bytes] = []
        hashes: list[bytes] = []
        add_record, add_hash = records.append, hashes.append
        for plain in plains:
            padded = plain + _PADDINGS[len(plain) % BLOCK_BYTES]
            header = pack(len(padded) + _EVENT_EXTRA_BYTES, _EVENT, 0, 0, epoch, seq)
            both = blake2b(_RATCHET, key=chain_key).digest()
            chain_key = both[:_SECRET_BYTES]
            front = header + cipher(both[_SECRET_BYTES:]).encrypt(_NONCE, padded, header + head)
            head = sha256(head + front).digest()
            add_record(front + head)
            add_hash(head)
            seq += 1
        self._chain_key = chain_key
        return records, hashes

    def open(self, sealed: bytes, associated: bytes) -> bytes | None:
        try:
            return self._next().decrypt(_NONCE, sealed, associated)
        except InvalidTag:
            return None

    def open_run(self, window: bytes, at: int, numbers: range, *, start_seq: int) -> tuple[list[Entry], int]:
        """The events among records that the strict parser has been over, and how many of them a COMMIT follows.

        The first record stands at `at`, after the hash of the one before. Gives unpadded plaintexts from `start_seq`
        on. Whoever reads a whole log spends the time here, so it makes no calls.
        """
        frame, blake2b, cipher = _FRAME.unpack_from, hashlib.blake2b, ChaCha20Poly1305
        chain_key, committed = self._chain_key, 0
        opened: list[Entry] = []
        add = opened.append
        for seq in numbers:
            body, kind = frame(window, at)
            end = at + LENGTH_BYTES + body
            if kind == _EVENT:
                both = blake2b(_RATCHET, key=chain_key).digest()
                chain_key = both[:_SECRET_BYTES]
                if seq >= start_seq:
                    payload_at = at + HEADER_BYTES
                    associated = window[at:payload_at] + window[at - HASH_BYTES : at]
                    try:
                        padded = cipher(both[_SECRET_BYTES:]).decrypt(_NONCE, window[payload_at:end], associated)
                    except InvalidTag:
                        add((seq, NOT_OPENED))
                    else:
                        plain = padded.rstrip(b"\0")  # as in `unpad`
                        whole = plain and plain[-1] == _END_OF_PLAIN and len(padded) - len(plain) < BLOCK_BYTES
                        add((seq, plain[:-1] if whole else NOT_OPENED))
            else:
                committed = len(opened)
            at = end + HASH_BYTES
        self._chain_key = chain_key
        return opened, committed

    def skip(self) -> None:
        self._chain_key = hashlib.blake2b(_RATCHET, key=self._chain_key).digest()[:_SECRET_BYTES]

    def _next(self) -> ChaCha20Poly1305:
        both = hashlib.blake2b(_RATCHET, key=self._chain_key).digest()
        self._chain_key = both[:_SECRET_BYTES]
        return ChaCha20Poly1305(both[_SECRET_BYTES:])


def pad(plain: bytes) -> bytes:
    """0x80 and zeros up to a whole number of blocks, so that the length tells little."""
    return plain + _PADDINGS[len(plain) % BLOCK_BYTES]


def unpad(padded: bytes) -> bytes | None:
    plain = padded.rstrip(b"\0")
    within_last_block = len(padded) - len(plain) < BLOCK_BYTES
    return plain[:-1] if plain.endswith(b"\x80") and within_last_block else None

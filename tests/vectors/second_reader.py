"""Opens the events of an audit log with its audit secret, from docs/audit-format.md, section 4, alone.

It takes the records as they stand: whether the log may be believed is the verifier's to say (second_verifier.py).
What does not open is a ValueError. HPKE (RFC 9180) is spelt out here, so that nothing but the text is needed.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tests.vectors.second_format import (
    HASH_BYTES,
    HEADER_BYTES,
    SEGMENT_BYTES_MAX,
    Type,
    own_segment,
    read_file,
    well_formed_header,
)

KEM_SUITE = b"KEM\0\x20"
HPKE_SUITE = b"HPKE\0\x20\0\1\0\3"  # DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305
ENC_BYTES = 32


class Opening(NamedTuple):
    """What an EPOCH record seals."""

    epoch_secret: bytes
    reason: int
    at_ms: int


class Opened(NamedTuple):
    seq: int
    event: dict[str, object]


def extract(suite: bytes, salt: bytes, label: bytes, key_material: bytes) -> bytes:
    return hmac.digest(salt, b"HPKE-v1" + suite + label + key_material, "sha256")


def expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """For at most 32 bytes: one block of HKDF-Expand."""
    labelled = length.to_bytes(2) + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, labelled + b"\1", "sha256")[:length]


def open_hpke(secret: bytes, info: bytes, sealed: bytes) -> bytes:
    """RFC 9180, base mode, the first message, no AAD."""
    private, enc = X25519PrivateKey.from_private_bytes(secret), sealed[:ENC_BYTES]
    shared = private.exchange(X25519PublicKey.from_public_bytes(enc))
    kem_context = enc + private.public_key().public_bytes_raw()
    shared = expand(KEM_SUITE, extract(KEM_SUITE, b"", b"eae_prk", shared), b"shared_secret", kem_context, 32)
    context = b"\0" + extract(HPKE_SUITE, b"", b"psk_id_hash", b"") + extract(HPKE_SUITE, b"", b"info_hash", info)
    schedule = extract(HPKE_SUITE, shared, b"secret", b"")
    key, nonce = (
        expand(HPKE_SUITE, schedule, label, context, size) for label, size in ((b"key", 32), (b"base_nonce", 12))
    )
    return decrypt(key, nonce, sealed[ENC_BYTES:], b"")


def decrypt(key: bytes, nonce: bytes, sealed: bytes, associated: bytes) -> bytes:
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, sealed, associated)
    except InvalidTag as cause:
        raise ValueError("sealed with another key, or changed") from cause


def open_epoch(secret: bytes, log_id: bytes, epoch: int, payload: bytes) -> Opening:
    info = b"doorward/audit/epoch-secret/v1\0" + log_id + epoch.to_bytes(4) + payload[8:40]
    plain = open_hpke(secret, info, payload[104:216])
    if any(plain[33:40]) or any(plain[48:64]):
        raise ValueError("an epoch's opening has bytes that must be zero")
    return Opening(plain[:32], plain[32], int.from_bytes(plain[40:48]))


def next_keys(chain_key: bytes) -> tuple[bytes, bytes]:
    """The chain key that follows, and the message key of this event."""
    x = hashlib.blake2b(b"doorward/audit/ratchet/v1", key=chain_key, digest_size=64).digest()
    return x[:32], x[32:]


def unpad(plain: bytes) -> bytes:
    event, mark, zeros = plain.rpartition(b"\x80")
    if not mark or any(zeros) or len(zeros) > 63 or len(plain) % 64:
        raise ValueError("an event's filling is not one byte 0x80 and as few zeros as fill a multiple of 64")
    return event


def open_events(directory: Path, secret: bytes) -> Iterator[Opened]:
    """The events of a log, in order."""
    for path in sorted(directory.glob("*.seg")):
        data = read_file(path, SEGMENT_BYTES_MAX)
        own = own_segment(data)
        if own is None:
            raise ValueError(f"{path.name} has no SEGMENT record")
        previous_h, start, chain_key = own.previous_h, 0, b""
        while header := well_formed_header(data, start):
            end = start + header.record_bytes
            payload = data[start + HEADER_BYTES : end - HASH_BYTES]
            if header.type == Type.EPOCH:
                chain_key = open_epoch(secret, own.identity.log_id, header.epoch, payload).epoch_secret
            if header.type == Type.EVENT:
                chain_key, message_key = next_keys(chain_key)
                plain = decrypt(message_key, bytes(12), payload, data[start : start + HEADER_BYTES] + previous_h)
                yield Opened(header.seq, json.loads(unpad(plain)))
            previous_h, start = data[end - HASH_BYTES : end], end

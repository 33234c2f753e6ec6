"""The short name of an approver's public key, the same in the client, the vault and the audit log."""

import hashlib


def key_id(public_key: bytes) -> str:
    """16 hexadecimal digits of SHA-256 over the raw public key. A name, not a proof."""
    return hashlib.sha256(public_key).hexdigest()[:16]

"""Who may decide: the list of approvers' public keys, and how one is put on it or taken off."""

from collections.abc import Sequence

from broker.contract.key_id import key_id
from broker.vault.approver_keys import PUBLIC_KEY_BYTES
from broker.vault.contents import Approver
from broker.vault.faults import Fault, VaultError

APPROVERS_MAX = 32


def with_another(approvers: Sequence[Approver], public_key: bytes, *, now_ms: int) -> tuple[Approver, ...]:
    """The list with one more. Raises VaultError for what is no key, and for one that is on it."""
    if len(public_key) != PUBLIC_KEY_BYTES:
        raise VaultError(Fault.INVALID, f"an approver's public key is an Ed25519 key of {PUBLIC_KEY_BYTES} bytes")
    if any(approver.public_key == public_key for approver in approvers):
        raise VaultError(Fault.NAME_TAKEN, "this approver key is enrolled already")
    if len(approvers) >= APPROVERS_MAX:
        raise VaultError(Fault.FULL, f"a vault takes {APPROVERS_MAX} approvers")
    return (*approvers, Approver(public_key=public_key, enrolled_at_ms=now_ms))


def without(approvers: Sequence[Approver], removed: str) -> tuple[Approver, ...]:
    """The list without the key of this id. The last one stays: without an approver nothing could be decided again."""
    left = tuple(approver for approver in approvers if key_id(approver.public_key) != removed)
    if len(left) == len(approvers):
        raise VaultError(Fault.UNKNOWN_CREDENTIAL, "no approver has a key of this id")
    if not left:
        raise VaultError(Fault.INVALID, "the last approver can't be removed; enrol another one first")
    return left

"""Who is on the list of approvers: each once, keys alone, and never nobody."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.contract.key_id import key_id
from broker.vault.approver_list import APPROVERS_MAX, with_another, without
from broker.vault.contents import Approver
from broker.vault.faults import Fault, VaultError


def fresh() -> bytes:
    return Ed25519PrivateKey.generate().public_key().public_bytes_raw()


FIRST = Approver(public_key=fresh(), enrolled_at_ms=1)


def test_another_key_is_put_on_the_list_and_taken_off() -> None:
    other = fresh()
    both = with_another((FIRST,), other, now_ms=5)

    assert (FIRST, Approver(public_key=other, enrolled_at_ms=5)) == both
    assert (FIRST,) == without(both, key_id(other))


@pytest.mark.parametrize(
    ("key", "fault"),
    [(b"short", Fault.INVALID), (FIRST.public_key, Fault.NAME_TAKEN)],
    ids=["no key", "twice"],
)
def test_what_is_no_new_key_is_refused(key: bytes, fault: Fault) -> None:
    with pytest.raises(VaultError) as refused:
        with_another((FIRST,), key, now_ms=5)

    assert fault is refused.value.fault


def test_the_list_is_bounded_and_the_last_one_stays() -> None:
    full = tuple(Approver(public_key=fresh(), enrolled_at_ms=1) for _ in range(APPROVERS_MAX))
    with pytest.raises(VaultError, match="takes 32 approvers"):
        with_another(full, fresh(), now_ms=5)
    with pytest.raises(VaultError, match="last approver"):
        without((FIRST,), key_id(FIRST.public_key))
    with pytest.raises(VaultError, match="no approver has"):
        without((FIRST,), "0" * 16)

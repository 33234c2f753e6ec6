"""What the vault keeps of a damaged audit log that a human took over, and how it is taken over."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.contract.reasons import VaultState
from broker.contract.wire import canonical
from broker.core.damage import KnownDamage
from broker.vault import (
    NEEDS_BACKUP,
    Opened,
    QuarantineReason,
    Vault,
    VaultQuarantined,
    in_words,
    remedy,
)
from broker.vault.contents import decode_damage
from broker.vault.fields import FieldError
from tests.fakes.vaults import KEK, ROOT_SEED, new_vault

DAMAGE = KnownDamage(
    verdict="ALTERED",
    segment="00000002.seg",
    offset=64,
    seq=900,
    files=((2, 1000), (3, 77)),
    sha256="a" * 64,
    resumed=3,
    at_ms=5,
)


def test_known_damage_is_kept_sealed_replaced_and_forgotten(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert vault.known_damage() is None
        vault.remember_damage(DAMAGE)
        before = vault.generation
        vault.remember_damage(DAMAGE)
        assert before == vault.generation, "nothing new is not written"
    assert b"ALTERED" not in path.read_bytes()
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert DAMAGE == vault.known_damage()
        vault.remember_damage(None)
        assert vault.known_damage() is None
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert vault.known_damage() is None


@pytest.mark.parametrize("files", [[[1]], [["1", 2]], [5], "x"])
def test_a_copy_in_clear_that_was_edited_is_no_damage(files: object) -> None:
    whole = DAMAGE.to_json()
    assert DAMAGE == decode_damage(canonical(whole))
    nowhere = {**whole, "segment": None, "offset": None, "seq": None}
    assert decode_damage(canonical(nowhere)).segment is None
    with pytest.raises(FieldError):
        decode_damage(canonical({**whole, "files": files}))  # type: ignore[dict-item]  # any JSON that there is


def test_taking_over_asks_first_and_is_left_as_it_was_where_that_refuses(tmp_path: Path) -> None:
    def refuse(opened: Opened) -> int:
        assert opened.known_damage() is None
        raise ValueError("not signed")

    with Vault.open(new_vault(tmp_path)) as vault:
        vault.quarantine(QuarantineReason.AUDIT_ALTERED)
        with pytest.raises(ValueError, match="not signed"):
            vault.readopt(KEK, floor=refuse)
        assert (VaultState.QUARANTINED, QuarantineReason.AUDIT_ALTERED) == (vault.state, vault.quarantine_reason)
        vault.readopt(KEK, generation_floor=3, floor=lambda _: 70)
        assert (VaultState.READY, 71) == (vault.state, vault.generation)


def test_the_root_signs_only_while_the_vault_is_open(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        signature = vault.sign_as_root(b"head")
        public = Ed25519PrivateKey.from_private_bytes(ROOT_SEED.reveal()).public_key()
        public.verify(signature, b"head")
        vault.quarantine(QuarantineReason.AUDIT_GAP)
        with pytest.raises(VaultQuarantined, match="records of the audit log are missing"):
            vault.sign_as_root(b"head")


def test_every_reason_has_words_and_a_way_out() -> None:
    for reason in QuarantineReason:
        assert in_words(reason)
        assert ("backup" in remedy(reason)) == (reason in NEEDS_BACKUP)

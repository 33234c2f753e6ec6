import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.secret import Secret
from broker.vault.sealed import Aead, SealBroken, VaultKey, available, preferred, seal, unseal

ID = b"i" * 16
KEY = b"k" * 32


@pytest.mark.parametrize("aead", list(Aead))
@given(content=st.binary(max_size=300), version=st.integers(1, 1 << 40))
def test_sealed_content_opens_in_its_own_place_alone(aead: Aead, content: bytes, version: int) -> None:
    key = VaultKey(aead, KEY)
    blob = key.seal_record(ID, version, content)

    assert content == key.open_record(ID, version, blob)
    assert len(blob) == 28 + (len(content) + 4 + 63) // 64 * 64
    for record_id, other in ((ID, version + 1), (b"j" * 16, version), (ID[:15], version)):
        with pytest.raises(SealBroken):
            key.open_record(record_id, other, blob)
    with pytest.raises(SealBroken):
        key.open_index(version, blob)


@pytest.mark.parametrize("aead", list(Aead))
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_changed_bit_is_noticed(aead: Aead, at: int, bit: int) -> None:
    key = VaultKey(aead, KEY)
    blob = bytearray(key.seal_index(3, b"content"))
    blob[at % len(blob)] ^= 1 << bit
    with pytest.raises(SealBroken):
        key.open_index(3, bytes(blob))


@pytest.mark.parametrize("blob", [b"", b"short", bytes(28), bytes(200)])
def test_bytes_that_nobody_sealed_do_not_open(blob: bytes) -> None:
    with pytest.raises(SealBroken):
        VaultKey(preferred(), KEY).open_record(ID, 1, blob)


def test_padding_that_does_not_add_up_is_refused() -> None:
    aead = preferred()
    place = b"doorward/vault/index/v1\0" + (1).to_bytes(8, "big")
    index_key = VaultKey(aead, KEY)._derive(b"doorward/vault/index/v1")
    for framed in (b"\0\0", b"\0\0\0\5abcd"):
        with pytest.raises(SealBroken):
            VaultKey(aead, KEY).open_index(1, seal(aead, index_key, framed, place))


def test_the_same_content_is_never_sealed_the_same() -> None:
    key = VaultKey(preferred(), KEY)

    assert key.seal_record(ID, 1, b"x") != key.seal_record(ID, 1, b"x")


def test_a_wrapped_key_opens_with_its_own_key_in_its_own_place() -> None:
    key = VaultKey.fresh(preferred())
    wrapped = key.wrapped(Secret(KEY), b"here")
    again = VaultKey.unwrapped(key.aead, Secret(KEY), wrapped, b"here")

    assert key.for_purpose("x") == again.for_purpose("x")
    for kek, place in ((Secret(b"w" * 32), b"here"), (Secret(KEY), b"there"), (Secret(b"short"), b"here")):
        with pytest.raises(SealBroken):
            VaultKey.unwrapped(key.aead, kek, wrapped, place)
    with pytest.raises(SealBroken):
        VaultKey.unwrapped(key.aead, Secret(KEY), seal(key.aead, KEY, b"short", b"here"), b"here")


def test_a_wiped_key_gives_nothing() -> None:
    key = VaultKey.fresh(preferred())
    key.wipe()

    assert bytes(32) == bytes(key._key)
    with pytest.raises(SealBroken):
        key.for_purpose("x")
    with pytest.raises(SealBroken):
        key.wrapped(Secret(KEY), b"")
    with pytest.raises(SealBroken):
        key.seal_record(ID, 1, b"x")


def test_the_cipher_of_a_new_vault_is_one_that_the_machine_has() -> None:
    assert available(preferred())
    assert b"x" == unseal(preferred(), KEY, seal(preferred(), KEY, b"x", b""), b"")
    assert "canary" not in repr(VaultKey(preferred(), b"canary" + bytes(26)))

from broker.contract.key_id import key_id


def test_a_key_has_the_same_short_name_everywhere() -> None:
    assert "66687aadf862bd77" == key_id(bytes(32))
    assert key_id(bytes(32)) != key_id(b"\1" + bytes(31))

import pytest

from broker.contract.unlock_methods import FIRST_HUMAN_UID, UnlockMethod, keyring_alone_refused

PASSPHRASE, KEYRING, BOTH = UnlockMethod.PASSPHRASE, UnlockMethod.KEYRING, UnlockMethod.BOTH


def test_what_each_method_takes() -> None:
    assert [PASSPHRASE, BOTH] == [method for method in UnlockMethod if method.takes_passphrase]
    assert [KEYRING, BOTH] == [method for method in UnlockMethod if method.takes_share]


@pytest.mark.parametrize("uid", [0, FIRST_HUMAN_UID, 65_534])
def test_the_keyring_alone_is_refused_to_who_logs_in(uid: int) -> None:
    refused = keyring_alone_refused([PASSPHRASE, KEYRING], uid)

    assert refused is not None
    assert "passphrase+keyring" in refused, "it says what to use instead"


@pytest.mark.parametrize("uid", [1, FIRST_HUMAN_UID - 1])
def test_an_account_of_the_daemon_s_own_may_have_it(uid: int) -> None:
    assert keyring_alone_refused([KEYRING], uid) is None


def test_other_methods_are_refused_to_nobody() -> None:
    assert {None} == {keyring_alone_refused([PASSPHRASE, BOTH], uid) for uid in (0, 1, FIRST_HUMAN_UID)}

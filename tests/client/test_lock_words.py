"""Why a vault was locked, in words."""

from broker.client.lock_words import lock_words
from broker.contract.reasons import LockReason


def test_every_reason_has_words_of_its_own() -> None:
    assert len(LockReason) == len({lock_words(reason.value) for reason in LockReason} - {None})


def test_a_reason_that_is_not_known_has_none() -> None:
    assert [None, None] == [lock_words(None), lock_words("of another version")]

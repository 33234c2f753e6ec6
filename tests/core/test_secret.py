import copy
import json
import pickle

import pytest

from broker.core.secret import Secret

CANARY = "canary-\u00e4-5f1e"


def test_the_value_comes_back_by_reveal_alone() -> None:
    assert CANARY.encode() == Secret(CANARY).reveal()
    assert CANARY.encode() == Secret(CANARY.encode()).reveal()


def test_a_secret_shows_nothing_when_printed() -> None:
    assert repr(Secret(CANARY)) == "<secret>"
    assert repr([Secret(CANARY)]) == "[<secret>]"


def test_a_secret_has_no_spelling() -> None:
    secret = Secret(CANARY)

    for spell in (str, format, "{}".format, lambda value: f"{value!s}", lambda value: "%s" % value):  # noqa: UP031 - a spelling too
        with pytest.raises(TypeError, match="no spelling"):
            spell(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        bytes(secret)  # type: ignore[call-overload]  # that is the point


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret(CANARY), protocol=protocol)


def test_a_secret_is_not_copied_behind_the_back() -> None:
    with pytest.raises(TypeError):
        copy.deepcopy(Secret(CANARY))
    with pytest.raises(TypeError):
        copy.copy(Secret(CANARY))


def test_secrets_are_equal_by_value_and_never_to_plain_bytes() -> None:
    assert Secret(CANARY) == Secret(CANARY.encode())
    assert Secret(CANARY) != Secret("canary-other")
    assert Secret(CANARY) != CANARY.encode()


def test_a_secret_is_no_key_of_a_table() -> None:
    with pytest.raises(TypeError, match="no key"):
        {Secret(CANARY)}


def test_a_secret_tells_its_length() -> None:
    assert len(CANARY.encode()) == len(Secret(CANARY))


def test_nothing_can_be_hung_on_a_secret() -> None:
    with pytest.raises(AttributeError):
        Secret(CANARY).note = "x"  # type: ignore[attr-defined]  # that is the point

import pytest

from broker.contract.reasons import Effect
from broker.core.effects import METHODS, READING, effect_of, effect_word, is_destructive


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_not_known_to_read_is_taken_for_a_write(method: str) -> None:
    assert (Effect.READ if method in READING else Effect.WRITE) is effect_of(method)


def test_delete_alone_destroys_by_its_name() -> None:
    assert ["DELETE"] == [method for method in METHODS if is_destructive(method)]


@pytest.mark.parametrize(
    ("effect", "destructive", "word"),
    [
        (Effect.READ, False, "READ"),
        (Effect.WRITE, False, "WRITE"),
        (Effect.EXEC, False, "RUN"),
        (Effect.WRITE, True, "DELETE"),
        (Effect.EXEC, True, "DELETE"),
    ],
)
def test_humans_read_the_graver_word(effect: Effect, destructive: bool, word: str) -> None:  # noqa: FBT001 - a case
    assert word == effect_word(effect, destructive=destructive)

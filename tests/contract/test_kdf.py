from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.kdf import (
    MAX_ITERATIONS,
    MAX_LANES,
    MAX_MEMORY_KIB,
    MAX_WORK_KIB,
    MIN_MEMORY_KIB,
    REDUCED_FLOOR,
    STANDARD_FLOOR,
    KdfError,
    KdfParams,
)
from broker.contract.wire import JsonValue, canonical, parse_json

SALT = b"s" * 16
CHEAP = KdfParams(memory_kib=MIN_MEMORY_KIB, iterations=1, lanes=1, salt=SALT)
SPELLED: dict[str, JsonValue] = {
    "algorithm": "argon2id",
    "memory_kib": 65536,
    "iterations": 3,
    "lanes": 4,
    "salt": "c2FsdHNhbHRzYWx0c2FsdA==",
}


@given(
    memory_kib=st.integers(MIN_MEMORY_KIB, MAX_MEMORY_KIB),
    iterations=st.integers(1, MAX_WORK_KIB // MAX_MEMORY_KIB),
    lanes=st.integers(1, MAX_LANES),
    salt=st.binary(min_size=16, max_size=64),
)
def test_parameters_survive_the_wire(memory_kib: int, iterations: int, lanes: int, salt: bytes) -> None:
    kdf = KdfParams(memory_kib=memory_kib, iterations=iterations, lanes=lanes, salt=salt)

    assert kdf == KdfParams.from_json(parse_json(canonical(kdf.to_json())))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory_kib", MIN_MEMORY_KIB - 1),
        ("memory_kib", MAX_MEMORY_KIB + 1),
        ("memory_kib", 1 << 40),
        ("iterations", 0),
        ("iterations", MAX_ITERATIONS + 1),
        ("lanes", 0),
        ("lanes", MAX_LANES + 1),
        ("salt", b"s" * 15),
        ("salt", b"s" * 65),
    ],
)
def test_parameters_out_of_bounds_do_not_exist(name: str, value: object) -> None:
    with pytest.raises(KdfError):
        replace(CHEAP, **{name: value})  # type: ignore[arg-type]  # one field at a time, of its type


def test_much_memory_and_many_passes_together_are_refused() -> None:
    with pytest.raises(KdfError, match="times"):
        KdfParams(memory_kib=MAX_MEMORY_KIB, iterations=MAX_WORK_KIB // MAX_MEMORY_KIB + 1, lanes=4, salt=SALT)


def test_cheap_parameters_meet_the_reduced_floor_alone() -> None:
    assert CHEAP.meets(REDUCED_FLOOR)
    assert not CHEAP.meets(STANDARD_FLOOR)
    assert not replace(CHEAP, memory_kib=STANDARD_FLOOR.memory_kib).meets(STANDARD_FLOOR)
    assert replace(CHEAP, memory_kib=STANDARD_FLOOR.memory_kib, iterations=3).meets(STANDARD_FLOOR)


@pytest.mark.parametrize(
    "changed",
    [
        {"algorithm": "argon2d"},
        {"memory_kib": "65536"},
        {"memory_kib": 65536.0},
        {"iterations": True},
        {"salt": 7},
        {"salt": "not base64!"},
        {"salt": "QUJ\u00e9"},
        {"salt": "c2FsdA"},
        {"surprise": 1},
    ],
)
def test_anything_unexpected_is_refused(changed: dict[str, JsonValue]) -> None:
    with pytest.raises(KdfError):
        KdfParams.from_json({**SPELLED, **changed})


@pytest.mark.parametrize("value", [None, [], "argon2id", {}, {"algorithm": "argon2id"}])
def test_what_is_no_object_of_these_fields_is_refused(value: JsonValue) -> None:
    with pytest.raises(KdfError, match="exactly"):
        KdfParams.from_json(value)

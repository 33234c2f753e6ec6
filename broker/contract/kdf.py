"""Parameters of the passphrase's key derivation, spelled once for the vault that keeps and the client that uses them.

A value of this type is affordable: a hostile file or daemon can make no client hang or eat its memory with it.
Whether it is strong enough is asked with `meets(floor)`, by whoever is about to use it. Derives nothing itself.
"""

import base64
from dataclasses import dataclass

from broker.contract.wire import JsonValue

ALGORITHM = "argon2id"
MIN_MEMORY_KIB = 8 * 1024
MAX_MEMORY_KIB = 1024 * 1024
MAX_ITERATIONS = 64
MAX_LANES = 8
MAX_WORK_KIB = 8 * 1024 * 1024  # memory times iterations: some ten seconds on a slow machine
SALT_BYTES = range(16, 65)
_FIELDS = frozenset({"algorithm", "memory_kib", "iterations", "lanes", "salt"})


class KdfError(ValueError):
    """The parameters are no parameters, or outside what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KdfFloor:
    """The least cost of one guess that a user of parameters accepts."""

    memory_kib: int
    iterations: int


STANDARD_FLOOR = KdfFloor(memory_kib=64 * 1024, iterations=3)  # RFC 9106, section 4, second recommended option
REDUCED_FLOOR = KdfFloor(memory_kib=MIN_MEMORY_KIB, iterations=1)  # tests and demonstrations: protects nothing real


@dataclass(frozen=True, slots=True, kw_only=True)
class KdfParams:
    """Argon2id's cost and salt. Raises KdfError outside the accepted bounds."""

    memory_kib: int
    iterations: int
    lanes: int
    salt: bytes

    def __post_init__(self) -> None:
        if not MIN_MEMORY_KIB <= self.memory_kib <= MAX_MEMORY_KIB:
            raise KdfError(f"memory_kib is not within {MIN_MEMORY_KIB} and {MAX_MEMORY_KIB}")
        if not 1 <= self.iterations <= MAX_ITERATIONS:
            raise KdfError(f"iterations is not within 1 and {MAX_ITERATIONS}")
        if not 1 <= self.lanes <= MAX_LANES:
            raise KdfError(f"lanes is not within 1 and {MAX_LANES}")
        if self.memory_kib * self.iterations > MAX_WORK_KIB:
            raise KdfError(f"memory_kib times iterations is over {MAX_WORK_KIB}")
        if len(self.salt) not in SALT_BYTES:
            raise KdfError(f"the salt has not {SALT_BYTES[0]} to {SALT_BYTES[-1]} bytes")

    def meets(self, floor: KdfFloor) -> bool:
        return self.memory_kib >= floor.memory_kib and self.iterations >= floor.iterations

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "algorithm": ALGORITHM,
            "memory_kib": self.memory_kib,
            "iterations": self.iterations,
            "lanes": self.lanes,
            "salt": base64.b64encode(self.salt).decode("ascii"),
        }

    @staticmethod
    def from_json(value: JsonValue) -> "KdfParams":
        """Strictly: exactly the fields of `to_json`, of their types and within bounds. Raises KdfError."""
        if not isinstance(value, dict) or value.keys() != _FIELDS:
            raise KdfError(f"the parameters have exactly {', '.join(sorted(_FIELDS))}")
        if value["algorithm"] != ALGORITHM:
            raise KdfError(f"the algorithm is not {ALGORITHM}")
        return KdfParams(
            memory_kib=_integer(value["memory_kib"], "memory_kib"),
            iterations=_integer(value["iterations"], "iterations"),
            lanes=_integer(value["lanes"], "lanes"),
            salt=_octets(value["salt"]),
        )


def _integer(value: JsonValue, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise KdfError(f"{name} is no integer")
    return value


def _octets(value: JsonValue) -> bytes:
    if not isinstance(value, str):
        raise KdfError("the salt is no text")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise KdfError("the salt is not base64") from None

"""The set of files that a policy is: their names and bytes, and the digest that a human trusts.

The digest covers every file of the set, the CA files among them, and nothing else: no path, time or mode.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.contract.wire import digest
from broker.core.policy.faults import Fault


class PolicyError(Exception):
    """The files can't be read or don't load. `faults` holds every fault where the files themselves are at fault."""

    def __init__(self, message: str, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """One file of the set. `name` is its own in the user's directory, and its whole path in the machine's."""

    name: str
    raw: bytes
    modified_at_ms: int | None = field(default=None, compare=False)
    uid: int | None = field(default=None, compare=False)


def policy_digest(files: Iterable[PolicyFile]) -> str:
    """`sha256:<hex>`: SHA-256 over `doorward/policy-set/v1`, a NUL, and canonical JSON.

    The JSON is a list of `{"name": ..., "sha256": ...}`, one for each file, sorted by name; `sha256` is the hex digest
    of the file's bytes.
    """
    ordered = sorted(files, key=lambda file: (file.name, file.raw))
    return digest(
        "doorward/policy-set/v1",
        [{"name": file.name, "sha256": hashlib.sha256(file.raw).hexdigest()} for file in ordered],
    )

"""The policy in force: read from what the vault has sealed as trusted, never from the files as they lie there.

The files are read to show what is pending and to be trusted by a human's signature; until then nothing changes.
"""

import hashlib
import os
from dataclasses import dataclass

from broker.client.places import Places
from broker.contract.wire import JsonValue
from broker.core.policy.diff import diff_decisions
from broker.core.policy.faults import Fault
from broker.core.policy.model import Policy
from broker.policyfiles.check import check
from broker.policyfiles.directory import read_directory
from broker.policyfiles.files import PolicyError, PolicyFile, policy_digest
from broker.policyfiles.load import load_policy
from broker.vault import TrustedPolicy

NOTHING = Policy(digest="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The files as they are now: their digest, what is wrong with them, and what trusting them would change."""

    files: tuple[PolicyFile, ...]
    digest: str
    policy: Policy | None
    faults: tuple[JsonValue, ...]
    warnings: tuple[JsonValue, ...] = ()
    changes: tuple[JsonValue, ...] = ()


class Rulebook:
    """Implements ports.PolicySource. Empty while the vault is locked, when nothing runs anyway."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._current = NOTHING
        self._counter = 0

    def current(self) -> Policy:
        return self._current

    @property
    def counter(self) -> int:
        return self._counter

    @property
    def digest(self) -> str | None:
        return self._current.digest or None

    def use(self, trusted: TrustedPolicy | None) -> None:
        """Put what the vault holds in force. Raises PolicyError where this version can't read it any more."""
        if trusted is None:
            self._current, self._counter = NOTHING, 0
            return
        files = tuple(PolicyFile(name=name, raw=raw) for name, raw in trusted.files)
        self._current, self._counter = load_policy(files), trusted.counter

    def forget(self) -> None:
        self._current = NOTHING

    def read(self) -> tuple[PolicyFile, ...]:
        """The files as they lie there now. Raises PolicyError."""
        return read_directory(self._places.policies, os.geteuid())

    def is_pending(self) -> bool:
        """Whether the files differ from what is in force. Raises PolicyError where they can't be read."""
        return policy_digest(self.read()) != self._current.digest

    @staticmethod
    def sha256(file: PolicyFile) -> str:
        return hashlib.sha256(file.raw).hexdigest()

    def listed(self, trusted: TrustedPolicy) -> list[JsonValue]:
        """The files in force, by name and digest."""
        return [{"name": name, "sha256": hashlib.sha256(raw).hexdigest()} for name, raw in trusted.files]

    def pending(self, bindings: dict[str, tuple[str, ...]] | None) -> Pending:
        """Look at the files. `bindings` are the vault's, None while it is locked."""
        try:
            files = self.read()
        except PolicyError as error:
            return Pending(files=(), digest="", policy=None, faults=_told(error))
        report = check(files, bindings)
        return Pending(
            files=files,
            digest=policy_digest(files),
            policy=report.policy,
            faults=tuple(fault.to_json() for fault in report.faults),
            warnings=tuple(warning.to_json() for warning in report.warnings),
            changes=()
            if report.policy is None
            else tuple(change.to_json() for change in diff_decisions(self._current, report.policy)),
        )


def _told(error: PolicyError) -> tuple[JsonValue, ...]:
    """The files could not even be read: every fault, or what the error itself says."""
    if error.faults:
        return tuple(fault.to_json() for fault in error.faults)
    return (Fault(file="", line=0, key="", problem=str(error)).to_json(),)

"""The gate's last step: everything is looked at once more, and only then a permit exists.

A permit covers exactly one frozen request at one vault term, policy and credential version. Nothing else makes one,
and no permit can be turned into another's: it does not keep the seal that it was made with.
"""

from dataclasses import InitVar, dataclass
from typing import TypeAlias

from broker.contract.reasons import VaultState
from broker.contract.result import GateReport
from broker.core import refusals
from broker.core._seal import SEAL, Seal
from broker.core.channels import Frozen
from broker.core.refusals import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Without one no executor can be called."""

    frozen: Frozen
    correlation_id: str
    credential_version: int | None
    vault_term: int
    gate: GateReport
    idempotency_key: str | None = None  # travels with the request; the ledger has it
    seal: InitVar[Seal]

    def __post_init__(self, seal: Seal) -> None:
        if seal is not SEAL:
            raise TypeError("a permit comes from the gate alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a decision was made under; compared before a human is asked, and before the permit is made."""

    vault: VaultState
    vault_term: int
    policy_digest: str
    credential_version: int | None
    session_alive: bool
    frozen_daemon: bool
    request_digest: str
    grant_held: bool = True  # the grant that it took a use of, if it took one


Ruling: TypeAlias = Permit | Refusal


def recheck(*, asked: Standing, now: Standing, frozen: Frozen, correlation_id: str, gate: GateReport) -> Ruling:
    """Step 7 of the ladder: anything that changed since the decision voids it."""
    void = voided(asked=asked, now=now, frozen=frozen)
    if void is not None:
        return void
    return _permit(frozen, correlation_id, now.credential_version, now.vault_term, gate)


def under_key(permit: Permit, key: str) -> Permit:
    """The same permit for the same request, which goes out with this key of the broker's."""
    return _permit(permit.frozen, permit.correlation_id, permit.credential_version, permit.vault_term, permit.gate, key)


def reading(permit: Permit, frozen: Frozen) -> Permit:
    """A permit for a read that belongs to what was permitted: of the same service, with the same credential.

    Raises ValueError for anything else: a permit for a change covers that one change.
    """
    if frozen.is_write or frozen.service != permit.frozen.service:
        raise ValueError("what belongs to a permit is a read of the same service")
    return _permit(frozen, permit.correlation_id, permit.credential_version, permit.vault_term, permit.gate)


def _permit(
    frozen: Frozen,
    correlation_id: str,
    credential_version: int | None,
    vault_term: int,
    gate: GateReport,
    key: str | None = None,
) -> Permit:
    """The one place that sets the seal."""
    return Permit(
        frozen=frozen,
        correlation_id=correlation_id,
        credential_version=credential_version,
        vault_term=vault_term,
        gate=gate,
        idempotency_key=key,
        seal=SEAL,
    )


def voided(*, asked: Standing, now: Standing, frozen: Frozen) -> Refusal | None:
    """What ends a request whose circumstances changed since its decision; None where nothing did."""
    if now.frozen_daemon:
        return refusals.frozen()
    if now.vault is not VaultState.READY or now.vault_term != asked.vault_term:
        return refusals.vault(now.vault)
    if not now.session_alive:
        return refusals.session_ended()
    changed = _changed(asked, now, frozen)
    return None if changed is None else refusals.void(changed)


def _changed(asked: Standing, now: Standing, frozen: Frozen) -> str | None:
    if now.policy_digest != asked.policy_digest:
        return "policy"
    if now.credential_version != asked.credential_version:
        return "credential"
    if not now.grant_held:
        return "grant"
    if frozen.digest != asked.request_digest or now.request_digest != asked.request_digest:
        return "request"
    return None

"""The gate's last step: everything is looked at once more, and only then a permit exists.

A permit covers exactly one frozen request at one vault term, policy and credential version. Nothing else makes one,
and no permit can be turned into another's: it does not keep the seal that it was made with.
"""

from dataclasses import InitVar, dataclass
from typing import TypeAlias

from broker.contract.reasons import Category, RemoteEffect, Retry, VaultState
from broker.contract.result import GateReport
from broker.core._seal import SEAL, Seal
from broker.core.frozen import FrozenRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Without one no executor can be called."""

    frozen: FrozenRequest
    correlation_id: str
    credential_version: int | None
    vault_term: int
    gate: GateReport
    seal: InitVar[Seal]

    def __post_init__(self, seal: Seal) -> None:
        if seal is not SEAL:
            raise TypeError("a permit comes from the gate alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A gate's no, as the agent will read it."""

    category: Category
    code: str
    retry: Retry
    message: str
    remote_effect: RemoteEffect = RemoteEffect.NONE
    retry_after_s: int | None = None
    next_command: str | None = None


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


Ruling: TypeAlias = Permit | Refusal


def recheck(*, asked: Standing, now: Standing, frozen: FrozenRequest, correlation_id: str, gate: GateReport) -> Ruling:
    """Step 7 of the ladder: anything that changed since the decision voids it."""
    void = voided(asked=asked, now=now, frozen=frozen)
    if void is not None:
        return void
    return Permit(
        frozen=frozen,
        correlation_id=correlation_id,
        credential_version=now.credential_version,
        vault_term=now.vault_term,
        gate=gate,
        seal=SEAL,
    )


def voided(*, asked: Standing, now: Standing, frozen: FrozenRequest) -> Refusal | None:
    """What ends a request whose circumstances changed since its decision; None where nothing did."""
    if now.frozen_daemon:
        return frozen_refusal()
    if now.vault is not VaultState.READY or now.vault_term != asked.vault_term:
        return vault_refusal(now.vault)
    if not now.session_alive:
        return session_ended()
    changed = _changed(asked, now, frozen)
    if changed is None:
        return None
    return Refusal(
        category=Category.APPROVAL_TIMEOUT,
        code="approval_void",
        retry=Retry.AFTER_HUMAN,
        message=f"The {changed} changed after the decision, so it no longer holds; nothing was sent. Ask again.",
    )


def frozen_refusal() -> Refusal:
    return Refusal(
        category=Category.BROKER_UNAVAILABLE,
        code="frozen",
        retry=Retry.AFTER_HUMAN,
        message="A human froze the broker; nothing was sent. Ask them to run: doorward thaw",
    )


def session_ended() -> Refusal:
    return Refusal(
        category=Category.SESSION_DENIED,
        code="session_ended",
        retry=Retry.NEVER,
        message="The session ended before the request was sent; nothing was sent.",
    )


def vault_refusal(state: VaultState) -> Refusal:
    """The refusal of step 2 and of a lock in between. A vault that was re-opened counts as locked in between."""
    if state is VaultState.QUARANTINED:
        code, message = (
            "quarantined",
            "The vault is quarantined: an integrity check failed. A human has to look: doorward audit verify",
        )
    elif state is VaultState.UNLOCKING:
        code, message = (
            "unlocking",
            "The vault is being unlocked; nothing was sent. Ask again when a human has done it.",
        )
    elif state is VaultState.READY:
        code, message = "locked", "The vault was locked meanwhile and is open again; nothing was sent. Ask again."
    else:
        code, message = "locked", "The vault is locked; nothing was sent. A human has to run: doorward unlock"
    return Refusal(category=Category.VAULT_LOCKED, code=code, retry=Retry.AFTER_HUMAN, message=message)


def _changed(asked: Standing, now: Standing, frozen: FrozenRequest) -> str | None:
    if now.policy_digest != asked.policy_digest:
        return "policy"
    if now.credential_version != asked.credential_version:
        return "credential"
    if frozen.digest != asked.request_digest or now.request_digest != asked.request_digest:
        return "request"
    return None

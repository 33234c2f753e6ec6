"""What is told where a host could not even be looked at, or shows a key that nobody has accepted, before any card."""

from broker.contract.reasons import Category, Retry
from broker.contract.result import MESSAGE_LIMIT
from broker.core.classify.ssh import classify_ssh
from broker.core.refusals import Refusal
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.outcome import HostKeySeen, SshFault, SshOutcome, SshPhase

_ABOUT_KEYS = frozenset({SshFault.HOST_KEY_UNKNOWN, SshFault.HOST_KEY_CHANGED, SshFault.HOST_KEY_REVOKED})


def unreachable(frozen: FrozenSsh, fault: SshFault) -> Refusal:
    """As if the attempt had ended there; nobody was asked and no login was tried."""
    phase = SshPhase.HOST_KEY if fault in _ABOUT_KEYS else SshPhase.CONNECTING
    verdict = classify_ssh(frozen, SshOutcome(phase=phase, fault=fault), prior_doubt=False).verdict
    return Refusal(
        category=verdict.category,
        code=verdict.code,
        retry=verdict.retry,
        message=verdict.message,
        retry_after_s=verdict.retry_after_s,
    )


def unseen_key(frozen: FrozenSsh, seen: HostKeySeen) -> Refusal:
    """A first contact that no card would show: somebody has to see the key before it is trusted."""
    return Refusal(
        category=Category.LOCAL_FAILURE,
        code="host_key_unknown",
        retry=Retry.AFTER_HUMAN,
        message=(
            f"Nobody has accepted the key of {frozen.host.name} yet, and no rule asks about this request, so nothing "
            f"was sent. A human has to pin it in the policy, or answer one card. Offered: {seen.fingerprint}"
        )[:MESSAGE_LIMIT],
    )

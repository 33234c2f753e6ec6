"""Policy files on disk: reading them safely, loading them whole or not at all, checking them, finding shipped packs."""

from broker.core.policy.faults import Fault
from broker.policyfiles.files import PolicyError, PolicyFile, policy_digest

__all__ = ["Fault", "PolicyError", "PolicyFile", "policy_digest"]

"""A policy that a test puts in force."""

from broker.core.policy.model import Policy


class HeldPolicy:
    """Implements ports.PolicySource."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def current(self) -> Policy:
        return self.policy

"""A wish for a credential: which service of the policy it is for, and who asks."""

from dataclasses import dataclass

from broker.core.identity import Caller
from broker.core.policy.model import Policy, Service
from broker.ports import SessionView


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """`purpose` is the agent's own word; service, credential and places are the policy's."""

    correlation_id: str
    caller: Caller
    session: SessionView
    policy: Policy
    service: Service
    credential: str
    purpose: str

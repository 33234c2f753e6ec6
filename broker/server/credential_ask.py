"""A wish for a credential as it came in over agent.sock: the name of a service, and a purpose in the agent's words."""

from dataclasses import dataclass

from broker.core.identity import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialAsk:
    """It names no host and holds no value; whatever else was said was refused by its schema."""

    correlation_id: str
    caller: Caller
    service: str
    purpose: str
    body_digest: str

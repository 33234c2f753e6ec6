"""What is known of a host's key before anybody logs in: the state that a card shows, and what a yes then covers."""

from dataclasses import dataclass
from enum import StrEnum

from broker.core.ssh.model import HostKeyMode, SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen


class KeyState(StrEnum):
    KNOWN_HOSTS = "known_hosts"  # the file that the policy names has to hold it
    PINNED = "pinned"  # the policy names its fingerprint
    ACCEPTED = "accepted"  # a human saw it at the first contact, and it is that one or none
    UNVERIFIED = "unverified"  # first contact: nothing to compare it with


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """Of a host before anybody logs in. `seen` is the key that was offered at the first contact."""

    state: KeyState
    seen: HostKeySeen | None = None
    store: StoreSeen | None = None  # where markers lay when a command was last sent there


def declared_key(host: SshHost, accepted: tuple[str, ...]) -> HostKey | None:
    """What is known without asking the host; None where it has to be looked at. `accepted` are keys of before."""
    match host.trust.mode:
        case HostKeyMode.STRICT:
            return HostKey(state=KeyState.KNOWN_HOSTS)
        case HostKeyMode.PINNED:
            return HostKey(state=KeyState.PINNED)
        case HostKeyMode.ACCEPT_NEW:
            return HostKey(state=KeyState.ACCEPTED) if accepted else None

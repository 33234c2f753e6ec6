"""What can be asked, by channel, and the one way from an ask to what is frozen."""

from typing import TypeAlias

from broker.core.channels import Frozen
from broker.core.collect.request import CollectAsk, Kept, resolve_collect
from broker.core.policy.model import Policy
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.core.ssh.resolve import LookUpAsk, SshAsk, resolve_look_up, resolve_ssh

Asked: TypeAlias = HttpAsk | CollectAsk | SshAsk | LookUpAsk


def resolved(policy: Policy, ask: Asked, kept: Kept | None = None) -> Frozen | Invalid:
    """The frozen request, or what is wrong with it. `kept` is the walk that a collection goes on with."""
    match ask:
        case HttpAsk():
            return resolve(policy, ask)
        case CollectAsk():
            return resolve_collect(policy, ask, kept)
        case SshAsk():
            return resolve_ssh(policy, ask)
        case LookUpAsk():
            return resolve_look_up(policy, ask)

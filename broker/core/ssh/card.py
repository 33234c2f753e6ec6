"""What a card says of an SSH request beside what all cards say: the exact action, the host, its key, what is left.

All of it comes from the frozen request and the policy; the key and whatever stands in the command are others' words.
"""

import hashlib

from broker.contract.wire import JsonObject, JsonValue
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put, described
from broker.core.ssh.model import MarkerMode, SshHost
from broker.core.ssh.trust import HostKey, KeyState


def ssh_part(frozen: FrozenSsh, key: HostKey | None) -> JsonObject:
    """The `ssh` part. `command` is the whole of it, bytes that are no UTF-8 escaped; its digest is over the bytes."""
    host, action = frozen.host, frozen.action
    command = action.command if isinstance(action, Exec) else None
    return {
        "action": {Exec: "exec", Put: "put", Get: "get", LookUp: "look_up"}[type(action)],
        "host": host.name,
        "address": host.address,
        "port": host.port,
        "user": host.user,
        "jump": [_hop(hop) for hop in host.jump],
        "what": described(action),
        "command_sha256": None if command is None else hashlib.sha256(command).hexdigest(),
        "argv": list(action.argv) if isinstance(action, Exec) and action.argv is not None else None,
        "pty": isinstance(action, Exec) and action.pty,
        "detach": isinstance(action, Exec) and action.detach,
        "marker": action.marker.value if isinstance(action, Exec) else MarkerMode.OFF.value,
        "host_key": _key(key),
    }


def target_url(frozen: FrozenSsh) -> str:
    host = frozen.host
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"{host.user}@{address}:{host.port}"


def payload(frozen: FrozenSsh) -> bytes:
    """What travels beside the command: its input, or the file."""
    match frozen.action:
        case Exec(stdin=stdin):
            return stdin
        case Put(content=content):
            return content
        case Get() | LookUp():
            return b""


def yes_once(frozen: FrozenSsh, key: HostKey | None) -> str:
    thing = "this command" if isinstance(frozen.action, Exec) else "this transfer"
    if key is not None and key.state is KeyState.UNVERIFIED:
        return (
            f"trusting this key for {frozen.host.name} from now on, and {thing}, once. "
            "A wrong key: commands go to a stranger"
        )
    return f"{thing}, once, on {frozen.host.name} as {frozen.host.user}"


def yes_session(frozen: FrozenSsh) -> str:
    thing = "this very command" if isinstance(frozen.action, Exec) else "this very transfer"
    return f"{thing}, on {frozen.host.name} as {frozen.host.user}, again"


def _hop(host: SshHost) -> JsonValue:
    return f"{host.user}@{host.address}:{host.port}"


def _key(key: HostKey | None) -> JsonObject | None:
    if key is None:
        return None
    return {
        "state": key.state.value,
        "algorithm": None if key.seen is None else key.seen.algorithm,
        "fingerprint": None if key.seen is None else key.seen.fingerprint,
    }

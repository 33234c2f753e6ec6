"""What the ledger keeps of an SSH attempt beside its arguments, and the look-up that this allows later.

The store of markers is the one that was known before anything was sent: only so can "never started" be told from
"gone". A look-up goes to the very host and user of the attempt, or nowhere.
"""

import hashlib
from collections.abc import Mapping

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject, JsonValue
from broker.core.policy.model import Policy
from broker.core.ssh.commands import ARGUMENT
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put
from broker.core.ssh.model import MarkerMode, SshHost, SshOperation
from broker.core.ssh.outcome import Found, MarkerState, StoreSeen
from broker.core.ssh.resolve import LookUpAsk
from broker.core.ssh.shell_words import quote

KEY = "@ssh"  # no argument is called so


def remembered(frozen: FrozenSsh, since: StoreSeen | None) -> JsonObject:
    """The attempt's arguments with all that a look-up needs."""
    host, action = frozen.host, frozen.action
    about: dict[str, JsonValue] = {
        "host": host.name,
        "place": host.url,
        "effect": frozen.effect.value,
        "since": None if since is None else _told(since),
    }
    match action:
        case Exec(marker=marker, detach=detach):
            about |= {"action": "exec", "marker": marker.value, "detach": detach}
        case Put(path=path, content=content):
            about |= {"action": "put", "path": path, "sha256": hashlib.sha256(content).hexdigest()}
        case Get() | LookUp():
            about |= {"action": "other"}
    return {**frozen.args, KEY: about}


def recalled(args: JsonObject) -> JsonObject | None:
    """What is kept of an SSH attempt; None for one of another channel."""
    about = args.get(KEY)
    return about if isinstance(about, Mapping) else None


def bound_to(args: JsonObject, store: StoreSeen) -> JsonObject | None:
    """The arguments, once it is known which store the command claims its id in; None where they say so already."""
    about = recalled(args)
    if about is None or about.get("since") == _told(store):
        return None
    return {**args, KEY: {**about, "since": _told(store)}}


def marker_place(args: JsonObject) -> str | None:
    """Where the attempt may have left a marker; None where it left none for sure."""
    about = recalled(args) or {}
    if about.get("action") != "exec" or about.get("marker") == MarkerMode.OFF.value:
        return None
    return str(about["place"])


def has_ended(envelope: JsonObject) -> bool:
    """Whether the command's own end was seen, so that its marker tells nobody anything any more."""
    ssh = envelope.get("ssh")
    seen: Mapping[str, JsonValue] = ssh if isinstance(ssh, Mapping) else {}
    return seen.get("exit_status") is not None and seen.get("marker") == MarkerState.STARTED.value


def is_fenced(settlement: JsonObject) -> bool:
    """Whether a fence is what settled it: that has to stay, for the command could still arrive."""
    ssh = settlement.get("ssh")
    return isinstance(ssh, Mapping) and ssh.get("marker") == Found.NEVER_STARTED.value


def look_ups(policy: Policy, args: JsonObject, *, service: str, operation: str, correlation_id: str) -> list[LookUpAsk]:
    """The ways to learn what became of an attempt, the surest first; none where its host is not what it was."""
    about = recalled(args) or {}
    settings = policy.services[service].ssh if service in policy.services else None
    host = None if settings is None else settings.hosts.get(str(about.get("host")))
    if settings is None or host is None or host.url != about.get("place"):
        return []

    def ask(action: LookUp | Get | Exec) -> LookUpAsk:
        effect = Effect(str(about["effect"]))
        return LookUpAsk(service=service, host=host.name, operation=operation, effect=effect, action=action)

    if about.get("action") == "put":
        return [ask(Get(path=str(about["path"])))]
    ways: list[LookUpAsk] = []
    if about.get("action") == "exec" and about.get("marker") != MarkerMode.OFF.value:
        since = _store(about.get("since"))
        ways.append(ask(LookUp(operation_id=correlation_id, since=since, detached=about.get("detach") is True)))
    command = _command(settings.operations.get(operation), args, host)
    if command is not None:
        ways.append(ask(Exec(command=command, marker=MarkerMode.OFF)))
    return ways


def _command(declared: SshOperation | None, args: JsonObject, host: SshHost) -> bytes | None:
    """The declared look-up command with the attempt's own arguments."""
    if declared is None or declared.reconcile_command is None or (declared.hosts and host.name not in declared.hosts):
        return None
    words = (ARGUMENT.sub(lambda found: str(args.get(found[1], "")), word) for word in declared.reconcile_command)
    return quote(tuple(words))


def _told(store: StoreSeen) -> JsonObject:
    return {"path": store.path, "id": store.id, "boot": store.boot}


def _store(value: JsonValue) -> StoreSeen | None:
    if not isinstance(value, Mapping):
        return None
    return StoreSeen(path=str(value["path"]), id=str(value["id"]), boot=str(value["boot"]))

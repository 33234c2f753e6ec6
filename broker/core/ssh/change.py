"""Which change an SSH request makes, so that one in doubt blocks its repeat.

A declared operation is a change of its own on each host and user. Of an ad hoc command the program is, however it is
spelled: by its path or its name, behind settings of the environment, or behind a word that only runs another one.
"""

import re

from broker.contract.wire import JsonValue
from broker.core.ssh.frozen import Exec, FrozenSsh, Get, LookUp, Put

RUNNERS = frozenset({"command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid", "sudo", "time", "timeout"})
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_BESIDE = "\"'\\(){};&|<>`$"  # what the shell takes away or ends a command with


def facts_of_change(frozen: FrozenSsh) -> dict[str, JsonValue]:
    """Where it is made, and what by."""
    host = frozen.host
    facts: dict[str, JsonValue] = {"ssh": host.address.lower().rstrip("."), "port": host.port, "user": host.user}
    if frozen.declared is not None:
        return facts | {"operation": frozen.declared.name}
    match frozen.action:
        case Exec(command=command):
            return facts | {"program": program_of(command)}
        case Put(path=path) | Get(path=path):
            return facts | {"file": path}
        case LookUp(operation_id=operation_id):
            return facts | {"of": operation_id}


def program_of(command: bytes) -> str:
    """The first program that a command names, without its directory; the empty text where there is none."""
    runs = False
    for word in command.decode("utf-8", "backslashreplace").split():
        name = word.translate({ord(character): None for character in _BESIDE}).rpartition("/")[2]
        if not name or _SETTING.fullmatch(word) or (runs and (word.startswith("-") or name[0].isdigit())):
            continue
        if name not in RUNNERS:
            return name
        runs = True
    return ""

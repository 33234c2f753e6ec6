"""From what an agent asked of a host to the one frozen action: names resolved, words quoted, limits kept.

A command that fits a declared operation is that operation, and arguments that spell another one's command are refused,
so no rule about an operation can be walked around. Decides nothing: what the service does not list is frozen like any
other action and denied by the policy. Messages name what the policy names and repeat no agent's text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject
from broker.core.policy.model import Policy, Service
from broker.core.resolve import Invalid
from broker.core.ssh.commands import ARGUMENT, placeholders
from broker.core.ssh.frozen import (
    MAX_COMMAND_BYTES,
    MAX_STDIN_BYTES,
    MAX_TRANSFER_BYTES,
    Exec,
    FrozenSsh,
    Get,
    LookUp,
    Put,
    SshDeadlines,
)
from broker.core.ssh.model import MarkerMode, SshHost, SshOperation, SshSettings
from broker.core.ssh.operation import SshArgumentError, arguments_of, fits_of, words_of
from broker.core.ssh.paths import RemotePathError, check_remote_path
from broker.core.ssh.shell_words import quote, split

IDENTIFIES_CHARACTERS = 200
MAX_MODE = 0o7777


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAsk:
    path: str
    content: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAsk:
    """An action on a host as the agent put it, its shape checked and nothing resolved.

    `host` is a name of the policy's, alone or behind its service and a slash. Of `command`, `argv`, `operation`, `put`
    and `get` there is one.
    """

    host: str
    command: bytes | None = None
    argv: tuple[str, ...] | None = None
    operation: str | None = None
    args: JsonObject | None = None
    put: PutAsk | None = None
    get: str | None = None
    stdin: bytes = b""
    pty: bool = False
    takes_large: bool = False  # a file can be handed on in frames, beside the envelope
    deadlines: SshDeadlines = field(default_factory=SshDeadlines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpAsk:
    """What became of an earlier action. Made by the broker itself alone, never from an agent's document.

    `action` reads: a marker, or the file that an upload may have put there.
    """

    service: str
    host: str
    operation: str  # of the earlier action, local name
    effect: Effect  # likewise
    action: LookUp | Get | Exec


class _InvalidError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.invalid = Invalid(code=code, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    service: Service
    settings: SshSettings
    host: SshHost


def resolve_ssh(policy: Policy, ask: SshAsk) -> FrozenSsh | Invalid:
    """The frozen action, or what is wrong with it."""
    try:
        where = _where(policy, ask.host)
        _check_shape(ask)
        if ask.put is not None:
            return _put(ask, where, ask.put)
        if ask.get is not None:
            return _get(ask, where, ask.get)
        return _by_operation(ask, where) if ask.operation is not None else _by_command(ask, where)
    except _InvalidError as fault:
        return fault.invalid
    except SshArgumentError as fault:
        return Invalid(code="schema", message=f"The arguments don't fit: {fault}.")
    except RemotePathError as fault:
        return Invalid(code="schema", message=f"The path is not acceptable: {fault}.")


def _check_shape(ask: SshAsk) -> None:
    if sum(one is not None for one in (ask.command, ask.argv, ask.operation, ask.put, ask.get)) != 1:
        raise _schema("Give one of command, argv and operation; files are put and got by routes of their own.")
    if ask.args and ask.operation is None:
        raise _schema("args belong to an operation; give the operation's name.")
    if len(ask.stdin) > MAX_STDIN_BYTES:
        raise _InvalidError("body_too_large", f"The input is over the limit of {MAX_STDIN_BYTES} bytes.")


def resolve_look_up(policy: Policy, ask: LookUpAsk) -> FrozenSsh | Invalid:
    """A look at what became of an earlier action, on its own host."""
    service = policy.services.get(ask.service)
    host = None if service is None or service.ssh is None else service.ssh.hosts.get(ask.host)
    if service is None or service.ssh is None or host is None:
        return Invalid(code="unknown_service", message="The policy has no such host any more.")
    return FrozenSsh(
        service=service,
        operation=f"{service.name}.{ask.operation}",
        declared=service.ssh.operations.get(ask.operation) if isinstance(ask.action, LookUp) else None,
        host=host,
        action=ask.action,
        effect=ask.effect,
        is_look_up=True,
        identifies="what became of an earlier action",
        output_bytes=MAX_TRANSFER_BYTES if isinstance(ask.action, Get) else MAX_STDIN_BYTES,
    )


def _where(policy: Policy, name: str) -> _Where:
    service_name, slash, host_name = name.rpartition("/")
    found = [
        _Where(service=service, settings=service.ssh, host=service.ssh.hosts[host_name])
        for service in policy.services.values()
        if service.ssh is not None and host_name in service.ssh.hosts and (not slash or service.name == service_name)
    ]
    if not found:
        raise _InvalidError("unknown_service", "The policy has no host of that name; see: doorward services")
    if len(found) > 1:
        raise _InvalidError("unknown_service", "More than one service has a host of that name; say SERVICE/HOST.")
    return found[0]


def _schema(message: str) -> _InvalidError:
    return _InvalidError("schema", message)


def _by_operation(ask: SshAsk, where: _Where) -> FrozenSsh:
    name = (ask.operation or "").removeprefix(f"{where.service.name}.")
    operation = where.settings.operations.get(name)
    if operation is None or (operation.hosts and where.host.name not in operation.hosts):
        raise _InvalidError(
            "unknown_operation", "The service declares no operation of that name for this host; see: doorward services"
        )
    args = arguments_of(operation, ask.args or {})
    return _declared(ask, where, operation, args, words_of(operation.command, args))


def _by_command(ask: SshAsk, where: _Where) -> FrozenSsh:
    command = _quoted(ask.argv) if ask.argv is not None else ask.command or b""
    _check_command(command)
    words = split(command) if ask.argv is None else ask.argv
    fits = () if words is None else fits_of(where.settings.operations.values(), where.host, words)
    if len(fits) > 1:
        names = ", ".join(sorted(fit.operation.name for fit in fits))
        raise _schema(f"The command fits more than one operation ({names}); ask for one by its name.")
    if fits and words is not None:
        return _declared(ask, where, fits[0].operation, fits[0].args, words, command)
    return _frozen(ask, where, None, command, ask.argv, {})


def _declared(
    ask: SshAsk,
    where: _Where,
    operation: SshOperation,
    args: Mapping[str, str],
    words: tuple[str, ...],
    command: bytes | None = None,
) -> FrozenSsh:
    if (ask.stdin or ask.pty) and not operation.input:
        raise _schema("The operation takes no input and no terminal: its words are all that it does.")
    fits = fits_of(where.settings.operations.values(), where.host, words)
    if [fit.operation.name for fit in fits] != [operation.name]:
        raise _schema("These arguments spell the command of another operation; ask for that one.")
    if fits[0].args != args:  # else one command would be changes of several objects, by who tells it
        raise _schema("The command that these arguments spell is read as one of other arguments; give those.")
    own = _quoted(words) if command is None else command
    _check_command(own)
    return _frozen(ask, where, operation, own, words if command is None else ask.argv, args)


def _quoted(words: tuple[str, ...]) -> bytes:
    try:
        return quote(words)
    except ValueError as cause:
        raise _schema(f"The words are not acceptable: {cause}.") from None


def _check_command(command: bytes) -> None:
    if not command.strip():
        raise _schema("The command is empty.")
    if b"\0" in command:
        raise _schema("The command holds a NUL, which no shell can be given.")
    if len(command) > MAX_COMMAND_BYTES:
        message = f"The command is over the limit of {MAX_COMMAND_BYTES} bytes; put it there as a file, and run that."
        raise _InvalidError("body_too_large", message)


def _frozen(
    ask: SshAsk,
    where: _Where,
    declared: SshOperation | None,
    command: bytes,
    argv: tuple[str, ...] | None,
    args: Mapping[str, str],
) -> FrozenSsh:
    effect = Effect.EXEC if declared is None else declared.effect
    return FrozenSsh(
        service=where.service,
        operation=f"{where.service.name}.{'exec' if declared is None else declared.name}",
        declared=declared,
        host=where.host,
        action=Exec(
            command=command,
            argv=argv,
            stdin=ask.stdin,
            pty=ask.pty,
            marker=_marker(where.host, declared, effect),
            detach=declared is not None and declared.detach,
        ),
        effect=effect,
        destructive=declared is not None and declared.destructive,
        args=dict(args),
        targets=_targets(declared, args),
        identifies=_identifies(declared, args, command),
        output_bytes=(declared and declared.max_bytes) or MAX_STDIN_BYTES,
        deadlines=ask.deadlines,
    )


def _marker(host: SshHost, declared: SshOperation | None, effect: Effect) -> MarkerMode:
    """What only reads leaves nothing behind, unless the operation says so."""
    if declared is not None and declared.marker is not None:
        return declared.marker
    return MarkerMode.OFF if effect is Effect.READ else host.marker


def _targets(declared: SshOperation | None, args: Mapping[str, str]) -> tuple[str, ...]:
    if declared is None:
        return ()
    if declared.targets:
        return tuple(args[name] for name in declared.targets)
    names = placeholders(declared.command)
    return (args[names[-1]],) if declared.destructive and names else ()


def _identifies(declared: SshOperation | None, args: Mapping[str, str], command: bytes) -> str:
    if declared is not None and declared.title:
        return ARGUMENT.sub(lambda found: args.get(found[1], ""), declared.title).strip()
    if declared is not None and args:
        return " ".join(args.values())
    text = re.sub(r"\s+", " ", command.decode("utf-8", "backslashreplace")).strip()
    return text if len(text) <= IDENTIFIES_CHARACTERS else f"{text[:IDENTIFIES_CHARACTERS]}…"


def _put(ask: SshAsk, where: _Where, put: PutAsk) -> FrozenSsh:
    path = check_remote_path(put.path)
    if len(put.content) > MAX_TRANSFER_BYTES:
        raise _InvalidError("body_too_large", f"The file is over the limit of {MAX_TRANSFER_BYTES} bytes.")
    if put.mode is not None and not 0 <= put.mode <= MAX_MODE:
        raise _schema("The mode is an octal number of up to four digits.")
    return FrozenSsh(
        service=where.service,
        operation=f"{where.service.name}.put",
        declared=None,
        host=where.host,
        action=Put(path=path, content=put.content, mode=put.mode),
        effect=Effect.WRITE,
        targets=(path,),
        identifies=path,
        deadlines=ask.deadlines,
    )


def _get(ask: SshAsk, where: _Where, path: str) -> FrozenSsh:
    return FrozenSsh(
        service=where.service,
        operation=f"{where.service.name}.get",
        declared=None,
        host=where.host,
        action=Get(path=check_remote_path(path)),
        effect=Effect.READ,
        identifies=path,
        output_bytes=MAX_TRANSFER_BYTES if ask.takes_large else MAX_STDIN_BYTES,
        deadlines=ask.deadlines,
    )

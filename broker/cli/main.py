"""Which noun is meant, and how a verb ends: an exit code of the contract, one line on stderr, never a traceback.

Loads the one module that the noun names. The agent's verbs pay for nothing that humans' verbs need.
"""

import os
import sys
from importlib import import_module

from broker.cli.faults import CliError, HelpShown, UsageError
from broker.client.faults import Broken, ClientError, NotRunning, Refused
from broker.contract.exits import EXIT_CODES, FAULTS_FOUND, USAGE

TYPE_CHECKING = False  # `typing` is not loaded for the agent's verbs
if TYPE_CHECKING:
    from collections.abc import Callable

AGENT_VERBS = {
    "http": ("http", "perform a request: METHOD SERVICE PATH, or METHOD URL"),
    "call": ("http", "perform a declared operation: SERVICE.OPERATION key=value..."),
    "collect": ("collect", "walk a declared list to its end: SERVICE.OPERATION key=value..."),
    "ssh": ("ssh", "run a command: HOST -- COMMAND...; or put, get a file"),
    "explain": ("http", "what would become of a request; nothing is sent"),
    "services": ("services", "what this agent may ask for"),
    "result": ("result", "fetch a result again"),
    "request-credential": ("request_credential", "have a human asked for the credential of a service"),
    "reconcile": ("result", "settle an unknown outcome by the declared read-back"),
    "run": ("run", "start an agent whose whole process tree is one session"),
    "mcp": ("mcp", "the same verbs as tools, for an agent that speaks MCP over its pipes"),
    "health": ("services", "whether a daemon answers"),
}
HUMAN_VERBS = {
    "up": ("serve", "daemon and approval screen in this terminal, one passphrase"),
    "serve": ("serve", "the daemon alone, in the foreground"),
    "ui": ("serve", "the approval screen"),
    "status": ("status", "what the daemon is doing"),
    "doctor": ("doctor", "check the installation and say what to mend"),
    "init": ("init", "make the vault, the approver key and the audit log"),
    "setup": ("setup", "init, credential, policy and trust for a shipped pack"),
    "unlock": ("vault", "open the vault"),
    "lock": ("vault", "close the vault; sessions end"),
    "vault": ("vault_ways", "methods, passphrase: how it is opened; readopt: take a quarantined one over"),
    "freeze": ("vault", "stop everything at once"),
    "thaw": ("vault", "let things run again"),
    "credential": ("credential", "add, import, list, rotate, rebind, check, remove; values only ever go in"),
    "host-keys": ("host_keys", "list, forget: keys of SSH hosts that were accepted at the first contact"),
    "approvals": ("approvals", "list, show, approve, collect, limit, deny; credentials that agents ask for"),
    "approvers": ("approvers", "list, new, enrol, remove: whose yes counts"),
    "sessions": ("sessions", "list, revoke, mute, unmute"),
    "grants": ("sessions", "list, revoke"),
    "listen": ("listen", "a socket for one container, whose requests go by a name"),
    "operations": ("operations", "list what is in doubt, read it back, settle it"),
    "policy": ("policy", "check, test, trust, diff, explain, add, schema"),
    "diagnostics": ("diagnostics", "the details of a failure, by the reference in its result"),
    "audit": ("audit", "verify, show, export, repair the log; checkpoints of it"),
    "matrix": ("matrix", "run the failure matrix, or serve its far sides alone"),
}
INTERRUPTED = 130
_REFUSALS = {  # codes of control.sock that say more than "it failed"
    "unreadable": USAGE,
    "schema": USAGE,
    "vault_locked": EXIT_CODES["vault_locked"],
    "frozen": EXIT_CODES["broker_unavailable"],
    "limit": EXIT_CODES["broker_unavailable"],
    "audit_unwritable": EXIT_CODES["broker_unavailable"],
    "agent_session": EXIT_CODES["policy_denied"],
}
NOBODY_READS = 141


def main(arguments: list[str]) -> int:
    """Run one verb; the exit code."""
    if sys.stdout is None:  # closed: before anything is sent whose result nobody could read
        print("doorward: standard output is closed", file=sys.stderr)
        return USAGE
    try:
        code = _ended(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _write_no_more()
        return NOBODY_READS
    except OSError as fault:
        _write_no_more()
        print(f"doorward: the output can't be written: {fault.strerror}", file=sys.stderr)
        return FAULTS_FOUND
    return code


def _write_no_more() -> None:
    """The interpreter flushes once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(arguments: list[str]) -> int:
    """The exit code of one verb, however it ends."""
    try:
        return _verb(arguments)
    except HelpShown:
        return 0
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the question that was interrupted has no line end
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except CliError as fault:
        return _told(arguments, str(fault), fault.code, fault.exit_code)
    except ClientError as fault:
        return _refused(arguments, fault)
    except Exception as fault:  # noqa: BLE001 - the last border: whatever it is, no traceback and no content leaves
        return _unforeseen(arguments, fault)


def _verb(arguments: list[str]) -> int:
    noun = arguments[0] if arguments else "--help"
    if noun in {"-h", "--help", "help"}:
        print(usage())
        return 0 if arguments else USAGE
    if noun in {"-V", "--version"}:
        from importlib.metadata import version  # noqa: PLC0415 - costs 20 ms and is rarely asked

        print(f"doorward {version('doorward')}")
        return 0
    module = (AGENT_VERBS.get(noun) or HUMAN_VERBS.get(noun) or ("", ""))[0]
    if not module:
        raise UsageError(f"there is no {noun!r}; doorward --help lists what there is")
    run: Callable[[str, list[str]], int] = import_module(f"broker.cli.{module}").run
    return run(noun, arguments[1:])


def usage() -> str:
    """The overview."""
    lines = ["doorward VERB ...     doorward VERB --help tells more", "", "for agents:"]
    lines += [f"  {name:<12} {does}" for name, (_, does) in AGENT_VERBS.items()]
    lines += ["", "for humans:"]
    lines += [f"  {name:<12} {does}" for name, (_, does) in HUMAN_VERBS.items()]
    lines += [
        "",
        "Exit codes: 0 done, 1 failed or found faults, 3 partial, 64 usage, 31 no daemon; others by category.",
    ]
    return "\n".join(lines)


def _told(arguments: list[str], message: str, code: str, exit_code: int) -> int:
    from broker.contract.neutralise import visible  # noqa: PLC0415 - only the unhappy path pays

    if _wants_json(arguments):
        from broker.client.endings import misspelled  # noqa: PLC0415 - likewise
        from broker.contract.wire import dump_names  # noqa: PLC0415 - likewise

        noun = arguments[0]
        value = misspelled(message) if noun in AGENT_VERBS and exit_code == USAGE else None
        print(dump_names(value or {"error": {"code": code, "message": message}}).decode())
    sys.stdout.flush()  # what led to it is read first
    print(f"doorward: {visible(message, multiline=True)}", file=sys.stderr)
    return exit_code


def _refused(arguments: list[str], fault: ClientError) -> int:
    """What the daemon, or the way to it, said no to."""
    match fault:
        case Refused():
            lines = [
                f"{path}: {problem}" + (f" (expected: {wanted})" if wanted else "")
                for path, problem, wanted in fault.faults
            ]
            code = _REFUSALS.get(fault.code, FAULTS_FOUND)
            return _told(arguments, "\n".join([str(fault), *lines]), fault.code, code)
        case NotRunning() | Broken():
            name = "not_running" if isinstance(fault, NotRunning) else "broken"
            return _told(arguments, str(fault), name, EXIT_CODES["broker_unavailable"])
        case _:
            return _told(arguments, str(fault), "approver", FAULTS_FOUND)


def _unforeseen(arguments: list[str], fault: Exception) -> int:
    """Kind and place of a fault of our own; its text might hold what must not be shown."""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"  # noqa: PTH119 - no pathlib here
    message = f"a fault of doorward itself ({type(fault).__name__}{place}); please report it"
    return _told(arguments, message, "internal", FAULTS_FOUND)


def _wants_json(arguments: list[str]) -> bool:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def exit_code(category: object) -> int:
    """The exit code of an envelope's category; a category that this client does not know failed."""
    return EXIT_CODES.get(str(category), FAULTS_FOUND)

"""`doorward policy`: check and read files without a daemon; diff, explain and trust through one.

A policy takes force only by an approver's signature over the digest of the very files that were looked at.
"""

import os
import sys
from argparse import Namespace
from pathlib import Path

from broker.cli.arguments import Verbs
from broker.cli.faults import CliError
from broker.cli.output import on, show
from broker.cli.policy_files import own_files, unreadable
from broker.cli.policy_trust import finding_lines, pending_lines, trust
from broker.cli.reach import desk, places, running
from broker.client.card_words import counted
from broker.client.envelope_lines import parts
from broker.client.faults import NotRunning
from broker.client.hardening import harden
from broker.contract.exits import EXIT_CODES, FAULTS_FOUND, USAGE
from broker.contract.neutralise import visible
from broker.contract.wire import JsonValue
from broker.policyfiles import PolicyError
from broker.policyfiles.check import CheckReport, check
from broker.policyfiles.shipped import SCHEMA, pack_bytes, schema_bytes

FILE_MODE = 0o600


def run(noun: str, arguments: list[str]) -> int:
    harden()
    if arguments[:1] == ["explain"]:
        from broker.cli.policy_explain import explain  # noqa: PLC0415 - only this verb needs the request's options

        return explain(arguments[1:])
    options = _verbs(noun).parser.parse_args(arguments)
    match options.verb:
        case "check":
            return _check(options)
        case "test":
            from broker.cli.policy_test import test  # noqa: PLC0415 - only this verb needs the schemas of requests

            return test(options)
        case "trust":
            return _trust(options)
        case "diff":
            return _diff(options)
        case "add":
            return _add(options)
        case _:
            return _schema()


def install(name: str, where: Path, *, force: bool = False) -> Path:
    """Copy a shipped pack into the policy directory. Raises CliError where a file of that name is there already.

    The schema that its first line names for editors comes with it; the daemon does not read that one.
    """
    try:
        content = pack_bytes(name)
    except PolicyError as cause:
        raise CliError(f"{name}: {cause}", exit_code=USAGE, code="unknown") from None
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as cause:
        raise CliError(f"{where} can't be made: {cause.strerror}") from None
    target = where / f"{name}.toml"
    _write(target, content, replace=force)
    _write(where / SCHEMA, schema_bytes(), replace=True)
    return target


def _write(target: Path, content: bytes, *, replace: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if replace else os.O_EXCL)
    try:
        descriptor = os.open(target, flags, FILE_MODE)
    except FileExistsError:
        raise CliError(
            f"{target} is there already; it was left as it is (--force replaces it)", code="exists"
        ) from None
    except OSError as cause:
        raise CliError(f"{target} can't be written: {cause.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _verbs(noun: str) -> Verbs:
    verbs = Verbs(noun, "Who may do what, and who must be asked.")
    checked = verbs.add("check", "syntax, traps, examples and unwise rules; needs no daemon")
    checked.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="directories or files; default: your policy directory and the machine's",
    )
    checked.add_argument(
        "--vault", action="store_true", help="hold the services against the credentials too; asks for the passphrase"
    )
    tested = verbs.add("test", "hold what a file expects against the policy files; needs no daemon")
    tested.add_argument(
        "files", nargs="+", metavar="FILE", help="with [[tests]]: request, expect, rules, agent, at, code"
    )
    tested.add_argument(
        "--policies",
        action="append",
        metavar="PATH",
        help="a directory or file, as often as wanted; default: as of check",
    )
    tested.add_argument("--quiet", action="store_true", help="tell of failures alone")
    verbs.add("trust", "sign the files as they are now, after showing what that changes")
    compared = verbs.add("diff", "what trusting the files would loosen and tighten")
    compared.add_argument("--lines", action="store_true", help="the lines of the files that each change is about, too")
    verbs.add("explain", "which rule decides a request: METHOD SERVICE PATH, or call SERVICE.OPERATION")
    added = verbs.add("add", "copy a shipped pack into your policy directory")
    added.add_argument("name", metavar="NAME")
    added.add_argument("--force", action="store_true", help="replace a file of that name")
    verbs.add("schema", "the JSON Schema that editors use")
    return verbs


def _check(options: Namespace) -> int:
    try:
        report = check(own_files([Path(path) for path in options.paths]), None)
    except PolicyError as cause:
        report = CheckReport(policy=None, faults=cause.faults or (unreadable(cause),))
    warnings = [warning.to_json() for warning in report.warnings]
    if options.vault and not options.paths and not report.faults:
        warnings = _with_vault(options)
    faults = [fault.to_json() for fault in report.faults]
    lines = [visible(line) for line in finding_lines(faults)]
    lines += [f"warning: {visible(line)}" for line in finding_lines(warnings)]
    rules = 0 if report.policy is None else len(report.policy.rules)
    found = counted(len(faults), "fault"), counted(len(warnings), "warning"), counted(rules, "rule")
    lines.append(", ".join(found))
    show({"faults": faults, "warnings": warnings}, lines, as_json=options.json)
    return FAULTS_FOUND if faults else 0


def _with_vault(options: Namespace) -> list[dict[str, JsonValue]]:
    """What the daemon warns of, who knows the credentials and where they are bound."""
    with desk(options, transient=True, session=True) as reached:
        return [dict(warning) for warning in parts(reached.control.policy_pending(), "warnings")]


def _trust(options: Namespace) -> int:
    with desk(options, transient=True, session=True) as reached:
        return trust(reached, options)


def _diff(options: Namespace) -> int:
    try:
        with running(places()) as control:
            vault = control.status().get("vault")
            if isinstance(vault, dict) and vault.get("state") != "ready":
                raise CliError(
                    "the vault is locked, and the policy in force is sealed in it: doorward unlock",
                    exit_code=EXIT_CODES["vault_locked"],
                    code="vault_locked",
                )
            pending = control.policy_pending()
    except NotRunning:
        with desk(options, transient=True) as reached:
            pending = reached.control.policy_pending()
    lines = pending_lines(pending, with_lines=options.lines)
    show(pending, lines if options.lines else [on(sys.stdout, lines)], as_json=options.json)
    if not pending.get("faults"):
        return 0
    print("doorward: the files do not load; the old policy stays in force", file=sys.stderr)
    return FAULTS_FOUND


def _add(options: Namespace) -> int:
    target = install(options.name, places().policies, force=options.force)
    todo = "It is not in force yet: look at it, edit what is yours, then doorward policy trust"
    lines = [f"copied to {visible(str(target))}", todo]
    show({"name": options.name, "path": str(target)}, lines, as_json=options.json)
    return 0


def _schema() -> int:
    print(schema_bytes().decode(), end="")
    return 0

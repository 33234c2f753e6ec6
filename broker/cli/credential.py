"""`doorward credential`: put secrets in, bind them, take them out of use. No verb shows a value; there is no reveal.

Values come from a prompt without echo, from standard input, or from a named variable; never from argv. Where no
origin is given, those of the services that the policy in force names are proposed, and taken by a typed yes alone.
"""

import os
import re
import time
from argparse import Namespace

from broker.cli.arguments import Parser, Verbs
from broker.cli.faults import CliError, UsageError
from broker.cli.output import number, show, table, text
from broker.cli.prompts import (
    confirmed,
    passphrase,
    text_of_file,
    typed_value,
    value_from_command,
    value_from_environment,
    value_from_file,
    value_from_stdin,
    word,
)
from broker.cli.reach import Desk, desk
from broker.client.card_words import duration
from broker.client.credential_line import origin_of
from broker.client.envelope_lines import parts
from broker.client.handover import aws_parts, credential_value, halves, needs_passphrase
from broker.client.hardening import harden
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject, JsonValue
from broker.core.secret import Secret

KINDS = ("bearer", "basic", "header", "query", "cookie", "sigv4", "ssh-key", "ssh-password")
_PARTS = {  # what stands beside a value: of which kind it is, and whether that kind needs it
    "header": ("header", True),
    "template": ("header", False),
    "parameter": ("query", True),
    "cookie": ("cookie", True),
    "region": ("sigv4", False),
    "aws_service": ("sigv4", False),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VALUES = """The value is asked for without echo, unless --stdin, --from-env, --from-file or --from-command is there.
For kind basic, they take USERNAME:PASSWORD.
For kind sigv4 (AWS) they take ACCESS_KEY_ID:SECRET_ACCESS_KEY or ACCESS_KEY_ID:SECRET_ACCESS_KEY:SESSION_TOKEN.
For kind ssh-key the value is the private key, by --from-file ID_ED25519; its passphrase is asked for where it has one,
and not kept. An SSH credential is bound to ssh://user@host:port, as the policy spells the host's address."""


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = _verbs(noun).parser.parse_args(arguments)
    refuse_missing_variable(options)
    match options.verb:
        case "add":
            return _add(options)
        case "import":
            from broker.cli.credential_import import run_import  # noqa: PLC0415 - it needs this module

            return run_import(options)
        case "list":
            return _list(options)
        case "rotate":
            return _rotate(options)
        case "rebind":
            return _rebind(options)
        case "check":
            return _check(options)
        case _:
            return _remove(options)


def add_value_options(parser: Parser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--stdin", action="store_true", help="read the value from standard input")
    source.add_argument("--from-env", metavar="VAR", help="read the value from this variable")
    source.add_argument("--from-file", metavar="FILE", help="read the value from this file")
    source.add_argument(
        "--from-command", metavar="COMMAND", help="read the value from what this prints, such as 'op read op://...'"
    )
    parser.add_argument("--certificate", metavar="FILE", help="for kind ssh-key: its -cert.pub")
    parser.add_argument("--key-passphrase-fd", type=int, metavar="N", help="for kind ssh-key: the key's own passphrase")


def add(reached: Desk, params: JsonObject, secret: JsonObject) -> dict[str, JsonValue]:
    return reached.control.add_credential(params, secret, reached.key)


def refuse_missing_variable(options: Namespace) -> None:
    """Raises UsageError for a variable that is not there, before anybody types a passphrase in vain."""
    variable = getattr(options, "from_env", None)
    if variable is not None and variable not in os.environ:
        raise UsageError(f"there is no variable {variable} in the environment")


def given_value(options: Namespace) -> Secret | None:
    """The value that one of the options names; None where it is to be asked for. Taken before any child starts."""
    if options.stdin:
        return value_from_stdin()
    if options.from_file is not None:
        return value_from_file(options.from_file)
    if options.from_command is not None:
        return value_from_command(options.from_command)
    if options.from_env is not None:
        value = value_from_environment(options.from_env)
        os.environ.pop(options.from_env, None)  # no child of ours inherits it
        return value
    return None


def secret_of(kind: str, given: Secret | None, name: str, options: Namespace | None = None) -> dict[str, JsonValue]:
    """The value of a credential of this kind as the contract spells it, asked for where it was not given."""
    if kind == "basic":
        return _basic(given, name)
    if kind == "ssh_key":
        return _key(given, name, options)
    if kind == "sigv4":
        return _aws(given, name)
    return credential_value(kind, given or typed_value(f"Value of {name} (not shown): "))


def _verbs(noun: str) -> Verbs:
    verbs = Verbs(noun, "Secrets and where they may go. Values only ever go in.")
    new = verbs.add("add", "a new credential, bound to the places it may go to", epilog=_VALUES)
    new.add_argument("--kind", choices=KINDS, default="bearer", help="how it travels; default bearer")
    new.add_argument("--header", metavar="NAME", help="for kind header: which one")
    new.add_argument("--template", metavar="TEXT", help="for kind header: its text, with {value} once")
    new.add_argument("--parameter", metavar="NAME", help="for kind query: which one")
    new.add_argument("--cookie", metavar="NAME", help="for kind cookie: which one")
    new.add_argument("--region", metavar="NAME", help="for kind sigv4: where the host does not tell it")
    new.add_argument("--aws-service", metavar="NAME", help="for kind sigv4: where the host does not tell it")
    from broker.cli.credential_import import declare  # noqa: PLC0415 - it needs this module

    declare(verbs)
    verbs.add("list", "names, kinds, places and ages; never a value")
    rotated = verbs.add("rotate", "a new value for the same places", epilog=_VALUES)
    rebound = verbs.add("rebind", "other places; asks for the value again", epilog=_VALUES)
    checked = verbs.add("check", "ask the probe that the policy declares: valid, invalid or unknown")
    removed = verbs.add("remove", "take it out for good")
    for verb in (new, rotated, rebound, checked, removed):
        verb.add_argument("name", metavar="NAME")
    new.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="URL",
        help="where it may go; repeatable. Left out: what your policy says, after a question",
    )
    rebound.add_argument("--origin", action="append", required=True, metavar="URL", help="where it may go; repeatable")
    for verb in (new, rotated, rebound):
        add_value_options(verb)
    return verbs


def _add(options: Namespace) -> int:
    _check_parts(options)
    kind = options.kind.replace("-", "_")
    if kind != "ssh_key" and (options.certificate is not None or options.key_passphrase_fd is not None):
        raise UsageError("--certificate and --key-passphrase-fd belong to --kind ssh-key")
    if kind == "ssh_key" and not (options.stdin or options.from_env or options.from_file or options.from_command):
        raise UsageError("a private key has lines and is not typed: give it by --from-file FILE or --stdin")
    check_name(options.name)
    params: dict[str, JsonValue] = {"name": options.name, "kind": kind}
    params |= {name: getattr(options, name) for name in _PARTS if getattr(options, name) is not None}
    with desk(options, transient=True, session=not options.origin, given=given_value) as reached:
        origins = options.origin or proposed_origins(reached, options.name, yes=options.yes)
        secret = secret_of(kind, reached.given, options.name, options)
        answer = add(reached, {**params, "origins": origins}, secret)
    places = ", ".join(visible(origin) for origin in origins)
    show(answer, [f"added {visible(options.name)}; it goes to {places} and nowhere else"], as_json=options.json)
    return 0


def _check_parts(options: Namespace) -> None:
    """Raises UsageError where an option belongs to another kind, or is missing."""
    for name, (kind, is_needed) in _PARTS.items():
        option = f"--{name.replace('_', '-')}"
        given = getattr(options, name) is not None
        if given and options.kind != kind:
            raise UsageError(f"{option} belongs to --kind {kind}")
        if is_needed and not given and options.kind == kind:
            raise UsageError(f"--kind {kind} needs {option} NAME")


def check_name(name: str) -> None:
    """Raises UsageError where it names no credential."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: up to 64 of a-z 0-9 . _ - and a letter or digit first")


def proposed_origins(reached: Desk, name: str, *, yes: bool) -> list[str]:
    """The origins of the services that use this credential by the policy in force, once the human agrees to them."""
    using = [item for item in parts(reached.control.policy(), "services") if item.get("credential") == name]
    origins = sorted({origin_of(str(item.get("base_url"))) for item in using})
    if not origins:
        raise UsageError(f"--origin URL is needed: no service of the policy in force uses {name}")
    if yes:
        raise UsageError(
            f"--yes takes no place for granted; say where it may go: --origin {' --origin '.join(origins)}"
        )
    if not confirmed(f"Bind {name} to {', '.join(origins)}?", yes=False):
        raise CliError("nothing was added")
    return origins


def _list(options: Namespace) -> int:
    with desk(options, transient=True, session=True) as reached:
        found = reached.control.credentials()
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            item.get("name"),
            item.get("kind"),
            item.get("origins"),
            item.get("version"),
            f"{duration(now_ms - (number(item, 'rotated_at_ms') or number(item, 'created_at_ms')))} ago",
        )
        for item in found
    ]
    lines = table(("Name", "Kind", "Bound to", "Version", "Put in"), rows) if rows else ["no credential yet"]
    show({"credentials": found}, lines, as_json=options.json)
    return 0


def _rotate(options: Namespace) -> int:
    with desk(options, transient=True, session=True, given=given_value) as reached:
        secret = secret_of(_kind(reached, options.name), reached.given, options.name, options)
        answer = reached.control.rotate_credential(options.name, secret, reached.key)
    show(answer, [f"rotated {visible(options.name)}; grants that used the old value are gone"], as_json=options.json)
    return 0


def _rebind(options: Namespace) -> int:
    with desk(options, transient=True, session=True, given=given_value) as reached:
        secret = secret_of(_kind(reached, options.name), reached.given, options.name, options)
        answer = reached.control.rebind_credential(options.name, options.origin, secret, reached.key)
    places = ", ".join(visible(origin) for origin in options.origin)
    show(answer, [f"{visible(options.name)} goes to {places} and nowhere else"], as_json=options.json)
    return 0


def _check(options: Namespace) -> int:
    with desk(options, transient=False, session=True) as reached:
        answer = reached.control.check_credential(options.name)
    line = f"{visible(options.name)} is {visible(text(answer, 'verdict'))}: {visible(text(answer, 'message'))}"
    show(answer, [line], as_json=options.json)
    return {"valid": 0, "invalid": 1}.get(text(answer, "verdict"), 2)


def _remove(options: Namespace) -> int:
    if not confirmed(f"Remove {options.name} for good?", yes=options.yes):
        raise CliError("nothing was removed")
    with desk(options, transient=True) as reached:
        answer = reached.control.remove_credential(options.name, reached.key)
    show(answer, [f"removed {visible(options.name)}"], as_json=options.json)
    return 0


def _kind(reached: Desk, name: str) -> str:
    for item in reached.control.credentials():
        if item.get("name") == name:
            return text(item, "kind")
    raise CliError(f"there is no credential {name!r}; doorward credential list shows what there is", code="unknown")


def _key(given: Secret | None, name: str, options: Namespace | None) -> dict[str, JsonValue]:
    if given is None:
        raise UsageError("a private key has lines and is not typed: give it by --from-file FILE or --stdin")
    phrase, certificate = None, None
    if needs_passphrase(given):
        descriptor = None if options is None else options.key_passphrase_fd
        phrase = (
            typed_value(f"Passphrase of the key {name} (not shown): ") if descriptor is None else passphrase(descriptor)
        )
    if options is not None and options.certificate is not None:
        certificate = text_of_file(options.certificate)
    return credential_value("ssh_key", given, passphrase=phrase, certificate=certificate)


def _basic(given: Secret | None, name: str) -> dict[str, JsonValue]:
    if given is None:
        username = word(f"User name for {name}:")
        password = typed_value(f"Password of {name} (not shown): ")
        return credential_value("basic", password, username=username)
    apart = halves(given)
    if apart is None:
        raise CliError("for kind basic the value is USERNAME:PASSWORD")
    return credential_value("basic", apart[1], username=apart[0])


def _aws(given: Secret | None, name: str) -> dict[str, JsonValue]:
    if given is None:
        key_id = word(f"Access key id of {name}:")
        return credential_value(
            "sigv4", typed_value(f"Secret access key of {name} (not shown): "), access_key_id=key_id
        )
    apart = aws_parts(given)
    if apart is None:
        raise CliError("for kind sigv4 the value is ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]")
    return credential_value("sigv4", apart[1], access_key_id=apart[0], session_token=apart[2])

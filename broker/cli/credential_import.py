"""`doorward credential import dotenv|json FILE`: values that programs kept in a file so far, into the vault at once.

Each is named on the command line: nothing is taken because it lies there. All of it is checked before the first is
added; where adding stops half-way, what is in is said. The file is left as it is, and said to hold them still.
"""

from argparse import Namespace

from broker.cli.arguments import Verbs
from broker.cli.credential import KINDS, add, check_name, proposed_origins, secret_of
from broker.cli.faults import CliError, UsageError
from broker.cli.output import show
from broker.cli.reach import desk
from broker.cli.value_files import Found, read_values
from broker.client.faults import ClientError
from broker.contract.neutralise import visible
from broker.contract.wire import JsonValue

TAKEN_MOST = 100
PLAIN_KINDS = tuple(
    kind for kind in KINDS if kind not in {"header", "query", "cookie", "ssh-key"}
)  # need nothing beside
_ABOUT = """Each --take names a value of the file and the credential that it becomes. Where a credential may go is what
the services of your policy say, after a question; --origin says it for all that are taken."""


def declare(verbs: Verbs) -> None:
    verb = verbs.add("import", "values of a file of NAME=VALUE lines, or of a JSON object", epilog=_ABOUT)
    verb.add_argument("format", choices=("dotenv", "json"), metavar="dotenv|json")
    verb.add_argument("file", metavar="FILE")
    verb.add_argument(
        "--take", action="append", required=True, metavar="VAR=NAME", help="this value, as this credential; repeatable"
    )
    verb.add_argument("--kind", choices=PLAIN_KINDS, default="bearer", help="how they travel; default bearer")
    verb.add_argument("--origin", action="append", default=[], metavar="URL", help="where they may go; repeatable")


def run_import(options: Namespace) -> int:
    wanted = _wanted(options.take)
    found = read_values(options.format, options.file)
    missing = [variable for variable in wanted if variable not in found.values]
    if missing:
        raise UsageError(f"not in {options.file}: {', '.join(missing)}")
    kind = options.kind.replace("-", "_")
    secrets = {name: secret_of(kind, found.values[variable], name) for variable, name in wanted.items()}
    added: list[JsonValue] = []
    with desk(options, transient=True, session=not options.origin) as reached:
        origins = {name: options.origin or proposed_origins(reached, name, yes=options.yes) for name in secrets}
        for name, secret in secrets.items():
            try:
                add(reached, {"name": name, "kind": kind, "origins": origins[name]}, secret)
            except ClientError as cause:
                raise CliError(f"{name} was not added: {cause}. {_so_far(added)}") from None
            added.append(name)
    lines = [
        f"added {visible(name)}; it goes to {', '.join(map(visible, origins[name]))} and nowhere else"
        for name in secrets
    ]
    show({"added": added}, [*lines, _reminder(found)], as_json=options.json)
    return 0


def _wanted(takes: list[str]) -> dict[str, str]:
    """Credential names by the names in the file. Raises UsageError."""
    wanted: dict[str, str] = {}
    for take in takes:
        variable, equals, name = take.partition("=")
        if not variable or not equals:
            raise UsageError(f"--take {take}: expected VAR=NAME")
        check_name(name)
        if variable in wanted or name in wanted.values():
            raise UsageError(f"--take {take}: is said twice")
        wanted[variable] = name
    if len(wanted) > TAKEN_MOST:
        raise UsageError(f"--take: at most {TAKEN_MOST} at once")
    return wanted


def _so_far(added: list[JsonValue]) -> str:
    return f"Added before it: {', '.join(map(str, added))}." if added else "Nothing was added."


def _reminder(found: Found) -> str:
    return (
        f"! {visible(found.file)} still holds them in clear: take them out of it, and rotate what others may have read"
    )

"""`doorward collect`: a declared list, walked to its end or until the budget is used up."""

from broker.cli.agent_side import ask
from broker.cli.arguments import Parser, seconds
from broker.cli.faults import UsageError
from broker.cli.http import call_part, command_line, refuse_broken_text

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    import argparse

    from broker.contract.wire import JsonValue

_PARTS = ("pages", "items", "bytes", "seconds")
_EPILOG = """examples:
  doorward collect github.issues.list owner=acme repo=site
  doorward collect github.issues.list owner=acme repo=site --pages 50 --seconds 120
  doorward collect github.issues.list owner=acme repo=site --cursor cur_...      (goes on where it was cut)

Exit code 0 only where the collection is complete, 3 where a part of it is missing."""


def run(noun: str, arguments: list[str]) -> int:
    options = collect_parser(f"doorward {noun}").parse_mixed(arguments)
    request = collect_request(options)
    return ask(
        lambda client: client.collect(request),
        as_json=options.json,
        request_id=options.request_id,
        again=command_line(noun, arguments),
        changes=True,
    )


def collect_parser(prog: str, *, json_option: bool = True) -> Parser:
    parser = Parser(prog)
    parser.usage = f"{prog} SERVICE.OPERATION [KEY=TEXT | KEY:=JSON ...] [options]"
    parser.epilog = _EPILOG
    for part in _PARTS:
        parser.add_argument(f"--{part}", type=_count, metavar="N", help=f"no further page after so many {part}")
    parser.add_argument("--cursor", metavar="CURSOR", help="next_cursor of an earlier walk with the same arguments")
    parser.add_argument("--request-id", metavar="ID", help="your name for it: a repeat gives the record, sends nothing")
    parser.add_argument("--reason", metavar="TEXT", help="why, for the human who may be asked")
    parser.add_argument("--wait", type=seconds, metavar="SECONDS", help="how long to wait for a human; 0 does not")
    if json_option:
        parser.add_argument("--json", action="store_true", help="print the envelope")
    return parser


def collect_request(options: "argparse.Namespace") -> "dict[str, JsonValue]":
    """The request that the options spell. Raises UsageError."""
    for text in (*options.words, options.cursor, options.request_id, options.reason):
        if isinstance(text, str):
            refuse_broken_text(text, "an argument")
    request = call_part(options)
    budget: dict[str, JsonValue] = {
        part: getattr(options, part) for part in _PARTS if getattr(options, part) is not None
    }
    if budget:
        request["budget"] = budget
    for name, value in (
        ("cursor", options.cursor),
        ("request_id", options.request_id),
        ("reason", options.reason),
        ("wait_s", options.wait),
    ):
        if value is not None:
            request[name] = value
    return request


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(f"a whole number above 0 was expected: {text!r}")
    return int(text)

"""`doorward matrix`: the failure matrix, a program of its own. This checks the words and becomes it."""

import os
import sys

from broker.cli.arguments import Parser

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from typing import Never

_ABOUT = """Show that the contract holds: a real daemon over a throw-away state, far sides that fail as the
cases say, scripted agents; results, next steps, the far sides' own logs and the audit log are held
against each other.

Needs the extra matrix: uv tool install '.[matrix]' in a clone of doorward."""


def run(noun: str, arguments: list[str]) -> "Never":
    parser = Parser(f"doorward {noun}", _ABOUT)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    each = verbs.add_parser("run", help="run the cases of these files; exit 0 only if all hold")
    each.add_argument("files", nargs="+", metavar="FILE", help="cases, in YAML")
    each.add_argument("--json", action="store_true", help="print the machine form")
    each.add_argument("--junit", metavar="FILE", help="write a JUnit report to FILE")
    each.add_argument("--only", metavar="GLOB", help="only cases whose id or group fits")
    each.add_argument("--keep", action="store_true", help="leave the state directory for inspection")
    each.add_argument("--repeat", type=int, metavar="N", help="run every case that has a fault N times")
    alone = verbs.add_parser("serve", help="the far sides alone; their log comes as JSON lines")
    alone.add_argument("files", nargs="*", metavar="FILE", help="cases whose answers and faults are served")
    alone.add_argument("--only", metavar="GLOB", help="only cases whose id or group fits")
    parser.parse_args(arguments)
    sys.stdout.flush()
    program = [sys.executable, "-I", "-m", "broker.matrix", *arguments]
    os.execv(sys.executable, program)  # noqa: S606 - our own program, no shell

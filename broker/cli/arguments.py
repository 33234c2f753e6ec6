"""Argument parsing with the contract's ending: what argparse would exit with becomes a UsageError.

Option names are never abbreviated: a script must not break when an option is added.
"""

import argparse
import sys

from broker.cli.faults import HelpShown, UsageError

_LONGEST_S = 86_400.0

TYPE_CHECKING = False  # neither `typing` nor `typing_extensions` is loaded for the agent's verbs
if TYPE_CHECKING:
    from typing import Never

    from typing_extensions import override
else:

    def override(method: object) -> object:
        return method


class Parser(argparse.ArgumentParser):
    """One verb's parser."""

    def __init__(self, prog: str, description: str | None = None, **_: object) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=_formatter,
        )

    def parse_mixed(self, arguments: list[str]) -> argparse.Namespace:
        """Options and words in any order, the words in `words`. argparse's own way costs three times as much."""
        self.add_argument("words", nargs="*", help=argparse.SUPPRESS)
        options, rest = self.parse_known_args(arguments)
        for word in rest:
            if word.startswith("-") and word not in {"-", "--"}:
                self.error(f"unrecognized: {word}")
        options.words = [*options.words, *(word for word in rest if word != "--")]
        return options

    @override
    def error(self, message: str) -> "Never":
        raise UsageError(f"{message} ({self.prog} --help tells more)")

    @override
    def exit(self, status: int = 0, message: str | None = None) -> "Never":  # noqa: ARG002 - argparse's signature
        if message:
            print(message, end="", file=sys.stderr)
        raise HelpShown


def _formatter(prog: str) -> argparse.HelpFormatter:
    """A fixed width: asking for the terminal's would load shutil for every option that is declared."""
    return argparse.RawDescriptionHelpFormatter(prog, width=79)


def seconds(text: str) -> float:
    """A time that can be waited for; what argparse makes of the ValueError names it."""
    value = float(text)
    if not 0 <= value <= _LONGEST_S:
        raise ValueError(text)
    return value


def whole_number(text: str) -> int:
    """0 and up; what argparse makes of the ValueError names it."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def positive_number(text: str) -> int:
    """1 and up, likewise."""
    value = whole_number(text)
    if value == 0:
        raise ValueError(text)
    return value


def human_parser(prog: str, description: str | None = None) -> Parser:
    """A parser with what every human verb takes."""
    parser = Parser(prog, description)
    add_human_options(parser)
    return parser


def add_human_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passphrase-fd", type=int, metavar="N", help="read the passphrase's line from descriptor N")
    parser.add_argument("--approver-key", metavar="FILE", help="your approver key, where it is not in its usual place")
    parser.add_argument("--yes", action="store_true", help="ask nothing: do it")
    parser.add_argument("--json", action="store_true", help="print the machine form")


def add_cost(parser: argparse.ArgumentParser) -> None:
    """How dear a guess is made."""
    parser.add_argument(
        "--kdf-cost",
        choices=("calibrated", "least"),
        default="calibrated",
        help="how dear one guess of the passphrase is: half a second here, or the least that is accepted",
    )


class Verbs:
    """The verbs of a noun, each a parser with what every human verb takes; the chosen one is in `verb`."""

    def __init__(self, noun: str, about: str) -> None:
        self.parser = Parser(f"doorward {noun}", about)
        self._verbs = self.parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def add(self, name: str, about: str, *, epilog: str | None = None) -> Parser:
        verb = self._verbs.add_parser(name, help=about)
        verb.description, verb.epilog = about, epilog
        add_human_options(verb)
        return verb

"""Write the shell completions and the manual page from the command's own parsers: `make pages`.

    packaging/make_pages.py [DIRECTORY]     default: packaging

Nothing here is written by hand, so nothing can differ from what the command takes. A test makes them anew and compares.
"""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

import shtab
from build_manpages.manpage import Manpage  # type: ignore[import-untyped]  # it brings no types

from broker.cli.arguments import Parser
from broker.cli.main import AGENT_VERBS, HUMAN_VERBS
from broker.contract.exits import EXIT_CODES

ABOUT = (
    "Holds credentials outside the agent's process, asks a human where the policy says so, and proves what happened."
)
PAGE_DATE = "2026-11-30"  # when its form was changed last: pages made on two days are the same
# Words that have a parser of their own.
FURTHER = {"ssh": ("put", "get"), "explain": ("http", "collect", "ssh"), "policy": ("explain",)}


class _CapturedError(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def parser_of(noun: str, module: str, *words: str) -> argparse.ArgumentParser:
    """The parser that this verb reads its words with, caught at the moment when it would."""

    def caught(self: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise _CapturedError(self)

    names = ("parse_args", "parse_known_args")
    kept = {name: getattr(argparse.ArgumentParser, name) for name in names}
    for name in names:
        setattr(argparse.ArgumentParser, name, caught)
    try:
        import_module(f"broker.cli.{module}").run(noun, list(words))
    except _CapturedError as captured:
        return captured.parser
    finally:
        for name, method in kept.items():
            setattr(argparse.ArgumentParser, name, method)
    raise LookupError(f"doorward {noun} reads its words without a parser")


def whole() -> argparse.ArgumentParser:
    """One parser of everything, for what walks over it. It parses nothing."""
    root = Parser("doorward", ABOUT)
    root.add_argument("-V", "--version", action="store_true", help="print the version")
    nouns = root.add_subparsers(dest="noun", metavar="VERB")
    for noun, (module, about) in {**AGENT_VERBS, **HUMAN_VERBS}.items():
        shown = nouns.add_parser(noun, help=about)
        parser = parser_of(noun, module)
        parser.description = parser.description or about
        cast("dict[str, argparse.ArgumentParser]", nouns._name_parser_map)[noun] = parser  # noqa: SLF001 - no public way
        del shown
        if noun in FURTHER:
            inner = _verbs_of(parser)
            for word in FURTHER[noun]:
                if word not in inner.choices:
                    inner.add_parser(word, help=f"{noun} {word}")
                inner._name_parser_map[word] = parser_of(noun, module, word)  # noqa: SLF001 - likewise
    return root


def _verbs_of(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    found = next(subparsers(parser), None)
    return found if found is not None else parser.add_subparsers(dest="further", metavar="WHAT")


def subparsers(parser: argparse.ArgumentParser) -> Iterator["argparse._SubParsersAction[argparse.ArgumentParser]"]:
    for action in parser._actions:  # noqa: SLF001 - argparse tells of its actions in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - likewise
            yield action


def fish(parser: argparse.ArgumentParser) -> str:
    """Completions for fish, which shtab does not make: verbs, their verbs, and options with what they mean."""
    lines = ["# Made by packaging/make_pages.py.", "complete -c doorward -f"]
    lines += _fish_of(parser, [])
    return "\n".join(lines) + "\n"


def _fish_of(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[str]:
    inner = next(subparsers(parser), None)
    names = [] if inner is None else sorted(inner.choices)
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)
    first = f"not __fish_seen_subcommand_from {' '.join(names)}" if names else ""
    condition = "; and ".join(part for part in (seen, first) if part)
    told = {} if inner is None else {choice.dest: choice.help or "" for choice in inner._choices_actions}  # noqa: SLF001 - likewise
    for name in names:
        yield f"complete -c doorward -n {_quoted(condition)} -a {name} -d {_quoted(told.get(name, ''))}"
    for action in parser._actions:  # noqa: SLF001 - likewise
        if action.option_strings and action.help != argparse.SUPPRESS:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in action.option_strings
            )
            value = " -r" if action.nargs != 0 else ""
            options = seen or "__fish_use_subcommand"
            yield f"complete -c doorward -n {_quoted(options)} {flags}{value} -d {_quoted(action.help or '')}"
    for name in names:
        yield from _fish_of(inner.choices[name], [*words, name]) if inner is not None else ()


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def manual(parser: argparse.ArgumentParser) -> str:
    """The page of the command with all its verbs. It names no day: it is made anew and compared."""
    _, _, verbs = str(Manpage(parser)).partition(".SH SYNOPSIS")
    codes = "\n".join(
        f".TP\n{code}\n{_plain(name)}" for name, code in sorted(EXIT_CODES.items(), key=lambda one: one[1])
    )
    return f"""\
.TH DOORWARD 1 "{PAGE_DATE}" "doorward" "User Commands"
.SH NAME
doorward \\- perform an agent's actions with credentials that it never sees
.SH SYNOPSIS{verbs.rstrip()}
.SH EXIT STATUS
The category of the result decides; 1 is a failure of the command itself, 64 a wrong command line.
{codes}
.SH ENVIRONMENT
.TP
DOORWARD_HOME
Keeps policies, state and sockets below this one directory.
.TP
NO_COLOR
Draws without colour.
.SH SEE ALSO
The guides in the documentation of the project: agents, policies, approvals, sessions, the audit log, the vault.
"""


def _plain(name: str) -> str:
    return name.replace("-", "\\-")


def pages() -> dict[str, str]:
    """Each page by its place below packaging/."""
    root = whole()
    return {
        "completions/doorward.bash": shtab.complete(root, "bash"),
        "completions/_doorward": shtab.complete(root, "zsh"),
        "completions/doorward.fish": fish(root),
        "man/doorward.1": manual(root),
    }


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for place, text in pages().items():
        (where / place).parent.mkdir(parents=True, exist_ok=True)
        (where / place).write_text(text, encoding="utf-8")

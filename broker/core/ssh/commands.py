"""Patterns over remote commands: token by token, `*` is one token, a last `**` any number of them.

A command with shell syntax has no tokens that could be relied on. It fits a pattern only where the rule says so, and
then as a whole, letter for letter.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

ONE, REST = "*", "**"
OPTION = "-*"  # of a declared operation: a word that begins with a dash
ARGUMENT = re.compile(r"\{([a-z][a-z0-9_]{0,63})\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command as rules look at it. `words` is None where it holds shell syntax."""

    text: str
    words: tuple[str, ...] | None


def tokens_of(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split())


def fault_of_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern of words; None where it is one."""
    tokens = tokens_of(pattern)
    if not tokens:
        return "it names no word"
    if REST in tokens[:-1]:
        return "** stands at the end alone"
    if any("*" in token and token not in {ONE, REST} for token in tokens):
        return "* stands for a whole word"
    return None if tokens[0] not in {ONE, REST} else "the first word is spelled out"


def placeholders(words: Iterable[str]) -> tuple[str, ...]:
    """The arguments that stand in the words of an operation, each once."""
    return tuple(dict.fromkeys(name for word in words for name in ARGUMENT.findall(word)))


def command_fits(pattern: str, command: Command, *, shell: bool, options: bool = True) -> bool:
    """`shell` is the rule's own word that it means commands with shell syntax.

    Without `options`, `*` and `**` stand for no word that begins with a dash: it may turn a command into another one.
    """
    if command.words is None:
        return shell and pattern == command.text
    return words_fit(tokens_of(pattern), command.words, options=options)


def words_fit(tokens: tuple[str, ...], words: tuple[str, ...], *, options: bool = True) -> bool:
    if tokens[-1:] == (REST,):
        tokens, rest = tokens[:-1], words[len(tokens) - 1 :]
        words = words[: len(tokens)]
        if not options and any(word.startswith("-") for word in rest):
            return False
    if len(tokens) != len(words):
        return False
    return all(
        token == word or (token == ONE and (options or not word.startswith("-")))
        for token, word in zip(tokens, words, strict=True)
    )

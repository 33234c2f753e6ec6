"""Declared operations of SSH: which commands fit one, with which arguments, and the words that arguments spell.

An argument fills its place within one word and never reaches past it; at the beginning of a word it is no option. What
fits several operations alike is none of them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from broker.contract.wire import JsonObject, JsonValue
from broker.core.ssh.commands import ARGUMENT, ONE, OPTION, placeholders
from broker.core.ssh.model import SshHost, SshOperation


class SshArgumentError(ValueError):
    """Arguments that the operation does not take. The message names declared arguments and holds no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """An operation that a command is, and the arguments found in it."""

    operation: SshOperation
    args: Mapping[str, str]


def arguments_of(operation: SshOperation, given: JsonObject) -> dict[str, str]:
    """Check names and values. Raises SshArgumentError."""
    names = placeholders(operation.command)
    if not set(given) <= set(names):
        takes = ", ".join(names) or "none"
        raise SshArgumentError(f"an argument that the operation does not take; it takes {takes}")
    missing = [name for name in names if name not in given]
    if missing:
        raise SshArgumentError(f"missing: {', '.join(missing)}")
    return {name: _text(name, given[name]) for name in names}


def words_of(template: tuple[str, ...], args: Mapping[str, str]) -> tuple[str, ...]:
    """The words that the arguments spell. Raises SshArgumentError."""
    for word in template:
        found = ARGUMENT.match(word)
        if found is not None and args[found[1]].startswith("-"):
            raise SshArgumentError(f"{found[1]} begins with a dash and would be read as an option")
    return tuple(ARGUMENT.sub(lambda found: args[found[1]], word) for word in template)


def fits_of(operations: Iterable[SshOperation], host: SshHost, words: tuple[str, ...]) -> tuple[Fit, ...]:
    """The operations for this host that the command fits most literally; more than one where none is the nearest."""
    best: list[Fit] = []
    for operation in operations:
        if operation.hosts and host.name not in operation.hosts:
            continue
        args = _found(operation.command, words)
        if args is None:
            continue
        rank = _rank(operation.command)
        if best and rank < _rank(best[0].operation.command):
            continue
        if best and rank > _rank(best[0].operation.command):
            best.clear()
        best.append(Fit(operation=operation, args=args))
    return tuple(best)


def pattern_of(operation: SshOperation) -> tuple[str, ...]:
    """Its words as a pattern of rules: a word with an argument in it is any word, an option where it begins as one."""
    return tuple(_any_word(word) if ARGUMENT.search(word) else word for word in operation.command)


def _any_word(word: str) -> str:
    return OPTION if word.startswith("-") else ONE


def _rank(template: tuple[str, ...]) -> tuple[int, int]:
    """Bigger is more literal: words without an argument first, then letters."""
    literal = [ARGUMENT.sub("", word) for word in template]
    return sum(word == left for word, left in zip(template, literal, strict=True)), sum(map(len, literal))


def _found(template: tuple[str, ...], words: tuple[str, ...]) -> dict[str, str] | None:
    if len(template) != len(words):
        return None
    args: dict[str, str] = {}
    for pattern, word in zip(template, words, strict=True):
        found = _pattern(pattern).fullmatch(word)
        if found is None or (found.groupdict() and word.startswith("-") and not pattern.startswith("-")):
            return None
        for name, value in found.groupdict().items():
            if args.setdefault(name, value) != value:
                return None
    return args


@lru_cache(maxsize=4096)
def _pattern(word: str) -> re.Pattern[str]:
    seen: set[str] = set()
    parts, at = "", 0
    for found in ARGUMENT.finditer(word):
        parts += re.escape(word[at : found.start()])
        parts += f"(?P={found[1]})" if found[1] in seen else rf"(?P<{found[1]}>[^\x00-\x1f\x7f]+?)"
        seen.add(found[1])
        at = found.end()
    return re.compile(parts + re.escape(word[at:]))


def _text(name: str, value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise SshArgumentError(f"{name} stands in a command and is a text or an integer")
    text = str(value)
    if not text or any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise SshArgumentError(f"{name} is empty, or holds a control character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise SshArgumentError(f"{name} holds half a surrogate pair") from None
    return text

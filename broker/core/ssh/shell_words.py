"""Words of a POSIX shell: quoting them so that the far shell sees exactly these, and reading them back.

A text that the shell would do more with than split it has no words here: operators, expansions, globs, comments.
"""

import re

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./^-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def quote(argv: tuple[str, ...]) -> bytes:
    """One line that a shell splits into these words."""
    return " ".join(_quoted(word, first=at == 0) for at, word in enumerate(argv)).encode("utf-8", "surrogateescape")


def split(command: bytes) -> tuple[str, ...] | None:
    """The words; None where the text has shell syntax."""
    text = command.decode("utf-8", "surrogateescape")
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        word = _word(text, at)
        if word is None:
            return None
        if not words and _ASSIGNMENT.match(text, at):
            return None
        words.append(word[0])
        at = word[1]
    return tuple(words)


def _word(text: str, at: int) -> tuple[str, int] | None:
    word = ""
    while at < len(text) and text[at] not in " \t":
        if text[at] == "'":
            end = text.find("'", at + 1)
            if end < 0 or "\n" in text[at:end]:
                return None
            word, at = word + text[at + 1 : end], end + 1
        elif text[at] == '"':
            end = text.find('"', at + 1)
            if end < 0 or set(text[at + 1 : end]) & set("$`\\!\n"):
                return None
            word, at = word + text[at + 1 : end], end + 1
        elif _PLAIN.match(text[at]):
            word, at = word + text[at], at + 1
        else:
            return None
    return word, at


def _quoted(word: str, *, first: bool) -> str:
    if _PLAIN.fullmatch(word) and not (first and _ASSIGNMENT.match(word)):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"

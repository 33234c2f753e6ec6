"""Words for a login shell that nobody knows: quoting that sh, bash, dash, ash, zsh, csh, tcsh and fish read alike.

`split` reads a line back into words only where every one of these shells would see the same words and do no more than
run them: no operator, expansion, glob, assignment, comment, reserved word or unclosed quote. (A newline in a word is
the one thing that csh has no spelling for: it refuses the line.)
"""

import re

_PLAIN = re.compile(r"-[A-Za-z0-9_@+:,./=-]*|[A-Za-z0-9_@+:,./][A-Za-z0-9_@+:,./-]*")
_BARE = re.compile(r"[A-Za-z0-9_@+:,./=^-]")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish"})
_RESERVED = frozenset(
    {
        "if", "then", "else", "elif", "elsif", "fi", "do", "done", "case", "esac", "while", "until", "for", "foreach",
        "in", "function", "select", "time", "coproc", "repeat", "begin", "end", "endif", "endsw", "switch", "default",
        "breaksw", "and", "or", "not", "nocorrect", "noglob",
    }
)  # fmt: skip
_LITERAL = re.compile(rb"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_PIPE = re.compile(rb"(?<![|>])\|(?!\|)")
_BACKSLASHED = "'\\!"  # read alike only outside of quotes
_IN_DOUBLE = frozenset('$`\\!"')
_IN_SINGLE = frozenset("\\!'")


def quote(argv: tuple[str, ...]) -> bytes:
    """One line that a login shell splits into these words. Raises ValueError for no words, and for a NUL."""
    if not argv or any("\0" in word for word in argv):
        raise ValueError("a command has words, and none of them holds a NUL")
    try:
        return " ".join(_quoted(word, is_first=at == 0) for at, word in enumerate(argv)).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a word holds half a surrogate pair") from None


def split(command: bytes) -> tuple[str, ...] | None:
    """The words; None where the text has shell syntax, or none of them."""
    try:
        text = command.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if any((ord(character) < 0x20 and character != "\t") or ord(character) == 0x7F for character in text):
        return None
    words: list[str] = []
    at = 0
    while True:
        while at < len(text) and text[at] in " \t":
            at += 1
        if at == len(text):
            return tuple(words) or None
        read = _word(text, at)
        if read is None or (not words and _is_syntax(read[0], text[at : read[1]])):
            return None
        words.append(read[0])
        at = read[1]


def pipes(command: bytes, argv: tuple[str, ...] | None) -> bool:
    """Whether output goes through a pipe, whose other side may cut it and hides how the first side ended."""
    if argv is None:
        return _has_pipe(command)
    is_shell = argv[0].rpartition("/")[2] in _SHELLS and len(argv) > 2
    return is_shell and any(_has_pipe(word.encode("utf-8")) for word in argv[1:])


def _has_pipe(command: bytes) -> bool:
    return _PIPE.search(_LITERAL.sub(b"x", command)) is not None


def _word(text: str, at: int) -> tuple[str, int] | None:
    """The word that begins here, and where it ends; None where it is more than a word."""
    word = ""
    start = at
    while at < len(text) and text[at] not in " \t":
        mark = text[at]
        if mark in "'\"":
            end = text.find(mark, at + 1)
            inside = text[at + 1 : end]
            if end < 0 or set(inside) & (_IN_SINGLE if mark == "'" else _IN_DOUBLE):
                return None
            word, at = word + inside, end + 1
        elif (_BARE.match(mark) or ord(mark) >= 0x80) and not (mark == "=" and at == start):
            word, at = word + mark, at + 1
        else:
            return None
    return word, at


def _is_syntax(word: str, spelled: str) -> bool:
    """Whether a first word may be read as an assignment or as a reserved word."""
    return word in _RESERVED or ("=" in spelled and not spelled.startswith("-"))


def _quoted(word: str, *, is_first: bool) -> str:
    if _PLAIN.fullmatch(word) and not (is_first and word in _RESERVED):
        return word
    pieces = re.findall(r"['\\!]|[^'\\!]+", word)
    return "".join(f"\\{piece}" if piece in _BACKSLASHED else f"'{piece}'" for piece in pieces) or "''"

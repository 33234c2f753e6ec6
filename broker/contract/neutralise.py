"""Text of others made harmless and honest: what could hide, reorder, erase or pad becomes a visible escape.

`visible` keeps distinct texts distinct (the backslash is doubled, so every single backslash is ours), draws only
characters whose width is known, and interprets no markup. It hides nothing: what it cuts or counts, it says.
Knows nothing of screens: folding and colours are the surface's business. Letters of all scripts stay letters.
"""

import re
import unicodedata
from functools import lru_cache

RUN_LIMIT = 24  # a longer run of one character is counted
RUN_SHOWN = 8
MARKS_LIMIT = 2  # marks on one letter; more of them draw over other lines
SMALLEST_LIMIT = 24  # room for the note that says how much was cut
LOOKED_AT_PER_CELL = 64  # what lies further behind is counted and not looked at: it could only fill runs

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs", "Mc"})  # Mc: a column here, none there
_MARK_CATEGORIES = frozenset({"Mn", "Mc", "Me"})
_BLANK = frozenset(  # drawn as nothing or as a blank, though their categories say letter, mark or symbol
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    ]
)
# Terminals disagree on the room that these take: a long ligature, flag letters, skin tones.
_UNSURE_WIDTH = frozenset([0xFDFD, *range(0x1F1E6, 0x1F200), *range(0x1F3FB, 0x1F400)])
_JAMO_PARTS = frozenset([*range(0x1161, 0x1200), *range(0xD7B0, 0xD800)])  # these join the letter before them
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_RUN = re.compile(rf"(.)\1{{{RUN_LIMIT}}}", re.DOTALL)

_Piece = tuple[str, int]  # what is drawn, and for how many characters of the source


def visible(text: str, *, limit: int | None = None, multiline: bool = False) -> str:
    """The text as it may be drawn. `limit` counts cells, the note on the cut included (never under SMALLEST_LIMIT).

    With `multiline` line feeds stay line feeds (at most two in a row); tabs and all else are escaped as ever.
    """
    if _is_plain(text) and (limit is None or len(text) <= limit):
        return text
    looked_at = len(text) if limit is None else min(len(text), max(limit, SMALLEST_LIMIT) * LOOKED_AT_PER_CELL)
    pieces = _counted(_drawn(text[:looked_at], multiline=multiline))
    return _cut(pieces, limit, beyond=len(text) - looked_at)


def quoted(text: str, *, limit: int | None = None) -> str:
    """Words of others in double quotes that they cannot close. `limit` is for what stands between the quotes."""
    if _is_plain(text) and '"' not in text and (limit is None or len(text) <= limit):
        return f'"{text}"'
    pairs = [(source, '\\"' if source == '"' else drawn) for source, drawn in _drawn(text, multiline=False)]
    return f'"{_cut(_counted(pairs), limit)}"'


def hidden_count(text: str) -> int:
    """How many characters would not have been seen as what they are. Line ends and tabs do not count."""
    if _is_plain(text):
        return 0
    return sum(len(drawn) > 1 and source not in _SHORT for source, drawn in _drawn(text, multiline=False))


def visible_json(text: str) -> str:
    """JSON text in which what could hide or reorder is spelled by JSON's own escapes: the same document."""
    if text.isascii():
        return text
    return "".join(_json_escape(character) if _hides_in_json(character) else character for character in text)


def cells(text: str) -> int:
    """Columns that a text takes on a terminal. For text that went through `visible`."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and "\\" not in text and _RUN.search(text) is None


def _drawn(text: str, *, multiline: bool) -> list[tuple[str, str]]:
    """Each character with what is drawn for it."""
    out: list[tuple[str, str]] = []
    marks = MARKS_LIMIT  # a mark without a letter of its own would sit on a sign of ours
    for character in text:
        if _is_mark(character):
            marks += 1
            drawn = _escape(character) if marks > MARKS_LIMIT or _hides(character) else character
        elif character == "\n" and multiline:
            marks, drawn = MARKS_LIMIT, character
        elif character in _SHORT or _hides(character):
            marks, drawn = MARKS_LIMIT, _SHORT.get(character) or _escape(character)
        else:
            marks, drawn = (MARKS_LIMIT if character == " " else 0), character
        out.append((character, drawn))
    return out


def _counted(pairs: list[tuple[str, str]]) -> list[_Piece]:
    """Long runs of one character shortened and counted; the last of a run is drawn, its marks belong on it."""
    out: list[_Piece] = []
    start = 0
    while start < len(pairs):
        source, drawn = pairs[start]
        end = start + 1
        while end < len(pairs) and pairs[end][0] == source:
            end += 1
        length = end - start
        shown = 2 if drawn == "\n" else RUN_SHOWN
        if length > (2 if drawn == "\n" else RUN_LIMIT):
            out += [(piece, 1) for _, piece in pairs[start : start + shown - 1]]
            out += [(f"\\{{{length - shown} more alike}}", length - shown), (pairs[end - 1][1], 1)]
        else:
            out += [(piece, 1) for _, piece in pairs[start:end]]
        start = end
    return out


def _cut(pieces: list[_Piece], limit: int | None, *, beyond: int = 0) -> str:
    """Join; over the limit whole pieces are left out from the end, and the number of characters in them is said.

    `beyond` characters of the source are in no piece: there was no need to look at them.
    """
    whole = "".join(drawn for drawn, _ in pieces)
    if limit is None or (not beyond and cells(whole) <= limit):
        return whole
    left_out = sum(count for _, count in pieces) + beyond
    room = max(limit, SMALLEST_LIMIT) - len(_more(left_out))
    kept: list[str] = []
    for drawn, count in pieces:
        room -= cells(drawn)
        if room < 0:
            break
        kept.append(drawn)
        left_out -= count
    return "".join(kept) + _more(left_out)


def _more(count: int) -> str:
    return f"\\{{{count} more}}"


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def _hides_in_json(character: str) -> bool:
    return not character.isascii() and (_hides(character) or _is_mark(character))


def _json_escape(character: str) -> str:
    point = ord(character)
    if point < 0x10000:
        return f"\\u{point:04x}"
    high, low = divmod(point - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


@lru_cache(maxsize=4096)
def _hides(character: str) -> bool:
    if " " <= character <= "~":
        return False
    point = ord(character)
    return unicodedata.category(character) in _ESCAPED_CATEGORIES or point in _BLANK or point in _UNSURE_WIDTH


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in _MARK_CATEGORIES or ord(character) in _JAMO_PARTS


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"} or ord(character) in _JAMO_PARTS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1

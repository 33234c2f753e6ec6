"""The lines of a policy file that a change is about: the table that stands at a place, and what differs in it.

For humans who look at an edit. The text is the administrator's, as it came; whoever shows it neutralises it.
"""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from broker.contract.wire import JsonValue
from broker.core.policy.place import Place
from broker.policyfiles.files import PolicyFile

BLOCK_MAX_LINES = 80
SHOWN_MAX_LINES = 40
LINE_MAX_CHARACTERS = 400


def block_lines(files: Iterable[PolicyFile], place: Place | None) -> list[str]:
    """The table around a place, from its header to the next one; nothing where it is not there."""
    text = None if place is None else next((file.raw for file in files if file.name == place.file), None)
    if place is None or text is None:
        return []
    lines = text.decode("utf-8", "replace").splitlines()
    begin = min(place.line, len(lines)) - 1
    while begin > 0 and not lines[begin].startswith("["):
        begin -= 1
    end = begin + 1
    while end < len(lines) and not lines[end].startswith("["):
        end += 1
    block = [line.rstrip()[:LINE_MAX_CHARACTERS] for line in lines[max(begin, 0) : end]]
    while block and (not block[-1] or block[-1].startswith("#")):
        block.pop()  # what stands before the next table is about that
    return block[:BLOCK_MAX_LINES]


def difference(was: Sequence[str], now: Sequence[str]) -> list[JsonValue]:
    """Line by line: `-` was, `+` is now, a space for what stays."""
    rows: list[JsonValue] = []
    for kind, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if kind == "equal":
            rows += [{"sign": " ", "text": line} for line in now[c:d]]
        else:
            rows += [{"sign": "-", "text": line} for line in was[a:b]]
            rows += [{"sign": "+", "text": line} for line in now[c:d]]
    return rows[:SHOWN_MAX_LINES]

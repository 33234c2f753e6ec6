"""What trusting a policy would change, in decisions, and the signature that puts it in force."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime

from broker.cli.faults import CliError
from broker.cli.output import number, on, show, text
from broker.cli.prompts import word
from broker.cli.reach import Desk
from broker.client.card_words import counted, short_digest
from broker.client.envelope_lines import part, parts
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject

DIGITS = 4
_WORDS_OF_A_REQUEST = 4
_ORDER = ("loosens", "new_reach", "tightens")


def trust(reached: Desk, options: Namespace) -> int:
    """Show, ask for the first digits of the digest, sign. Raises CliError where the files do not load."""
    pending = reached.control.policy_pending()
    refuse_faults(pending)
    if pending.get("same") is True:
        show(pending, ["nothing to trust: the files are what is in force"], as_json=options.json)
        return 0
    digest = text(pending, "digest")
    if not (options.json and options.yes):  # nobody signs what was not shown
        told = sys.stderr if options.json else sys.stdout
        print(on(told, pending_lines(pending)), file=told, flush=True)
    if not options.yes:
        wanted = digest.partition(":")[2][:DIGITS]
        if word(f"Type {wanted} to trust these files:") != wanted:
            raise CliError("not trusted; the old policy stays in force. To be asked again: doorward policy trust")
    answer = reached.control.trust_policy(digest, number(pending, "counter"), reached.key)
    lines = [f"trusted {short_digest(digest)}, counter {text(answer, 'counter')}; it is in force now"]
    show(answer, lines, as_json=options.json)
    return 0


def pending_lines(pending: JsonObject, *, with_lines: bool = False) -> list[str]:
    """Loosened always above tightened; what the administrator wrote is neutralised like all else."""
    files = ", ".join(text(file, "name") for file in parts(pending, "files")) or "no file"
    out = [f"{text(pending, 'digest')}, counter {text(pending, 'counter')}: {files}"]
    out += [_edited(file) for file in parts(pending, "edited")]
    if pending.get("same") is True:
        out.append("the files are what is in force")
    elif not parts(pending, "changes") and not parts(pending, "faults"):
        out.append("no decision changes")
    changes = sorted(parts(pending, "changes"), key=_rank)
    if with_lines:
        out += [line for change in changes for line in (*_changes([change]), *_lines_of(change))]
    else:
        out += _changes(changes)
    if changes:
        out.append(f"{number(pending, 'unchanged')} other decisions stay as they are")
        ends = part(pending, "voids")
        cards, grants = number(ends, "cards"), number(ends, "grants")
        out += (
            [f"trusting ends {counted(cards, 'waiting card')} and {counted(grants, 'grant')}"] if cards + grants else []
        )
    out += [f"warning: {_finding(warning)}" for warning in parts(pending, "warnings")]
    out += [f"fault: {_finding(fault)}" for fault in parts(pending, "faults")]
    return out


def finding_lines(findings: Sequence[JsonObject]) -> list[str]:
    """A line for each fault or warning, as it came: whoever prints it neutralises it."""
    return [_plain(finding) for finding in findings]


def refuse_faults(pending: JsonObject) -> None:
    faults = parts(pending, "faults")
    if faults:
        told = "\n".join(_plain(fault) for fault in faults)
        raise CliError(f"the files do not load; the old policy stays in force\n{told}", code="policy_faults")


def _edited(file: JsonObject) -> str:
    """What the disk says of a file that differs from the one that was signed."""
    at_ms, uid = file.get("modified_at_ms"), file.get("uid")
    when = f", {_local(at_ms)}" if isinstance(at_ms, int) else ""
    return f"  {text(file, 'status')}: {text(file, 'name')}{when}" + ("" if uid is None else f", by uid {uid}")


def _local(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms // 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "at an odd time"


def _lines_of(change: JsonObject) -> list[str]:
    return [
        f"      {text(line, 'sign')} {visible(str(line.get('text')), limit=400)}" for line in parts(change, "lines")
    ]


def _rank(change: JsonObject) -> int:
    direction = change.get("direction")
    return _ORDER.index(direction) if isinstance(direction, str) and direction in _ORDER else -1


def _changes(changes: Sequence[JsonObject]) -> list[str]:
    """One line for each change; operations of one service that change alike share a line."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for change in changes:
        about, operation = _apart(text(change, "subject"))
        alike = tuple(text(change, name) for name in ("direction", "was", "becomes", "place"))
        lines.setdefault((*alike, about), []).append(operation)
    return [_line(key, operations) for key, operations in lines.items()]


def _apart(subject: str) -> tuple[str, str]:
    """`AGENT EFFECT SERVICE` and the operation, where the subject is of that form; else all of it, and nothing."""
    words = subject.split(" ")
    if len(words) == _WORDS_OF_A_REQUEST and words[1].isupper():
        return " ".join(words[:3]), words[3]
    return subject, ""


def _line(key: tuple[str, ...], operations: list[str]) -> str:
    direction, was, becomes, place, about = key
    sign = " " if direction.startswith("tighten") else "!"
    what = f"{about} {', '.join(operations)}".rstrip()
    return f"{sign} {direction.replace('_', ' ')}: {what}: {was} -> {becomes}" + (
        f"  ({place})" if place != "-" else ""
    )


def _finding(finding: JsonObject) -> str:
    return visible(_plain(finding))


def _plain(finding: JsonObject) -> str:
    """`file:line: key: problem, expected`, as it came: whoever prints it neutralises it."""
    names = ("file", "line", "key", "problem", "expected")
    file, line, key, problem, expected = (finding.get(name) for name in names)
    place = f"{file}:{line}: {key}: " if file else ""
    return f"{place}{problem}" + (f", expected {expected}" if expected else "")

"""What trusting a policy would change, in decisions, and the signature that puts it in force."""

from argparse import Namespace
from collections.abc import Mapping

from broker.cli.faults import CliError
from broker.cli.output import number, parts, show, text
from broker.cli.prompts import word
from broker.cli.reach import Desk
from broker.client.card_words import short_digest
from broker.contract.neutralise import visible
from broker.contract.wire import JsonValue

DIGITS = 4
_ORDER = ("loosens", "new_reach", "tightens")


def trust(reached: Desk, options: Namespace) -> int:
    """Show, ask for the first digits of the digest, sign. Raises CliError where the files do not load."""
    pending = reached.control.policy_pending()
    refuse_faults(pending)
    if pending.get("same") is True:
        show(pending, ["nothing to trust: the files are what is in force"], as_json=options.json)
        return 0
    digest = text(pending, "digest")
    if not options.json:
        print("\n".join(pending_lines(pending)))
    if not options.yes:
        wanted = digest.partition(":")[2][:DIGITS]
        if word(f"Type {wanted} to trust these files:") != wanted:
            raise CliError("not trusted; the old policy stays in force")
    answer = reached.control.trust_policy(digest, number(pending, "counter"), reached.key)
    lines = [f"trusted {short_digest(digest)}, counter {text(answer, 'counter')}; it is in force now"]
    show(answer, lines, as_json=options.json)
    return 0


def pending_lines(pending: Mapping[str, JsonValue]) -> list[str]:
    """Loosened always above tightened; what the administrator wrote is neutralised like all else."""
    files = ", ".join(text(file, "name") for file in parts(pending, "files")) or "no file"
    out = [f"{text(pending, 'digest')}, counter {text(pending, 'counter')}: {files}"]
    if pending.get("same") is True:
        out.append("the files are what is in force")
    changes = sorted(parts(pending, "changes"), key=_rank)
    out += [_change(change) for change in changes]
    out += [f"warning: {_finding(warning)}" for warning in parts(pending, "warnings")]
    out += [f"fault: {_finding(fault)}" for fault in parts(pending, "faults")]
    return out


def refuse_faults(pending: Mapping[str, JsonValue]) -> None:
    faults = parts(pending, "faults")
    if faults:
        told = "\n".join(_plain(fault) for fault in faults)
        raise CliError(f"the files do not load; the old policy stays in force\n{told}", code="policy_faults")


def _rank(change: Mapping[str, JsonValue]) -> int:
    direction = change.get("direction")
    return _ORDER.index(direction) if isinstance(direction, str) and direction in _ORDER else -1


def _change(change: Mapping[str, JsonValue]) -> str:
    direction = text(change, "direction")
    sign = " " if direction.startswith("tighten") else "!"
    place = f"  ({text(change, 'file')}:{text(change, 'line')})" if change.get("file") else ""
    return f"{sign} {direction}: {text(change, 'subject')}: {text(change, 'was')} -> {text(change, 'becomes')}{place}"


def _finding(finding: Mapping[str, JsonValue]) -> str:
    return visible(_plain(finding))


def _plain(finding: Mapping[str, JsonValue]) -> str:
    """`file:line: key: problem, expected`, as it came: whoever prints it neutralises it."""
    names = ("file", "line", "key", "problem", "expected")
    file, line, key, problem, expected = (finding.get(name) for name in names)
    place = f"{file}:{line}: {key}: " if file else ""
    return f"{place}{problem}" + (f", expected {expected}" if expected else "")

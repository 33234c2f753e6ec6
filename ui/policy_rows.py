"""The rows of the Policy screen: what an edit would change, or what is in force. Pure.

What loosens stands above what tightens, and with what comes newly in reach it has to be seen before a trust is taken.
All text of the files is foreign: an agent may have written it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.contract.neutralise import cells
from ui.paper import Paper, Role, Row, Span, cut_end, fit, row, width_of
from ui.served import Status
from ui.served_policy import ChangeRow, FaultRow, PolicyFacts, RuleRow
from ui.wording import effect_role

AGENT, EFFECT, WAS, BECOMES, SUBJECT = 10, 7, 11, 10, 30
WIDE, WAS_WIDE, BECOMES_WIDE = 110, 22, 30
_SECTIONS = (("loosens", "LOOSENS"), ("tightens", "TIGHTENS"), ("new_reach", "IN REACH"))
_EFFECTS = frozenset({"READ", "WRITE", "DELETE", "RUN"})
_ASKS = {"none": "no asking", "session": "session", "per_call": "ask each", "deny": "denied"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One row: a change, a rule, a service, a fault, a warning, or the heading of a section."""

    id: str
    row: Row
    must: bool = False
    heading: bool = False
    cut: bool = False  # not all of it fits into the row: seen when its detail was
    change: ChangeRow | None = None
    rule: RuleRow | None = None
    fault: FaultRow | None = None


def policy_word(status: Status) -> str | None:
    """What the header says of the policy; None where it is in force as the files lie there."""
    if status.policy_state == "refused":
        return "REFUSED"
    if status.policy_pending:
        return "CHANGED"
    if status.policy_digest is None:
        return "SEALED" if status.vault_state == "locked" else "NONE"  # it lies in the vault
    return None


def shown_of(facts: PolicyFacts, paper: Paper) -> list[Shown]:
    """What there is to see: faults of an edit, or its changes; else what is in force."""
    out = [_fault(f"f{at}", fault, paper, word="FAULT") for at, fault in enumerate(facts.faults)]
    if facts.waits:
        return [*out, *_changes(facts, paper)]
    return [*out, *_rules(facts, paper), *_services(facts, paper)]


def warnings_of(facts: PolicyFacts) -> tuple[FaultRow, ...]:
    """Of the edit where one waits, else of what is in force."""
    return facts.warnings if facts.waits or facts.faults else facts.in_force_warnings or facts.warnings


def _changes(facts: PolicyFacts, paper: Paper) -> Iterator[Shown]:
    known = {direction for direction, _ in _SECTIONS}
    columns = _columns(facts.changes, paper)
    first = True
    for direction, name in _SECTIONS:
        found = [
            (at, change)
            for at, change in enumerate(facts.changes)
            if change.direction == direction or (direction == "loosens" and change.direction not in known)
        ]
        if not found:
            continue
        heading = f"{name:<{columns.subject + 2}}{'was':<{columns.was}}becomes" if first else name
        yield Shown(id=f"h{direction}", heading=True, row=row(Span(heading, Role.LABEL)))
        first = False
        for at, change in found:
            line, must = _change(change, columns, paper), direction != "tightens"
            whole = width_of(line) <= paper.width - 1 and not any(paper.dots in span.text for span in line)
            yield Shown(id=f"c{at}", must=must, change=change, row=line, cut=not whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    subject: int
    was: int
    becomes: int


def _columns(changes: tuple[ChangeRow, ...], paper: Paper) -> _Columns:
    """As wide as they are drawn; where words are longer than that, what the subjects leave goes to them."""
    wide = paper.width >= WIDE
    was, becomes = (WAS_WIDE, BECOMES_WIDE) if wide else (WAS, BECOMES)
    subject = max(paper.width - was - becomes - 3, SUBJECT)
    pairs = [_differing(change, paper) for change in changes if change.direction != "new_reach"]
    long_was = max((cells(one) + 1 for one, _ in pairs), default=0)
    long_becomes = max((cells(other) for _, other in pairs), default=0)
    if long_was <= was and long_becomes <= becomes:
        return _Columns(subject=subject, was=was, becomes=becomes)
    named = max((cells(paper.foreign(change.subject)) for change in changes), default=0) + AGENT
    subject = min(subject, max(named, SUBJECT))
    rest = paper.width - subject - 3
    was = min(long_was, max(rest - long_becomes, WAS))
    return _Columns(subject=subject, was=was, becomes=rest - was)


def _differing(change: ChangeRow, paper: Paper) -> tuple[str, str]:
    """What was and what becomes; of as many clauses on both sides, those that differ."""
    was, becomes = (paper.foreign(text) for text in (change.was, change.becomes))
    pairs = list(zip(was.split(", "), becomes.split(", "), strict=False))
    if len(pairs) == len(was.split(", ")) == len(becomes.split(", ")) and was != becomes:
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        return ", ".join(one for one, _ in pairs), ", ".join(other for _, other in pairs)
    return was, becomes


def _change(change: ChangeRow, columns: _Columns, paper: Paper) -> Row:
    sign = Span("! ", Role.LOOK) if change.direction != "tightens" else Span("  ")
    if change.direction == "new_reach":
        way = "now uses" if change.becomes.startswith("credential ") else "now leads to"
        return row(sign, Span(f"{paper.foreign(change.subject)} {way} {paper.foreign(change.becomes)}", Role.FOREIGN))
    was, becomes = _differing(change, paper)
    end = row(
        f"{cut_end(was, columns.was - 1, paper.dots):<{columns.was}}", cut_end(becomes, columns.becomes, paper.dots)
    )
    return row(sign, *fit(_subject(change.subject, columns.subject - 1, paper), columns.subject), *end)


def _subject(text: str, room: int, paper: Paper) -> Row:
    """`claude-*  WRITE  github issues.create` in columns, where it is said of an agent and an effect."""
    agent, _, rest = text.partition(" ")
    effect, _, what = rest.partition(" ")
    if effect not in _EFFECTS:
        return row(cut_end(paper.foreign(text), room, paper.dots))
    name = cut_end(paper.foreign(agent), AGENT - 1, paper.dots)
    named = cut_end(paper.foreign(what), room - AGENT - EFFECT, paper.dots)
    return row(f"{name:<{AGENT}}", *fit((Span(effect, effect_role(effect)),), EFFECT), named)


def _rules(facts: PolicyFacts, paper: Paper) -> Iterator[Shown]:
    if not facts.rule_list:
        return
    yield Shown(id="hrules", heading=True, row=row(Span(f"{'RULE':<24}{'asks':<11}about", Role.LABEL)))
    for at, rule in enumerate(facts.rule_list):
        name, about = cut_end(paper.foreign(rule.id), 23, paper.dots), paper.foreign(rule.about)
        asks = _ASKS.get(rule.approval, paper.foreign(rule.approval, limit=10))
        rest = cut_end(about, paper.width - 36 - (0 if rule.active else 14), paper.dots)
        hours = Span("  not at this hour"[:14], Role.LOOK) if not rule.active else Span("")
        yield Shown(id=f"r{at}", rule=rule, row=row(f"{name:<24}{asks:<11}", rest, hours))


def _services(facts: PolicyFacts, paper: Paper) -> Iterator[Shown]:
    if facts.services:
        names = f"{'SERVICE':<24}{'credential':<17}leads to"
        yield Shown(id="hservices", heading=True, row=row(Span(names, Role.LABEL)))
    for at, (name, url, credential, bound) in enumerate(facts.services):
        named = cut_end(paper.foreign(name), 23, paper.dots)
        uses = cut_end(paper.foreign(credential or "none"), 16, paper.dots)
        mark = Span("") if bound else Span("  ! NOT BOUND", Role.LOOK)
        leads = cut_end(paper.foreign(url), paper.width - 43 - len(mark.text), paper.dots)
        yield Shown(id=f"s{at}", row=row(f"{named:<24}{uses:<17}{leads}", mark))


def _fault(key: str, fault: FaultRow, paper: Paper, *, word: str) -> Shown:
    return Shown(id=key, fault=fault, row=row(Span(f"! {word} ", Role.LOOK), fault_words(fault, paper)))


def fault_words(fault: FaultRow, paper: Paper) -> str:
    """File, line, key, what is wrong, and what was expected."""
    key = f" {paper.foreign(fault.key, limit=40)}" if fault.key else ""
    expected = f"; expected {paper.foreign(fault.expected, limit=120)}" if fault.expected else ""
    return (
        f"{paper.foreign(fault.file, limit=60)}:{fault.line}{key}: {paper.foreign(fault.problem, limit=300)}{expected}"
    )

"""What an edit of the policy changes, in decisions and not in lines.

Decisions are compared on every named agent, operation, path, command and time of the week that a rule of either policy
tells apart. What can't be ordered (a service that leads elsewhere, another reading of answers), and what would take too
long to compare, is called a loosening, so that none is missed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from broker.contract.reasons import ApprovalRule
from broker.core.effects import effect_word
from broker.core.identity import UNIDENTIFIED
from broker.core.policy.changes import LOOSENS, NEW_REACH, TIGHTENS, Change
from broker.core.policy.evaluate import STRICTNESS, decide
from broker.core.policy.hours import Moment, turns
from broker.core.policy.match import Facts
from broker.core.policy.model import Allow, Ask, Policy, Rule
from broker.core.policy.overview import relevant
from broker.core.policy.place import Place
from broker.core.policy.redeclared import limits_changed, redeclared
from broker.core.policy.requirements import wanted
from broker.core.policy.subjects import Subject, Way, shown, subjects_of, ways_of

_ORDER = (LOOSENS, NEW_REACH, TIGHTENS)
_WORDS = {
    ApprovalRule.NONE: "no asking",
    ApprovalRule.SESSION: "session",
    ApprovalRule.PER_CALL: "ask each",
    ApprovalRule.DENY: "denied",
}
_NOWHERE = Place(file="", line=0)
_NO_GRANT = (0, 0, 0, 0, 0, 0)
_SCOPES = ("operation", "service", "rule")
TURNS_MAX = 32  # combinations of rules within their hours


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stance:
    """How strictly a request is met: bigger members are stricter, and so are more needs."""

    strictness: int
    tightness: tuple[int, ...]
    needs: frozenset[str] = frozenset()  # what has to be proven, or is looked at just before
    word: str
    rule: str | None
    place: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What changes, loosened ones first, and how many decisions (of an agent, on an operation) stay as they are."""

    changes: tuple[Change, ...]
    unchanged: int


def compared(old: Policy | None, new: Policy) -> Compared:
    """What trusting `new` in place of `old` makes of decisions."""
    before = Policy(digest="") if old is None else old
    decisions, unchanged = _decisions(before, new)
    changes = [
        *decisions,
        *redeclared(before, new),
        *(() if old is None else limits_changed(old, new)),
    ]
    ordered = sorted(changes, key=lambda change: (_ORDER.index(change.direction), change.subject))
    return Compared(changes=tuple(ordered), unchanged=unchanged)


def _decisions(old: Policy, new: Policy) -> tuple[list[Change], int]:
    """Over a week; what changes at some of its times alone is told with the first of them."""
    moments, is_all = _moments(old, new)
    told: dict[Change, list[Moment | None]] = {}
    unchanged: int | None = None
    for moment in moments:
        found, same = _at_once(*((old, new) if moment is None else (old.at(moment), new.at(moment))))
        unchanged = same if unchanged is None else min(unchanged, same)
        for change in found:
            told.setdefault(change, []).append(moment)
    changes = [
        change if len(when) == len(moments) else replace(change, subject=f"{change.subject}, {when[0]}")
        for change, when in told.items()
    ]
    return [*changes, *(() if is_all else [_uncompared("hours")])], unchanged or 0


def _moments(old: Policy, new: Policy) -> tuple[tuple[Moment | None, ...], bool]:
    """One for each combination of rules that speak together, and whether these are all."""
    rules = [(side, rule) for side, policy in (("old", old), ("new", new)) for rule in policy.everything]
    found = tuple(turns({f"{side} {rule.id}": rule.hours for side, rule in rules if rule.hours}).values())
    if not any(rule.hours for _, rule in rules):
        return (None,), True
    return found[:TURNS_MAX], len(found) <= TURNS_MAX


def _uncompared(what: str) -> Change:
    return Change(direction=LOOSENS, subject=what, was="more than is compared", becomes="look at the files")


def _at_once(old: Policy, new: Policy) -> tuple[list[Change], int]:
    agents = (*sorted({*old.agents, *new.agents}), UNIDENTIFIED)
    changes: list[Change] = []
    unchanged = 0
    for subject in _subjects(old, new):
        found = {agent: tuple(_compared(old, new, agent, subject)) for agent in agents}
        unchanged += sum(not one for one in found.values())
        if len(set(found.values())) == 1:
            changes += _worded("any", subject, found[UNIDENTIFIED])
        else:
            changes += [one for agent, several in found.items() for one in _worded(agent, subject, several)]
    return changes, unchanged


def _worded(agent: str, subject: Subject, changes: tuple[Change, ...]) -> Iterator[Change]:
    effect = effect_word(subject.effect, destructive=subject.destructive)
    for change in changes:
        path = f" {change.subject}" if change.subject else ""
        yield replace(change, subject=f"{agent} {effect} {subject.service.name} {subject.label}{path}")


def _subjects(old: Policy, new: Policy) -> Iterator[Subject]:
    """Everything that can be asked for under either policy; the new one's form where both have it."""
    seen: dict[tuple[str, str], Subject] = {}
    for policy in (old, new):
        for service in policy.services.values():
            seen |= {(service.name, subject.label): subject for subject in subjects_of(service)}
    yield from (seen[key] for key in sorted(seen))


def _compared(old: Policy, new: Policy, agent: str, subject: Subject) -> Iterator[Change]:
    """The ways in which the two differ, an equal difference once. `subject` is the way, unless it is any."""
    sides = (_side(old, agent, subject), _side(new, agent, subject))
    if sides[0].says == sides[1].says:
        return
    explored = ways_of(subject, (*sides[0].policy.rules, *sides[1].policy.rules))
    told: set[tuple[str, str]] = set()
    for position, way in enumerate(explored.ways):
        was, becomes = (_stance(side, way) for side in sides)
        same = (was.strictness, was.tightness, was.needs) == (becomes.strictness, becomes.tightness, becomes.needs)
        if same or (was.word, becomes.word) in told:
            continue
        told.add((was.word, becomes.word))
        yield Change(
            direction=LOOSENS if _is_looser(becomes, was) else TIGHTENS,
            subject=shown(subject, way) if position else "",
            was=was.word,
            becomes=becomes.word,
            place=becomes.place or was.place,
            rule=becomes.rule or was.rule,
            was_place=was.place,
            is_gone=becomes.place is None,
        )
    if not explored.whole:
        yield _uncompared("")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One policy as far as it concerns a subject; `own` is the subject in it, None where it knows none."""

    policy: Policy
    agent: str
    own: Subject | None

    @property
    def says(self) -> tuple[object, ...]:
        """All that its decisions depend on, wherever in the files it stands."""
        own, limits = self.own, self.policy.limits
        asked = None if own is None else (own.pattern, own.effect, own.destructive, own.host, own.method)
        rules = sorted(map(_placeless, self.policy.rules), key=lambda rule: rule.id)
        return (self.agent, asked, limits.max_uses, limits.max_age_s, rules)


def _side(policy: Policy, agent: str, subject: Subject) -> _Side:
    service = policy.services.get(subject.service.name)
    subjects = () if service is None else subjects_of(service)
    own = next((found for found in subjects if found.label == subject.label), None)
    known = agent if agent in policy.agents else UNIDENTIFIED
    near = Policy(digest="") if own is None else relevant(policy, known, own)
    return _Side(policy=near, agent=known, own=own)


def _placeless(rule: Rule) -> Rule:
    return replace(rule, place=_NOWHERE)


def _is_looser(one: _Stance, other: _Stance) -> bool:
    if other.needs - one.needs and one.strictness < STRICTNESS[ApprovalRule.DENY]:
        return True
    if one.strictness != other.strictness:
        return one.strictness < other.strictness
    return any(a < b for a, b in zip(one.tightness, other.tightness, strict=True))


def _stance(side: _Side, way: Way) -> _Stance:
    if side.own is None:
        return _denied(None)
    facts = side.own.facts(side.agent, way)
    decision = decide(side.policy, facts, side.own.service, is_open=True)
    needs = _needs(side.policy, facts)
    proven = ", with proof" if needs else ""
    place = next((rule.place for rule in side.policy.rules if rule.id in decision.rules), None)
    if isinstance(decision, Allow):
        word = f"{_WORDS[ApprovalRule.NONE]}{proven}"
        return _Stance(
            strictness=0, tightness=_NO_GRANT, needs=needs, word=word, rule=_first(decision.rules), place=place
        )
    if not isinstance(decision, Ask):
        return _denied(place, _first(decision.rules))
    rule = decision.rule
    grant, word = (0, 0, 0), _WORDS[rule.approval]
    if not decision.per_call:
        grant = (-rule.max_uses, -rule.max_age_s, -_SCOPES.index(rule.per))
        word = f"session {rule.max_uses}, {rule.max_age_s} s, per {rule.per}"
    card = (rule.arming_ms, -rule.expires_s, int(rule.in_doubt == "refuse"))
    return _Stance(
        strictness=STRICTNESS[rule.approval],
        tightness=(*grant, *card),
        needs=needs,
        word=f"{word}{proven}",
        rule=rule.id,
        place=rule.place,
    )


def _needs(policy: Policy, facts: Facts) -> frozenset[str]:
    """What has to be known, spelled so that any change of it shows: one that can't be ordered counts as less."""
    found = wanted(policy, facts)
    evidence = (f"{need} {sorted(need.args.items())}" for _, need in found.evidence)
    return frozenset((*evidence, *(f"{look} {sorted(look.args.items())}" for _, look in found.prechecks)))


def _first(rules: Iterable[str]) -> str | None:
    return next(iter(rules), None)


def _denied(place: Place | None, rule: str | None = None) -> _Stance:
    return _Stance(
        strictness=STRICTNESS[ApprovalRule.DENY],
        tightness=_NO_GRANT,
        word=_WORDS[ApprovalRule.DENY],
        rule=rule,
        place=place,
    )

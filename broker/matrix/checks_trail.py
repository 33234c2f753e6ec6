"""The trail: the audit log has each point where an answer could change, in order, and agrees with both ends.

Pure, like checks.py. What a run leaves in the log is held against what the agent was told and the far side wrote down.
"""

from collections.abc import Iterator, Mapping

from broker.matrix.cases import Prompts
from broker.matrix.observed import Event, Observed
from broker.matrix.transcript import Step

BEGINNINGS = frozenset({"action.requested", "reconcile.started"})
ENDINGS = frozenset({"remote.answered", "deadline.expired", "transport.failed"})
VERDICTS = frozenset({"OK", "OK_UNANCHORED"})
SAME = ("category", "code", "retry", "remote_effect")
GATES = {"session": "session", "per_call": "call"}
DEADLY = frozenset({"kill", "daemon_killed"})  # of a daemon
FAR_STATUS = frozenset({"answered", "broke", "looked_up"})


def trail(seen: Observed) -> Iterator[str]:
    """4. In order, once each, with the observed outcome; verified offline."""
    if seen.verdict not in VERDICTS:
        yield f"the log does not verify offline: {seen.verdict}"
    if [one.seq for one in seen.trail] != sorted({one.seq for one in seen.trail}):
        yield "the records are not in the order of the log"
    if seen.case.fault is not None and seen.case.fault.kind in DEADLY and not seen.daemon_died:
        yield "the daemon was to die, and it did not"
    recorded: set[str] = set()
    for step in seen.steps:
        if step.envelope is None or step.correlation_id in recorded:
            continue  # nobody was told, or a recorded answer came again
        if step.correlation_id is None:
            yield f"{step.deed}: an answer without a correlation id"
            continue
        recorded.add(step.correlation_id)
        is_unwritten = _fails_to_write(seen) and step.told("code") == "audit_unwritable"
        yield from _one(
            step, seen.events_of(step), is_interrupted=seen.daemon_died, is_unwritten=seen.daemon_died and is_unwritten
        )
    yield from _expected(seen)
    yield from _against_the_far_side(seen)


def _fails_to_write(seen: Observed) -> bool:
    fault = seen.case.fault
    return fault is not None and fault.point == "at_audit_write"


def _one(step: Step, events: tuple[Event, ...], *, is_interrupted: bool, is_unwritten: bool) -> Iterator[str]:
    names = [one.name for one in events]
    if is_unwritten and not names:
        return  # it is as was told: nothing could be written
    if not names or names[0] not in BEGINNINGS:
        yield f"{step.deed}: it does not begin with a request: {names}"
        return
    ends = [one for one in events if one.name == "action.result"]
    if len(ends) != 1 and not is_interrupted:
        yield f"{step.deed}: it ends {len(ends)} times: {names}"
    sent = [place for place, name in enumerate(names) if name == "dispatch.started"]
    outcomes = [name for name in names if name in ENDINGS]
    if len(sent) != len(outcomes) and not is_interrupted:
        yield f"{step.deed}: what was sent and what came of it are not pairs: {names}"
    yield from _allowed(step, events, sent)
    if names.count("approval.requested") != names.count("approval.decided") and not is_interrupted:
        yield f"{step.deed}: cards and what became of them are not pairs: {names}"
    is_pending = step.outcome == "approval_pending"  # no end yet: what is on record came later
    if is_pending and "approval.requested" not in names:
        yield f"{step.deed}: somebody is said to be asked, and no card is on record: {names}"
    for one in () if is_pending else ends[-1:]:
        said = one.fields
        lost = is_unwritten or (is_interrupted and step.outcome == "outcome_unknown")  # nobody was told of that record
        for key in () if lost else SAME:
            if key in said and said[key] != step.told(key):
                yield f"{step.deed}: {key} is {said[key]!r} on record and {step.told(key)!r} told"
        if names[-1] != "action.result" and not {"operation.settled", "operation.in_doubt"} & set(names):
            yield f"{step.deed}: it goes on after its result: {names}"


def _allowed(step: Step, events: tuple[Event, ...], sent: list[int]) -> Iterator[str]:
    """What was sent was decided on before, and where a human had to say yes, they had said it."""
    names = [one.name for one in events]
    gate = step.told("gate")
    needs_yes = isinstance(gate, Mapping) and gate.get("call") == "granted"
    for place in sent:
        before = events[:place]
        if "approval.requested" in names[place:]:
            yield f"{step.deed}: it was sent before somebody was asked: {names}"
        if "policy.decided" not in names[:place]:
            yield f"{step.deed}: it was sent before it was decided on: {names}"
        yes = any(one.name == "approval.decided" and one.fields.get("decision") == "approve" for one in before)
        if needs_yes and not yes:
            yield f"{step.deed}: the call is said to be granted, and no yes is on record: {names}"
    if any(one.name == "policy.decided" and one.fields.get("decision") == "deny" for one in events) and sent:
        yield f"{step.deed}: it was denied, and sent: {names}"


def _expected(seen: Observed) -> Iterator[str]:
    primary, want = seen.primary, seen.case.expect
    if primary is None:
        return
    events = seen.events_of(primary)
    names = iter([one.name for one in events])
    for event in want.events:
        if event not in names:  # an iterator is searched from where it stands, so this holds them to their order
            yield f"{event} is not on record, or not in its place: {[one.name for one in events]}"
            break
    if want.prompts is not None:
        yield from _prompts(seen, want.prompts)


def _prompts(seen: Observed, want: Prompts) -> Iterator[str]:
    """How often, by which gate, and what each yes covers."""
    decided = {one.correlation_id: one.fields.get("decision") for one in seen.trail if one.name == "policy.decided"}
    cards = [one for one in seen.trail if one.name == "approval.requested"]
    if len(cards) != want.number:
        yield f"a human was asked {len(cards)} times, expected {want.number}"
    gates = [GATES.get(str(decided.get(one.correlation_id)), "none") for one in cards]
    if want.gates is not None and gates != list(want.gates):
        yield f"the cards were of {gates}, expected {list(want.gates)}"
    answers = [one.fields for one in seen.trail if one.name == "approval.decided"]
    scopes = [str(one.get("scope")) for one in answers if one.get("decision") == "approve"]
    if want.scopes is not None and scopes != list(want.scopes):
        yield f"what was said yes to covers {scopes}, expected {list(want.scopes)}"


def _against_the_far_side(seen: Observed) -> Iterator[str]:
    sent = sum(one.name == "dispatch.started" for one in seen.trail)
    arrived = seen.recorded.received + sum(one.what == "looked_up" for one in seen.far)
    if arrived > sent:
        yield f"{arrived} requests arrived, and {sent} are on record"
    told = [one.fields.get("status") for one in seen.trail if one.name == "remote.answered"]
    answered = [one.status for one in seen.far if one.what in FAR_STATUS and one.status is not None]
    rest = iter(answered)
    if seen.case.channel == "http" and not all(status in rest for status in told if isinstance(status, int)):
        yield f"the statuses on record are not those that the far side sent: {told}, {answered}"
    confirmed = [step for step in seen.steps if step.outcome == "confirmed_failure" and step.told("effect") != "read"]
    if confirmed and seen.recorded.committed and all(step.told("remote_effect") == "none" for step in seen.steps):
        yield "remote_committed there and confirmed_failure here"

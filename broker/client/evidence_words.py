"""The sentences of a card on evidence. What was not seen is never said not to exist, and no gap is left unsaid.

Like card_words.py: finished text, foreign parts neutralised, signs in front; lays out nothing.
"""

from broker.client.card_evidence import COLLECT, LIMIT, Evidence, Need, Reason, Record
from broker.client.card_words import age, counted, lifetime
from broker.contract.neutralise import visible

COLLECT_S = 60
PROVEN_SHOWN = 20
NONE_NEEDED = "none needed by this rule"


def sentences(evidence: Evidence, now_ms: int) -> list[str]:
    """Each need's state first, then what it leans on; the looks just before at the end."""
    if not evidence.needed:
        return [NONE_NEEDED]
    lines = [line for need in evidence.items for line in _need(need, now_ms)]
    for look in evidence.looks:
        lines += ["Looked at again just before:", f"{visible(look.operation)} must still say {visible(look.expect)}"]
    return lines


def targets(evidence: Evidence) -> list[str]:
    """Targets without proof, each on a line of its own, before those with; nothing where every need is met."""
    return [line for need in evidence.items if not need.is_met for line in _targets(need)]


def collect(evidence: Evidence) -> str | None:
    """What `collect` covers, where it is offered."""
    if COLLECT not in evidence.choices:
        return None
    return f"reading on for up to {COLLECT_S} s; then this card comes again"


def limit(evidence: Evidence) -> str | None:
    """What `limit` covers, where it is offered."""
    if LIMIT not in evidence.choices:
        return None
    return f"a new card for the {counted(evidence.proven_targets, 'proven target')}; this one ends"


def _need(need: Need, now_ms: int) -> list[str]:
    source, record = visible(need.source), need.record
    if record is None:
        return [f"! NONE RECORDED of {source} for this session"]
    old = age(record.collected_at_ms, now_ms)
    if need.is_met:
        return [f"+ complete: {source}, {_of_total(record)}, {old}", _met(need)]
    where = f"{source}, {old}{', resumable' if record.resumable else ''}"
    match need.state:
        case "incomplete":
            return [f"! INCOMPLETE: {record.count:,} seen of {_total(record)}", *_reasons(record), where]
        case "stale":
            return [f"! STALE: {old}, the rule takes {lifetime(need.max_age_s)}", f"{source}, {_of_total(record)}"]
        case "other_arguments":
            return ["! COLLECTED WITH OTHER ARGUMENTS", where]
        case "refused_warning":
            return [f"! CAME WITH A WARNING: {visible(', '.join(record.warnings)) or 'not told'}", where]
        case "target_not_covered":
            return [f"! NOT ALL TARGETS ARE PROVEN: {_of_total(record)}", where]
        case "target_present":
            return ["! A TARGET IS PRESENT that must be absent", where]
        case "none_recorded":
            return ["! NONE RECORDED that was named for this", where]
        case other:
            return [f"! {visible(other)}", where]


def _met(need: Need) -> str:
    if need.claim == "absent":
        return f"+ {_named(need.proven)} not in it."
    return f"+ {_named(need.proven)} in it."


def _named(names: tuple[str, ...]) -> str:
    return f"{visible(names[0])} is" if len(names) == 1 else f"all {len(names)} targets are"


def _targets(need: Need) -> list[str]:
    total = len(need.proven) + len(need.unproven)
    if not total:
        return ["! the request names no target that could be proven"]
    what = "to exist as asked" if need.claim == "present" else "to be absent as asked"
    columns = min(max((len(visible(one)) for one in need.unproven), default=0), 24)
    lines = [f"{len(need.proven)} of {total} proven {what}{':' if total else ''}"]
    lines += [f"! {visible(one):<{columns}}    {_why_open(need)}" for one in need.unproven]
    shown = [f"+ {visible(one)}" for one in need.proven[:PROVEN_SHOWN]]
    if len(need.proven) > PROVEN_SHOWN:
        shown.append(f"+ {len(need.proven) - PROVEN_SHOWN} more")
    lines += ["    ".join(shown)] if shown else []
    if need.unproven and need.claim == "present":
        lines.append("Not seen does not mean not there.")
    return lines


def _why_open(need: Need) -> str:
    if need.record is None or need.state in {"none_recorded", "other_arguments", "stale"}:
        return "nothing to look it up in"
    return f"not among the {need.record.count:,}" if need.claim == "present" else "not proven absent"


def _reasons(record: Record) -> list[str]:
    return [_reason(one) for one in record.reasons] or ["why is not told"]


def _reason(reason: Reason) -> str:
    bound = ""
    if reason.limit is not None:
        bound = f" after {reason.limit} s" if reason.unit == "s" else f" at {reason.limit} {visible(reason.unit or '')}"
    return f"{visible(reason.code)}{bound.rstrip()}{f', by the {visible(reason.by)}' if reason.by else ''}"


def _total(record: Record) -> str:
    return "an unknown number" if record.total is None else f"{record.total:,}"


def _of_total(record: Record) -> str:
    return f"{record.count:,} of {record.count if record.total is None and record.complete else _total(record)}"

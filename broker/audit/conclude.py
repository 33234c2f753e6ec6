"""From what a walk found to the verdict: which of the rules applies first.

The order is that of docs/audit-format.md: a forgery, then knowledge from outside that contradicts what is proven, then
the first fault in the log, then knowledge from outside that reaches further, then how the log ends.
"""

from dataclasses import dataclass, replace

from broker.audit.examine import Examination
from broker.audit.findings import Finding
from broker.audit.segment import segment_name
from broker.audit.verdict import Rung, VerdictName


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A verdict and the place that it speaks of."""

    verdict: VerdictName
    note: str
    segment: str | None = None
    offset: int | None = None
    seq: int | None = None


def conclude(examination: Examination, *, live: bool) -> Ending:
    finding, reached = examination.finding, reached_by(examination)
    if finding is not None and finding.verdict is VerdictName.FORGED_SIGNATURE:
        return _of(finding)
    against = _against(examination, reached)
    if against is not None:
        return against
    if finding is not None and not (live and finding.verdict is VerdictName.TORN_OR_TAMPERED):
        return _of(finding)
    proven = None if examination.lineage is None else examination.lineage.proven
    after_it = Ending(
        verdict=VerdictName.TRUNCATED,
        note=examination.ladder.beyond(reached) or "",
        segment=segment_name(1 if proven is None else proven.segment),
        offset=0 if proven is None else proven.offset,
        seq=reached + 1,
    )
    return after_it if after_it.note else _end(examination, after_it, reached, live=live)


def reached_by(examination: Examination) -> int:
    """The last record that signatures prove; -1 where they prove none."""
    proven = None if examination.lineage is None else examination.lineage.proven
    return -1 if proven is None else proven.seq


def rung_of(examination: Examination) -> Rung:
    identity = examination.identity
    return examination.ladder.rung(reached_by(examination), None if identity is None else identity.log_id)


def _of(finding: Finding) -> Ending:
    return Ending(
        verdict=finding.verdict, segment=finding.segment, offset=finding.offset, seq=finding.seq, note=finding.note
    )


def _against(examination: Examination, reached: int) -> Ending | None:
    identity, ladder = examination.identity, examination.ladder
    if identity is None:
        return None
    found = ladder.of_another_log(identity.log_id) or ladder.contradiction(reached)
    if found is None:
        return None
    return Ending(
        verdict=found.verdict,
        segment=None if found.segment is None else segment_name(found.segment),
        offset=found.offset,
        seq=found.seq,
        note=found.note,
    )


def _end(examination: Examination, after_it: Ending, reached: int, *, live: bool) -> Ending:
    tail = examination.tail
    torn = tail is not None and (tail.stop.tail_bytes > 0 or not tail.begun)
    if tail is None or live or (tail.settled and not torn):
        return _whole(examination, reached)
    if torn and examination.ladder.names(reached):
        verdict, text = VerdictName.TORN_TAIL, "an unfinished write; no acknowledged record is missing"
    elif torn:
        verdict, text = VerdictName.TORN_OR_TAMPERED, "an unfinished write, or records were cut off"
    else:
        verdict, text = VerdictName.TORN_OR_TAMPERED, "records without a COMMIT stand at the end"
    return replace(after_it, verdict=verdict, note=text)


def _whole(examination: Examination, reached: int) -> Ending:
    lineage, rung = examination.lineage, rung_of(examination)
    notes = [f"whole to record {reached}"]
    if rung is Rung.NONE:
        notes.append("not held against anything outside the log, so a missing end would not show")
    vouched = examination.ladder.acknowledged
    if vouched is not None and vouched < reached:
        notes.append(f"vouched for up to record {vouched}")
    if examination.recoveries:
        notes.append(f"{examination.recoveries} recovered torn tails")
    proven = None if lineage is None else lineage.proven
    if lineage is not None and lineage.takeovers.count:
        notes.append(lineage.takeovers.told())
    return Ending(
        verdict=VerdictName.OK_UNANCHORED if rung is Rung.NONE else VerdictName.OK,
        segment=None if proven is None else segment_name(proven.segment),
        offset=None if proven is None else proven.offset,
        seq=None if proven is None else proven.seq,
        note="; ".join(notes),
    )

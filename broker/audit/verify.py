"""`audit verify`: one verdict on a log, from public knowledge alone.

Needs no daemon, no vault and no network; reads in bounded memory, never writes, never follows a link, and answers
hostile input with a verdict instead of an exception. Without an anchor or a checkpoint it never says plain OK.
"""

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from broker.audit.checkpoint import Note, origin_of, parse_note
from broker.audit.examine import Examination
from broker.audit.findings import Finding
from broker.audit.pin import Anchor, Pin
from broker.audit.segment import SegmentFile, layout_of, number_of, segment_name, writer_is_live
from broker.audit.verdict import Rung, Verdict, VerdictName

Progress = Callable[[int, int], None]  # bytes checked, bytes in all


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    verdict: VerdictName
    note: str
    segment: str | None = None
    offset: int | None = None
    seq: int | None = None


def verify(
    directory: Path | Sequence[Path],
    *,
    pin: Pin | None,
    anchor: Anchor | None,
    checkpoint: bytes | None,
    progress: Progress | None = None,
) -> Verdict:
    """The verdict on a directory, or on segment files given by name. Raises nothing, whatever lies there."""
    places = [directory] if isinstance(directory, Path) else list(directory)
    live = any(writer_is_live(place) for place in places)
    note = None if checkpoint is None else parse_note(checkpoint)
    examination = Examination(identity=None if pin is None else pin.identity(), anchor=anchor, note=note)
    if checkpoint is not None and note is None:
        ending = _Ending(verdict=VerdictName.UNREADABLE, note="the checkpoint given is not a signed note of a log")
    else:
        ending = _look(places, examination, progress) or _conclude(examination, anchor, note, live=live)
        if ending.verdict in {VerdictName.TORN_TAIL, VerdictName.TORN_OR_TAMPERED} and not live:
            live = any(writer_is_live(place) for place in places)  # one may have begun meanwhile
            ending = _conclude(examination, anchor, note, live=live) if live else ending
    return _verdict(examination, ending, rung=_rung(examination), pinned=pin is not None, live=live)


def _verdict(examination: Examination, ending: _Ending, *, rung: Rung, pinned: bool, live: bool) -> Verdict:
    proven = None if examination.lineage is None else examination.lineage.proven
    whole = proven is not None and ending.segment is None
    return Verdict(
        verdict=ending.verdict,
        rung=rung,
        pinned=pinned,
        live=live,
        segment=segment_name(proven.segment) if whole and proven is not None else ending.segment,
        offset=proven.offset if whole and proven is not None else ending.offset,
        seq=proven.seq if whole and proven is not None else ending.seq,
        proven_to=None if proven is None else proven.seq,
        records=0 if proven is None else proven.seq + 1,
        note=ending.note,
    )


def _look(places: Sequence[Path], examination: Examination, progress: Progress | None) -> _Ending | None:
    """Walk all files. An ending where there is nothing to walk; what a walk finds stays in the examination."""
    found = _segments(places)
    if isinstance(found, _Ending):
        return found
    sizes = [_size_of(path) for path in found]
    done = 0
    for index, path in enumerate(found):
        if number_of(path) != index + 1:
            examination.finding = _gap(examination, index + 1, path)
            return None
        try:
            _walk_file(path, examination, last=path is found[-1], progress=_file_progress(progress, done, sum(sizes)))
        except OSError as cause:
            examination.finding = examination.finding or _unreadable_file(examination, path, cause)
        if examination.finding is not None:
            return None
        done += sizes[index]
    return None


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0  # it went away meanwhile: opening it will say so


def _walk_file(path: Path, examination: Examination, *, last: bool, progress: Callable[[int], None] | None) -> None:
    with SegmentFile(path) as file:
        examination.enter(file, last=last, progress=progress)
        examination.settle()


def _file_progress(progress: Progress | None, done: int, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda here: progress(done + here, total)


def _segments(places: Sequence[Path]) -> list[Path] | _Ending:
    """The segment files in order. A directory with anything foreign in it is not judged."""
    segments: list[Path] = []
    for place in places:
        try:
            mode = place.stat().st_mode
            if stat.S_ISDIR(mode):
                layout = layout_of(place)
                if layout.foreign is not None:
                    return _Ending(
                        verdict=VerdictName.UNREADABLE,
                        segment=layout.foreign,
                        note="this does not belong into a log's directory",
                    )
                segments.extend(layout.segments)
            elif number_of(place) is None or not stat.S_ISREG(mode):
                return _Ending(verdict=VerdictName.UNREADABLE, segment=place.name, note="this is not a segment file")
            else:
                segments.append(place)
        except FileNotFoundError:
            return _Ending(verdict=VerdictName.EMPTY_OR_MISSING, note=f"{place.name} does not exist")
        except (OSError, ValueError) as cause:  # ValueError: a path with a NUL in it
            return _unreadable(place, cause)
    segments.sort(key=lambda path: path.name)
    if _nothing_in(segments):
        return _Ending(verdict=VerdictName.EMPTY_OR_MISSING, note="there is no record")
    return segments


def _nothing_in(segments: Sequence[Path]) -> bool:
    return all(path.is_file() and not path.is_symlink() and _size_of(path) == 0 for path in segments)


def _gap(examination: Examination, due: int, path: Path) -> Finding:
    twice = (number_of(path) or 0) < due
    return Finding(
        verdict=VerdictName.REORDERED if twice else VerdictName.GAP,
        segment=segment_name(due),
        offset=0,
        seq=0 if examination.chain is None else examination.chain.seq,
        note=f"{path.name} was given twice" if twice else f"{segment_name(due)} is missing before {path.name}",
    )


def _unreadable_file(examination: Examination, path: Path, cause: OSError) -> Finding:
    return Finding(
        verdict=VerdictName.UNREADABLE,
        segment=path.name,
        offset=0,
        seq=0 if examination.chain is None else examination.chain.seq,
        note=_unreadable(path, cause).note,
    )


def _unreadable(path: Path, cause: Exception) -> _Ending:
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return _Ending(verdict=VerdictName.UNREADABLE, segment=path.name, note=f"it can't be read: {reason}")


def _of(finding: Finding) -> _Ending:
    return _Ending(
        verdict=finding.verdict, segment=finding.segment, offset=finding.offset, seq=finding.seq, note=finding.note
    )


def _conclude(examination: Examination, anchor: Anchor | None, note: Note | None, *, live: bool) -> _Ending:
    """The first bad thing in the order of the log; where there is none, how the log ends."""
    finding = examination.finding
    proven = None if examination.lineage is None else examination.lineage.proven
    reached = -1 if proven is None else proven.seq
    if finding is not None and finding.verdict is VerdictName.FORGED_SIGNATURE:
        return _of(finding)
    against = _held_against(examination, anchor, note, reached)
    if against is not None:
        return against
    if finding is not None and not (live and finding.verdict is VerdictName.TORN_OR_TAMPERED):
        return _of(finding)
    place = _Ending(
        verdict=VerdictName.TRUNCATED,
        note="",
        segment=segment_name(1 if proven is None else proven.segment),
        offset=0 if proven is None else proven.offset,
        seq=reached + 1,
    )
    short = _cut_short(anchor, note, reached)
    if short is not None:
        return replace(place, note=short)
    return _tail_ending(examination, place, anchor, reached, live=live)


def _held_against(examination: Examination, anchor: Anchor | None, note: Note | None, reached: int) -> _Ending | None:
    """What the anchor or the checkpoint kept elsewhere says against the proven part of the log."""
    identity = examination.identity
    if identity is None:
        return None
    log_id = identity.log_id
    if anchor is not None and anchor.log_id != log_id.hex():
        return _Ending(verdict=VerdictName.WRONG_LOG, note=f"the anchor is of log {anchor.log_id}")
    if note is not None and note.origin != origin_of(log_id):
        return _Ending(verdict=VerdictName.WRONG_LOG, note=f"the checkpoint is of {note.origin[:80]}")
    if anchor is not None and examination.anchor_fits is False and anchor.seq <= reached:
        return _Ending(
            verdict=VerdictName.ROLLBACK,
            segment=segment_name(anchor.segment),
            offset=anchor.offset,
            seq=anchor.seq,
            note="the anchored record is another one: the log was rewritten or rolled back",
        )
    if note is not None and examination.note_fits is False and note.size <= reached + 1:
        text = "the checkpoint has another root: the log was rewritten or rolled back"
        return _Ending(verdict=VerdictName.ROLLBACK, seq=note.size - 1, note=text)
    if note is not None and note.size <= reached + 1 and examination.note_signed is not True:
        text = "the checkpoint given is not signed by a key of this log"
        return _Ending(verdict=VerdictName.FORGED_SIGNATURE, note=text)
    return None


def _cut_short(anchor: Anchor | None, note: Note | None, reached: int) -> str | None:
    if anchor is not None and anchor.seq > reached:
        return f"the anchor names record {anchor.seq}: acknowledged records are gone"
    if note is not None and note.size > reached + 1:
        return f"the checkpoint names {note.size} records: some are gone"
    return None


def _tail_ending(
    examination: Examination, place: _Ending, anchor: Anchor | None, reached: int, *, live: bool
) -> _Ending:
    end = examination.tail
    torn = end is not None and (end.stop.tail_bytes > 0 or not end.begun)
    if end is None or live or (end.settled and not torn):
        return _whole(examination, anchor, reached)
    if torn and anchor is not None and anchor.seq == reached:
        verdict, text = VerdictName.TORN_TAIL, "an unfinished write; no acknowledged record is missing"
    elif torn:
        verdict, text = VerdictName.TORN_OR_TAMPERED, "an unfinished write, or records were cut off"
    else:
        verdict, text = VerdictName.TORN_OR_TAMPERED, "records without a COMMIT stand at the end"
    return replace(place, verdict=verdict, note=text)


def _whole(examination: Examination, anchor: Anchor | None, reached: int) -> _Ending:
    rung = _rung(examination)
    notes = [f"whole to record {reached}"]
    if rung is Rung.NONE:
        notes.append("not held against anything outside the log, so a missing end would not show")
    if anchor is not None and anchor.seq < reached:
        notes.append(f"the anchor vouches up to record {anchor.seq}")
    if examination.recoveries:
        notes.append(f"{examination.recoveries} recovered torn tails")
    verdict = VerdictName.OK_UNANCHORED if rung is Rung.NONE else VerdictName.OK
    return _Ending(verdict=verdict, note="; ".join(notes))


def _rung(examination: Examination) -> Rung:
    if examination.note_fits and examination.note_signed:
        return Rung.OUTSIDE
    return Rung.FILE if examination.anchor_fits else Rung.NONE

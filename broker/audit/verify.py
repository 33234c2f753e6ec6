"""`audit verify`: one verdict on a log, from public knowledge alone.

Needs no daemon, no vault and no network; reads in bounded memory, never writes, never follows a link, and answers
hostile input with a verdict instead of an exception. Without an anchor or a checkpoint it never says plain OK.
"""

import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from broker.audit.checkpoint import parse_notes
from broker.audit.conclude import Ending, conclude, rung_of
from broker.audit.examine import Examination
from broker.audit.findings import Finding
from broker.audit.ladder import HeldAnchor, Ladder
from broker.audit.pin import Pin
from broker.audit.resume import Passed
from broker.audit.segment import SegmentFile, layout_of, number_of, segment_name, shown_name, writer_is_live
from broker.audit.verdict import TORN, Rung, Verdict, VerdictName

Progress = Callable[[int, int], None]  # bytes checked, bytes in all


def verify(
    directory: Path | Sequence[Path],
    *,
    pin: Pin | None,
    anchors: Sequence[HeldAnchor] = (),
    checkpoint: bytes | None = None,
    progress: Progress | None = None,
    first: int = 1,
    start: Passed | None = None,
    passed: list[Passed] | None = None,
) -> Verdict:
    """The verdict on a directory, or on segment files given by name. Raises nothing, whatever lies there.

    `checkpoint` is the content of a file of signed notes. With `first` the walk begins at that file and believes its
    SEGMENT record about all before it: the verdict then speaks of the rest alone. With `start` it begins after a file
    that passed before, and believes nothing. `passed` takes the files that were walked to their ends.
    """
    places = [directory] if isinstance(directory, Path) else list(directory)
    notes = () if checkpoint is None else parse_notes(checkpoint)
    if notes is None:
        return unreadable("the checkpoint given holds no signed notes, or more than those", pinned=pin is not None)
    live = any(writer_is_live(place) for place in places)
    examination = Examination(identity=None if pin is None else pin.identity(), ladder=Ladder(anchors, notes))
    if start is not None:
        examination.resume(start)
        first = start.number + 1
    ending = _look(places, examination, progress, first, passed, resumed=start is not None)
    if ending is None:
        examination.finish()
        ending = conclude(examination, live=live)
        if ending.verdict in TORN and not live:
            live = any(writer_is_live(place) for place in places)  # one may have begun meanwhile
            ending = conclude(examination, live=live)
    return _verdict(examination, ending, pinned=pin is not None, live=live)


def unreadable(note: str, *, pinned: bool) -> Verdict:
    """The verdict where what the log should be held against can't be read itself."""
    return Verdict(
        verdict=VerdictName.UNREADABLE,
        rung=Rung.NONE,
        pinned=pinned,
        live=False,
        segment=None,
        offset=None,
        seq=None,
        proven_to=None,
        records=0,
        note=note,
    )


def _verdict(examination: Examination, ending: Ending, *, pinned: bool, live: bool) -> Verdict:
    proven = None if examination.lineage is None else examination.lineage.proven
    return Verdict(
        verdict=ending.verdict,
        rung=rung_of(examination),
        pinned=pinned,
        live=live,
        segment=ending.segment,
        offset=ending.offset,
        seq=ending.seq,
        proven_to=None if proven is None else proven.seq,
        records=0 if proven is None else proven.seq + 1,
        note=ending.note,
    )


def _look(
    places: Sequence[Path],
    examination: Examination,
    progress: Progress | None,
    first: int,
    passed: list[Passed] | None,
    *,
    resumed: bool,
) -> Ending | None:
    """Walk all files. An ending where there is nothing to walk; what a walk finds stays in the examination."""
    found = _segments(places)
    if isinstance(found, Ending):
        return found
    found = [path for path in found if (number_of(path) or 0) >= first]
    if not found:
        return Ending(verdict=VerdictName.EMPTY_OR_MISSING, note=f"there is no record from {segment_name(first)} on")
    sizes = [_size_of(path) for path in found]
    done, digest = 0, ""
    for index, path in enumerate(found):
        if number_of(path) != index + first:
            examination.finding = _gap(examination, index + first, path)
            return None
        try:
            if index == 0 and first > 1 and not resumed and not _trusted(path, examination):
                return None
            told = _file_progress(progress, done, sum(sizes))
            digest = _walk_file(path, examination, last=path is found[-1], progress=told, digested=passed is not None)
        except OSError as cause:
            examination.finding = examination.finding or _unreadable_file(examination, path, cause)
        if examination.finding is not None:
            return None
        if passed is not None:
            passed.append(examination.passed(index + first, digest))
        done += sizes[index]
    return None


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0  # it went away meanwhile: opening it will say so


def _trusted(path: Path, examination: Examination) -> bool:
    """Begin at this file; where its SEGMENT record is none of this log's, that is the finding. Raises OSError."""
    with SegmentFile(path) as file:
        trusted = examination.trust_start(file)
    if not trusted:
        text = "the file does not begin with a SEGMENT record of this log"
        examination.finding = Finding(verdict=VerdictName.ALTERED, segment=path.name, offset=0, seq=0, note=text)
    return trusted


def _walk_file(
    path: Path, examination: Examination, *, last: bool, progress: Callable[[int], None] | None, digested: bool
) -> str:
    """The digest of what was read, where it is asked for."""
    with SegmentFile(path) as file:
        if digested:
            file.keep_digest()
        examination.enter(file, last=last, progress=progress)
        examination.settle()
        return file.digest or ""


def _file_progress(progress: Progress | None, done: int, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda here: progress(done + here, total)


def _segments(places: Sequence[Path]) -> list[Path] | Ending:
    """The segment files in order. A directory with anything foreign in it is not judged."""
    segments: list[Path] = []
    for place in places:
        try:
            mode = place.stat().st_mode
            if stat.S_ISDIR(mode):
                layout = layout_of(place)
                if layout.foreign is not None:
                    text = "this does not belong into a log's directory"
                    return Ending(verdict=VerdictName.UNREADABLE, segment=layout.foreign, note=text)
                segments.extend(layout.segments)
            elif number_of(place) is None or not stat.S_ISREG(mode):
                return Ending(
                    verdict=VerdictName.UNREADABLE, segment=shown_name(place.name), note="this is not a segment file"
                )
            else:
                segments.append(place)
        except FileNotFoundError:
            return Ending(verdict=VerdictName.EMPTY_OR_MISSING, note=f"{shown_name(place.name)} does not exist")
        except (OSError, ValueError) as cause:  # ValueError: a path with a NUL in it
            return Ending(verdict=VerdictName.UNREADABLE, segment=shown_name(place.name), note=_cannot_read(cause))
    segments.sort(key=lambda path: path.name)
    if _nothing_in(segments):
        return Ending(verdict=VerdictName.EMPTY_OR_MISSING, note="there is no record")
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
        note=_cannot_read(cause),
    )


def _cannot_read(cause: Exception) -> str:
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return f"it can't be read: {reason}"

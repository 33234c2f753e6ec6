"""A second verifier of the audit log, written from docs/audit-format.md alone.

It shares nothing with the verifier that ships but the text, so that a fault in one shows beside the other. The numbers
of rules are those of the text. It opens no sealed event (second_reader.py does), writes nothing, and is not fast.

    python tests/vectors/second_verifier.py [--pin FILE] [--anchor [RUNG=]FILE]... [--checkpoint FILE]... PLACE...
"""

import argparse
import fcntl
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.vectors.second_format import (
    ANCHOR_BYTES_MAX,
    CHECKPOINT_FILE_BYTES_MAX,
    PIN_BYTES_MAX,
    RUNGS,
    Anchor,
    Identity,
    Note,
    parse_anchor,
    parse_checkpoint_file,
    parse_pin,
    read_file,
)
from tests.vectors.second_walk import COMMIT_BYTES, FaultError, Finding, Verdict, Walk

SEGMENT_NAME = re.compile(r"(?!0{8})[0-9]{8}\.seg")
OTHER_NAME = re.compile(r"reserve|[0-9]{8}\.[0-9]+(\.[0-9]+)?\.torn")


class Knowledge(NamedTuple):
    """What is kept outside the log, in the order in which it is looked at (8.5)."""

    pin: Identity | None
    anchors: list[Anchor]
    notes: list[Note]


def read_knowledge(pin: Identity | None, anchors: Iterable[tuple[str, str]], checkpoints: Iterable[str]) -> Knowledge:
    files = [read_file(Path(path), CHECKPOINT_FILE_BYTES_MAX, one_name=False) for path in checkpoints]
    return Knowledge(
        pin,
        sorted(
            (parse_anchor(read_file(Path(path), ANCHOR_BYTES_MAX), rung) for rung, path in anchors),
            key=lambda anchor: (anchor.seq, anchor.rung),
        ),
        sorted((note for file in files for note in parse_checkpoint_file(file)), key=lambda note: note.size),
    )


def find_segments(places: Iterable[Path]) -> list[Path]:
    """8.4, rule 2."""
    files: list[Path] = []
    for place in places:
        try:
            mode = place.stat().st_mode
            entries = list(place.iterdir()) if stat.S_ISDIR(mode) else [place]
        except FileNotFoundError:
            raise FaultError(Finding(Verdict.EMPTY_OR_MISSING)) from None
        except (OSError, ValueError):
            raise FaultError(Finding(Verdict.UNREADABLE, shown(place))) from None
        for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
            if SEGMENT_NAME.fullmatch(entry.name) and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                files.append(entry)
            elif not stat.S_ISDIR(mode) or not OTHER_NAME.fullmatch(entry.name):
                raise FaultError(Finding(Verdict.UNREADABLE, shown(entry)))
    if all(is_empty(file) for file in files):
        raise FaultError(Finding(Verdict.EMPTY_OR_MISSING))
    return sorted(files, key=lambda file: file.name)


def shown(path: Path) -> str:
    """The file's name as an answer may spell it (8.5)."""
    return re.sub("[\udc80-\udcff]", "\ufffd", path.name)


def is_empty(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def writer_runs(places: Iterable[Path]) -> bool:
    """Whether somebody holds the lock of a directory given."""
    for place in places:
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return False


class Judgement:
    """8.4, from rule 3 on."""

    def __init__(self, walk: Walk, knowledge: Knowledge, *, live: bool) -> None:
        self.walk, self.anchors, self.notes, self.live = walk, knowledge.anchors, knowledge.notes, live
        self.records = walk.proven.seq + 1 if walk.proven else 0
        self.rung = max(self._rungs_that_fit(), default=0)
        self.finding = self._finding()

    def _finding(self) -> Finding:
        fault = self.walk.fault
        if fault and fault.verdict is Verdict.FORGED_SIGNATURE:
            return fault
        outside = self._of_another_log() or self._contradicted() or self._badly_signed()
        if outside:
            return outside
        if fault and not (self.live and fault.verdict is Verdict.TORN_OR_TAMPERED):
            return fault
        proven = self.walk.proven
        end = (proven.segment, proven.offset + COMMIT_BYTES) if proven else ("00000001.seg", 0)
        if self._known_beyond_the_end():
            return Finding(Verdict.TRUNCATED, *end, self.records)
        if not self.live and (self.walk.torn or not self.walk.ends_with_a_commit):
            unacknowledged = self.walk.torn and self.walk.anchor_names_the_last_commit()
            return Finding(Verdict.TORN_TAIL if unacknowledged else Verdict.TORN_OR_TAMPERED, *end, self.records)
        verdict = Verdict.OK if self.rung else Verdict.OK_UNANCHORED
        return Finding(verdict, *end, self.records - 1) if proven else Finding(verdict)

    def _of_another_log(self) -> Finding | None:
        identity = self.walk.identity
        foreign = identity and (
            any(anchor.log_id != identity.log_id for anchor in self.anchors)
            or any(note.origin != identity.origin for note in self.notes)
        )
        return Finding(Verdict.WRONG_LOG) if foreign else None

    def _contradicted(self) -> Finding | None:
        for anchor in self.anchors:
            if anchor.seq < self.records and anchor.head != self.walk.heads[anchor.seq]:
                return Finding(Verdict.ROLLBACK, f"{anchor.segment:08}.seg", anchor.offset, anchor.seq)
        for note in self.notes:
            if note.size <= self.records and note.root != self.walk.roots[note.size]:
                return Finding(Verdict.ROLLBACK, seq=note.size - 1)
        return None

    def _badly_signed(self) -> Finding | None:
        for note in self.notes:
            if note.size <= self.records and not self._signed(note):
                return Finding(Verdict.FORGED_SIGNATURE, seq=note.size - 1)
        return None

    def _signed(self, note: Note) -> bool:
        """Whether the root key or an epoch of this log signed it, and no line of theirs is false."""
        identity = self.walk.identity
        return bool(identity and note.signers({**self.walk.keys, identity.origin: identity.root_key}))

    def _known_beyond_the_end(self) -> bool:
        return any(anchor.seq >= self.records for anchor in self.anchors) or any(
            note.size > self.records for note in self.notes
        )

    def _rungs_that_fit(self) -> Iterable[int]:
        identity = self.walk.identity
        for anchor in self.anchors:
            proven = anchor.seq < self.records and anchor.head == self.walk.heads[anchor.seq]
            if proven and identity and anchor.log_id == identity.log_id:
                yield anchor.rung
        for note in self.notes:
            proven = note.size <= self.records and note.root == self.walk.roots[note.size]
            if proven and identity and note.origin == identity.origin and self._signed(note):
                yield RUNGS.index("outside")


def verify(
    places: Iterable[str],
    *,
    pin: str | None = None,
    anchors: Iterable[tuple[str, str]] = (),
    checkpoints: Iterable[str] = (),
) -> tuple[dict[str, object], int]:
    """The answer of 8.5, and the exit code. An anchor is its rung and its file."""
    paths = [Path(place) for place in places]
    pinned, live, rung, records = False, False, 0, 0
    try:
        identity = None if pin is None else parse_pin(read_file(Path(pin), PIN_BYTES_MAX))
        pinned = identity is not None
        knowledge = read_knowledge(identity, anchors, checkpoints)
        live = writer_runs(paths)
        walk = Walk(find_segments(paths), knowledge.pin, knowledge.anchors, knowledge.notes)
        walk.run()
        judgement = Judgement(walk, knowledge, live=live)
        finding, rung, records = judgement.finding, judgement.rung, judgement.records
    except FaultError as fault:
        finding = fault.finding
    except (OSError, ValueError, RecursionError):  # the knowledge: 8.4, rule 1
        finding = Finding(Verdict.UNREADABLE)
    return {
        "verdict": finding.verdict.name,
        "rung": RUNGS[rung],
        "pinned": pinned,
        "live": live,
        "segment": finding.segment,
        "offset": finding.offset,
        "seq": finding.seq,
        "proven_to": records - 1 if records else None,
        "records": records,
        "note": "as the second verifier reads docs/audit-format.md",
    }, int(finding.verdict)


def rung_and_file(argument: str) -> tuple[str, str]:
    rung, equals, file = argument.partition("=")
    return (rung, file) if equals and rung in RUNGS[1:] else ("file", argument)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Verify an audit log.")
    parser.add_argument("--pin")
    parser.add_argument("--anchor", action="append", default=[], type=rung_and_file)
    parser.add_argument("--checkpoint", action="append", default=[])
    parser.add_argument("place", nargs="+")
    given = parser.parse_args(arguments)
    answer, code = verify(given.place, pin=given.pin, anchors=given.anchor, checkpoints=given.checkpoint)
    print(json.dumps(answer))
    return code


if __name__ == "__main__":
    sys.exit(main())

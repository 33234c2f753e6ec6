"""Whole files missing, extra, swapped, or something else than files."""

import os
import shutil
from pathlib import Path

from tests.fakes.forger import Forger, records_of
from tests.tampering.corpus import (
    ALTERED,
    EMPTY,
    GAP,
    NOWHERE,
    REORDERED,
    TORN,
    TRUNCATED,
    UNANCHORED,
    UNREADABLE,
    UNSURE,
    WRONG_LOG,
    Base,
    Found,
    Place,
    after,
    case,
    ends,
)


def _start_of(forger: Forger, index: int) -> Place:
    """Where a file should begin."""
    path = forger.files[index]
    return Place(path.name, 0, records_of(path)[0].seq)


def _next_name(forger: Forger) -> Path:
    return forger.directory / f"{int(forger.files[-1].stem) + 1:08d}.seg"


@case("the first segment is missing", GAP)
def _(forger: Forger, _: Base) -> Found:
    place = _start_of(forger, 0)
    forger.files[0].unlink()
    return place


@case("a middle segment is missing", GAP)
def _(forger: Forger, _: Base) -> Found:
    place = _start_of(forger, 1)
    forger.files[1].unlink()
    return place


@case("the last segment is missing", TRUNCATED, UNANCHORED)
def _(forger: Forger, _: Base) -> Found:
    forger.files[-1].unlink()
    last = forger.records[-1]
    return after(last), ends(last)


@case("two segments change names", REORDERED)
def _(forger: Forger, _: Base) -> Found:
    place = _start_of(forger, 1)
    one, two = forger.files[1], forger.files[2]
    one.rename(forger.directory / "00009999.seg")
    two.rename(one)
    (forger.directory / "00009999.seg").rename(two)
    return place


@case("a segment is there twice, under the next number", REORDERED)
def _(forger: Forger, _: Base) -> Found:
    last, fresh = forger.records[-1], _next_name(forger)
    shutil.copy(forger.files[-1], fresh)
    return Place(fresh.name, 0, last.seq + 1)


@case("a segment of another log follows", WRONG_LOG)
def _(forger: Forger, base: Base) -> Found:
    last, fresh = forger.records[-1], _next_name(forger)
    shutil.copy(base.other / "00000002.seg", fresh)
    return Place(fresh.name, 0, last.seq + 1)


@case("a segment of another log stands in for ours", WRONG_LOG)
def _(forger: Forger, base: Base) -> Found:
    place = _start_of(forger, 1)
    shutil.copy(base.other / "00000002.seg", forger.directory / "00000002.seg")
    return place


@case("the whole log is another one", WRONG_LOG)
def _(forger: Forger, base: Base) -> Found:
    shutil.rmtree(forger.directory)
    shutil.copytree(base.other, forger.directory)
    return Place("00000001.seg", 0, 0)


@case("the last segment is emptied", TRUNCATED, UNSURE, journal="emptied")
def _(forger: Forger, _: Base) -> Found:
    forger.files[-1].write_bytes(b"")
    return after(forger.records[-1])


@case("a middle segment is emptied", TRUNCATED)
def _(forger: Forger, _: Base) -> Found:
    place = _start_of(forger, 1)
    forger.files[1].write_bytes(b"")
    return place


@case("the first segment is emptied", TRUNCATED)
def _(forger: Forger, _: Base) -> Found:
    forger.files[0].write_bytes(b"")
    return Place("00000001.seg", 0, 0)


@case("an empty segment follows", TORN, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    _next_name(forger).write_bytes(b"")
    return after(forger.records[-1])


@case("all segments are deleted", EMPTY, journal="deleted")
def _(forger: Forger, _: Base) -> Found:
    for path in forger.files:
        path.unlink()
    return NOWHERE


@case("all segments are emptied", EMPTY)
def _(forger: Forger, _: Base) -> Found:
    for path in forger.files:
        path.write_bytes(b"")
    return NOWHERE


@case("the directory is missing", EMPTY)
def _(forger: Forger, _: Base) -> Found:
    shutil.rmtree(forger.directory)
    return NOWHERE


@case("a foreign file lies beside", UNREADABLE)
def _(forger: Forger, _: Base) -> Found:
    (forger.directory / "note.txt").write_text("hello")
    return Place("note.txt", None, None)


@case("the first segment is no log at all", UNREADABLE)
def _(forger: Forger, _: Base) -> Found:
    forger.files[0].write_bytes(b"\x7fELF and so on, for a good many bytes" * 10)
    return Place("00000001.seg", 0, 0)


@case("line ends were turned into CR LF", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    path = forger.files[0]
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b"\r\n"))
    spoiled = content.index(b"\n")
    record = next(record for record in _records_at(content) if record[1] > spoiled)
    return Place(path.name, record[0], record[2])


def _records_at(content: bytes) -> list[tuple[int, int, int]]:
    """Begin, end and number of the records that once stood there."""
    found, place = [], 0
    while place < len(content):
        end = place + 4 + int.from_bytes(content[place : place + 4], "big") + 32
        found.append((place, end, int.from_bytes(content[place + 12 : place + 20], "big")))
        place = end
    return found


@case("a segment is a symlink", UNREADABLE, journal="symbolic link")
def _(forger: Forger, _: Base) -> Found:
    place, path = _start_of(forger, 1), forger.files[1]
    path.rename(forger.directory.parent / "elsewhere.seg")
    path.symlink_to(forger.directory.parent / "elsewhere.seg")
    return place


@case("a segment has a second name", UNREADABLE, journal="hard link")
def _(forger: Forger, _: Base) -> Found:
    os.link(forger.files[1], forger.directory.parent / "second")
    return _start_of(forger, 1)


@case("a segment is a FIFO", UNREADABLE, journal="FIFO")
def _(forger: Forger, _: Base) -> Found:
    place, path = _start_of(forger, 1), forger.files[1]
    path.unlink()
    os.mkfifo(path)
    return place


@case("a segment is a directory", UNREADABLE, journal="directory")
def _(forger: Forger, _: Base) -> Found:
    place, path = _start_of(forger, 1), forger.files[1]
    path.unlink()
    path.mkdir()
    return place


@case("a segment is larger than any", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    place = _start_of(forger, len(forger.files) - 1)
    os.truncate(forger.files[-1], 1 << 40)
    return place._replace(offset=72 << 20)

"""Under names that a log may hold, somebody may have put something else: nothing waits for it, or fills up."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.verdict import VerdictName
from tests.fakes.logs import SmallLog, new_log, write_events
from tests.fakes.strangers import KINDS, put


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 5)
    return made


def at_end(log: SmallLog, number: str = "") -> Path:
    last = log.segments()[-1]
    return log.directory / f"{last.name[:8]}.{last.stat().st_size}{number}.torn"


def reserve(log: SmallLog) -> Path:
    return log.directory / "reserve"


def before_next(log: SmallLog) -> Path:
    return log.directory / f"{int(log.segments()[-1].name[:8]) + 1:08d}.0.torn"


PLACES: dict[str, Callable[[SmallLog], Path]] = {
    "torn bytes": at_end,
    "torn bytes of a file that was taken away": before_next,
    "reserve": reserve,
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "file"])
@pytest.mark.parametrize("place", PLACES)
def test_a_stranger_suspends_the_writer_with_words_that_name_it(
    log: SmallLog, tmp_path: Path, place: str, kind: str
) -> None:
    path, other = PLACES[place](log), tmp_path / "other"
    path.unlink(missing_ok=True)
    put(kind, path, other)
    content = log.segments()[-1].read_bytes()
    writer = log.open()
    try:
        assert writer.suspended is not None
        assert VerdictName.UNREADABLE is writer.suspended.verdict
        assert str(path) in writer.suspended.note
        with pytest.raises(AuditError):
            writer.readopt_blocking(log.root)
    finally:
        writer.close()
    assert (content, b"another's") == (log.segments()[-1].read_bytes(), other.read_bytes())
    path.unlink()
    with log.writer() as again:
        write_events(again, 1)


def test_what_is_larger_than_any_write_is_no_torn_write(log: SmallLog) -> None:
    path = at_end(log)
    path.touch()
    os.truncate(path, 1 << 40)
    writer = log.open()
    suspended = writer.suspended
    writer.close()

    assert suspended is not None
    assert VerdictName.UNREADABLE is suspended.verdict


@pytest.mark.parametrize("number", [".2", ".7", ".999999999999"])
def test_a_gap_in_the_numbers_of_torn_files_is_no_hindrance(log: SmallLog, number: str) -> None:
    at_end(log).write_bytes(b"old")
    at_end(log, number).write_bytes(b"older or newer")
    last, torn = log.segments()[-1], bytes(37)
    names = {path.name for path in log.directory.iterdir()}
    with last.open("ab") as file:
        file.write(torn)
    with log.writer() as writer:
        recovery = writer.recovery
    (fresh,) = {path.name for path in log.directory.iterdir()} - names

    assert recovery is not None
    assert len(torn) == recovery.cut_bytes
    assert torn == (log.directory / fresh).read_bytes()

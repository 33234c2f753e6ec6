"""A disk that fails under a running writer: nothing is acknowledged that is not there, and the words say what to do."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.limits import WriterLimits
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.segment import RESERVE
from broker.audit.verdict import VerdictName
from tests.fakes.forger import END, records_of
from tests.fakes.logs import SMALL, FaultyDisk, SmallLog, an_event, new_log, write_events
from tests.fakes.small_disks import SmallDisk, small_disk

MANY = WriterLimits(min_free_bytes=0, reserve_bytes=65536)


@pytest.fixture(params=["real", "stand-in"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """A real one only where we may mount it; the stand-in is always tried as well."""
    with small_disk(tmp_path, real=request.param == "real") as made:
        yield made


def count(log: SmallLog) -> int:
    return sum(1 for _ in read_events(log.directory, log.secrets.audit_sk))


def test_a_disk_that_fills_up_ends_the_log_in_order_and_it_goes_on_once_there_is_room(disk: SmallDisk) -> None:
    log = new_log(disk.place / "log")
    writer = log.open(limits=MANY, disk=disk.disk)
    write_events(writer, 3)
    disk.fill()
    acknowledged, words = 3, ""
    while not words:  # until the block that is begun is full
        try:
            writer.append_blocking(an_event(acknowledged, text="x" * 900))
            acknowledged += 1
        except AuditError as refused:
            words = str(refused)
    with pytest.raises(AuditError, match="start the daemon again"):
        writer.post(an_event(0))
    state = (writer.room(), writer.suspended)
    writer.close()
    last = [record for record in records_of(log.segments()[-1]) if record.kind == END][-1]

    assert "audit log can't be written" in words
    assert "see to the disk, then start the daemon again" in words
    assert (False, None) == state
    assert 2 == last.payload[0]
    assert not (log.directory / RESERVE).exists()
    assert VerdictName.OK == log.verdict().verdict
    assert acknowledged == count(log)

    disk.make_room()
    with log.writer(limits=MANY) as again:
        write_events(again, 2)
        assert MANY.reserve_bytes == (log.directory / RESERVE).stat().st_size
    assert VerdictName.OK == log.verdict().verdict
    assert acknowledged + 2 == count(log)


def test_a_full_disk_at_the_start_is_told_and_changes_nothing_that_stands(disk: SmallDisk) -> None:
    log = new_log(disk.place / "log")
    with log.writer(limits=MANY, disk=disk.disk) as writer:
        write_events(writer, 3)
    (log.directory / RESERVE).unlink()
    disk.fill()
    with pytest.raises(AuditError, match="can't be opened for writing"):
        log.open(limits=MANY, disk=disk.disk)
    assert log.verdict().verdict in {VerdictName.OK, VerdictName.TORN_TAIL}

    disk.make_room()
    with log.writer(limits=MANY, disk=disk.disk) as again:
        write_events(again, 1)
    assert VerdictName.OK == log.verdict().verdict
    assert 4 == count(log)


def test_a_disk_that_turns_read_only_stops_the_writer_for_good(disk: SmallDisk) -> None:
    log = new_log(disk.place / "log")
    writer = log.open(limits=MANY, disk=disk.disk)
    write_events(writer, 3)
    disk.become_read_only()
    with pytest.raises(AuditError, match=r"Read-only file system.*see to the disk, then start the daemon again"):
        writer.append_blocking(an_event(3))
    with pytest.raises(AuditError, match="start the daemon again"):
        writer.new_epoch_blocking(EpochReason.LOCK)
    assert not writer.room()
    with pytest.raises(AuditError, match=r"in use by another writer"):
        log.open(limits=MANY, disk=disk.disk)
    writer.close()
    with pytest.raises(AuditError, match=r"can't be opened for writing: .*Read-only file system"):
        log.open(limits=MANY, disk=disk.disk)

    disk.mend()
    assert log.verdict().verdict in {VerdictName.OK, VerdictName.TORN_TAIL}
    with log.writer(limits=MANY, disk=disk.disk) as again:
        write_events(again, 1)
    assert VerdictName.OK == log.verdict().verdict
    assert 4 == count(log)


# What hangs on the log's directory and lies beside it


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    return new_log(tmp_path)


def test_an_anchor_that_was_taken_away_is_put_back_at_the_next_epoch(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 2)
        log.paths.anchor.unlink()
        write_events(writer, 1)
        writer.new_epoch_blocking(EpochReason.LOCK)

        assert writer.head[0] == log.anchor.seq
        write_events(writer, 1)
        assert writer.head[0] == log.anchor.seq
    assert VerdictName.OK == log.verdict().verdict


def test_an_anchor_that_was_replaced_is_put_back_too(log: SmallLog) -> None:
    with log.writer() as writer:
        older = log.anchor
        write_events(writer, 2)
        older.save(log.paths.anchor)
        assert older == log.anchor
        writer.checkpoint_blocking()

        assert writer.head[0] == log.anchor.seq


def test_an_anchor_whose_place_is_gone_stops_the_writer(log: SmallLog) -> None:
    writer = log.open()
    write_events(writer, 1)
    shutil.rmtree(log.paths.anchor.parent)
    with pytest.raises(AuditError, match="see to the disk"):
        writer.new_epoch_blocking(EpochReason.LOCK)
    writer.close()


def test_seeds_that_were_taken_away_under_a_running_writer_are_kept_anew(log: SmallLog) -> None:
    with log.writer() as writer:
        shutil.rmtree(log.paths.seeds)
        writer.new_epoch_blocking(EpochReason.LOCK)
        write_events(writer, 1)
    with log.writer() as again:
        assert again.endorsed


def test_the_room_of_a_small_disk_is_below_the_default_floor(disk: SmallDisk) -> None:
    log = new_log(disk.place / "log")
    if isinstance(disk.disk, FaultyDisk):
        disk.disk.fail("free_bytes")
    writer = log.open(limits=replace(WriterLimits(), reserve_bytes=4096), disk=disk.disk)
    write_events(writer, 1)  # refusals are still recorded

    assert not writer.room()
    writer.close()


def test_a_smaller_reserve_is_made_whole_at_the_next_start(log: SmallLog) -> None:
    with log.writer(limits=replace(SMALL, reserve_bytes=100)):
        pass
    with log.writer(limits=replace(SMALL, reserve_bytes=5000)):
        assert 5000 == (log.directory / RESERVE).stat().st_size

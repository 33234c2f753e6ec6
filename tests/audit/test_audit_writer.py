import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit import AuditError
from broker.audit.limits import WriterLimits
from broker.audit.payload import unpack_epoch
from broker.audit.reader import read_events
from broker.audit.seal import MAX_PLAINTEXT_BYTES, EpochReason, open_opening
from broker.audit.segment import writer_is_live
from broker.audit.verdict import VerdictName
from broker.core.events import AuditEvent, EventName, Receipt
from tests.fakes.forger import CHECKPOINT, END, EPOCH, EVENT, Raw, records_of
from tests.fakes.logs import SMALL, FaultyDisk, SmallLog, an_event, new_log, write_events


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    return new_log(tmp_path)


def kinds(log: SmallLog) -> list[int]:
    return [record.kind for path in log.segments() for record in records_of(path)]


def numbers(log: SmallLog) -> list[object]:
    """The `number` field of every event that the log gives back."""
    fields = [event.get("fields") for _, event in read_events(log.directory, log.secrets.audit_sk)]
    return [field["number"] if isinstance(field, dict) else field for field in fields]


def test_a_receipt_names_the_record_that_is_on_the_disk(log: SmallLog) -> None:
    with log.writer() as writer:
        receipt = writer.append_blocking(an_event(7))
        raw = next(record for record in records_of(log.segments()[0]) if record.kind == EVENT)

    assert (
        Receipt(seq=raw.seq, head=raw.hash.hex(), event=EventName.ACTION_REQUESTED, correlation_id="c-000007")
        == receipt
    )


def test_the_head_is_the_commit_after_the_last_event(log: SmallLog) -> None:
    with log.writer() as writer:
        receipt = writer.append_blocking(an_event(1))
        last = records_of(log.segments()[-1])[-1]

        assert (last.seq, last.hash.hex()) == writer.head
        assert receipt.seq + 1 == last.seq


async def test_many_callers_share_group_commits_and_each_gets_its_own_receipt(log: SmallLog) -> None:
    with log.writer(limits=replace(SMALL, epoch_events=4096, segment_bytes=1 << 20)) as writer:
        receipts = await asyncio.gather(*(writer.append(an_event(number)) for number in range(200)))

    assert [f"c-{number:06d}" for number in range(200)] == [receipt.correlation_id for receipt in receipts]
    assert len({receipt.seq for receipt in receipts}) == 200
    assert list(range(200)) == numbers(log)
    assert VerdictName.OK == log.verdict().verdict


def test_a_posted_event_is_durable_before_the_next_receipt(log: SmallLog) -> None:
    with log.writer() as writer:
        for number in range(5):
            writer.post(an_event(number))
        writer.append_blocking(an_event(5))

        assert list(range(6)) == numbers(log)


async def test_posts_and_appends_keep_the_order_of_the_calls(log: SmallLog) -> None:
    with log.writer() as writer:
        for number in range(0, 60, 3):
            writer.post(an_event(number))
            await writer.append(an_event(number + 1))
            writer.append_blocking(an_event(number + 2))

    assert list(range(60)) == numbers(log)


async def test_a_post_is_written_though_nothing_follows_it(log: SmallLog) -> None:
    def written() -> bool:
        ends_s = time.monotonic() + 15
        while numbers(log) != [1] and time.monotonic() < ends_s:
            time.sleep(0.01)
        return numbers(log) == [1]

    with log.writer() as writer:
        writer.post(an_event(1))

        assert await asyncio.to_thread(written)


async def test_a_cancelled_caller_loses_its_receipt_and_not_the_record(log: SmallLog) -> None:
    with log.writer() as writer:
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(writer.append(an_event(1)))
            await asyncio.sleep(0)
            waiting.cancel()
        await writer.append(an_event(2))

    assert waiting.cancelled()
    assert [1, 2] == numbers(log)


def test_threads_may_append_at_the_same_time(log: SmallLog) -> None:
    with log.writer() as writer:
        threads = [threading.Thread(target=write_events, args=(writer, 25), kwargs={"first": 25 * n}) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert list(range(100)) == sorted(number for number in numbers(log) if isinstance(number, int))
    assert VerdictName.OK == log.verdict().verdict


def test_a_clean_stop_writes_a_checkpoint_and_an_end(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 3)

    assert [CHECKPOINT, END] == kinds(log)[-3:-1]


def test_closing_twice_is_no_fault_and_appending_after_is_one(log: SmallLog) -> None:
    writer = log.open()
    writer.close()
    writer.close()

    with pytest.raises(AuditError, match="closed"):
        writer.append_blocking(an_event(1))


def test_what_was_queued_before_closing_is_written(log: SmallLog) -> None:
    writer = log.open()
    for number in range(30):
        writer.post(an_event(number))
    writer.close()

    assert list(range(30)) == numbers(log)


async def test_lock_and_unlock_begin_an_epoch_after_a_checkpoint(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 2)
        await writer.new_epoch(EpochReason.LOCK)
        writer.new_epoch_blocking(EpochReason.UNLOCK)
        found = kinds(log)

    assert [CHECKPOINT, EPOCH] == found[-6:-4]
    assert [CHECKPOINT, EPOCH] == found[-3:-1]


def test_an_epoch_takes_no_more_events_than_its_limit(log: SmallLog) -> None:
    with log.writer(limits=replace(SMALL, epoch_events=4, segment_bytes=1 << 20)) as writer:
        for number in range(20):
            writer.post(an_event(number))
    by_epoch: dict[int, int] = {}
    for record in records_of(log.segments()[0]):
        if record.kind == EVENT:
            by_epoch[record.epoch] = by_epoch.get(record.epoch, 0) + 1

    assert [4, 4, 4, 4, 4] == list(by_epoch.values())


def test_an_old_epoch_gives_way_when_its_hour_is_over(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 1)
        log.clock.now_ms += SMALL.epoch_ms
        write_events(writer, 1)
        found = records_of(log.segments()[0])
        epochs = [record.epoch for record in found if record.kind == EVENT]

    assert epochs[0] + 1 == epochs[1]
    assert EpochReason.AGE == reason_of(log, next(r for r in found if r.kind == EPOCH and r.epoch == epochs[1]))


def reason_of(log: SmallLog, record: Raw) -> int:
    """Why an epoch began, which only the audit key can read."""
    entry = unpack_epoch(record.payload)
    assert entry is not None
    opening = open_opening(
        entry.sealed,
        audit_sk=X25519PrivateKey.from_private_bytes(log.secrets.audit_sk.reveal()),
        log_id=bytes.fromhex(log.pin.log_id),
        epoch=record.epoch,
        epoch_key=entry.key,
    )
    assert opening is not None
    return opening.reason


def test_a_full_segment_is_followed_by_the_next(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 60)

    assert len(log.segments()) > 2
    assert all(path.stat().st_size < SMALL.segment_bytes + 4096 for path in log.segments())
    assert VerdictName.OK == log.verdict().verdict


def test_a_log_can_be_taken_up_again_and_again(log: SmallLog) -> None:
    for start in range(0, 12, 3):
        with log.writer() as writer:
            assert writer.recovered is None
            write_events(writer, 3, first=start)

    assert list(range(12)) == numbers(log)
    assert VerdictName.OK == log.verdict().verdict


def test_only_one_seed_is_kept_after_each_epoch(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 25)
        seeds = list(log.paths.seeds.iterdir())

    assert 1 == len(seeds)
    assert 0o600 == seeds[0].stat().st_mode & 0o777


def test_a_second_writer_is_refused_and_the_first_goes_on(log: SmallLog) -> None:
    with log.writer() as writer:
        assert writer_is_live(log.directory)
        with pytest.raises(AuditError, match="another writer"):
            log.open()
        write_events(writer, 1)

    assert not writer_is_live(log.directory)


def test_the_log_id_is_the_pinned_one(log: SmallLog) -> None:
    with log.writer() as writer:
        assert log.pin.log_id == log.secrets.log_id == writer.log_id


# Refusals that leave the writer well


def test_an_event_with_a_float_is_refused_and_poisons_nothing(log: SmallLog) -> None:
    with log.writer() as writer:
        with pytest.raises(AuditError, match="can't be recorded"):
            writer.append_blocking(AuditEvent(name=EventName.GRANT_MADE, at_ms=1, fields={"much": 0.5}))
        write_events(writer, 1)

        assert writer.poisoned is None


def test_an_event_larger_than_a_record_is_refused_and_the_largest_is_kept(log: SmallLog) -> None:
    overhead = len(an_event(1).encode())
    with log.writer() as writer:
        with pytest.raises(AuditError, match="too large"):
            writer.append_blocking(an_event(1, text="x" * (MAX_PLAINTEXT_BYTES - overhead + 1)))
        writer.append_blocking(an_event(1, text="x" * (MAX_PLAINTEXT_BYTES - overhead)))

    assert [1] == numbers(log)


def test_a_queue_that_is_full_refuses_instead_of_growing(log: SmallLog) -> None:
    with log.writer(limits=replace(SMALL, queue_bytes=100)) as writer:
        with pytest.raises(AuditError, match="too many"):
            writer.post(an_event(1))

        assert writer.poisoned is None


def test_room_ends_below_the_floor(log: SmallLog) -> None:
    with log.writer() as writer:
        assert writer.room()
    with log.writer(limits=replace(SMALL, min_free_bytes=1 << 60)) as writer:
        assert not writer.room()


def test_a_disk_that_does_not_tell_its_room_has_none(log: SmallLog) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    disk.fail("free_bytes")

    assert not writer.room()
    writer.close()


# Poison


@pytest.mark.parametrize("operation", ["write", "sync", "write_at"])
def test_a_failed_disk_operation_poisons_the_writer_for_good(log: SmallLog, operation: str) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    write_events(writer, 2)
    disk.fail(operation)
    with suppress(AuditError):  # a failed anchor comes after the receipt
        writer.append_blocking(an_event(2))
    poll(lambda: writer.poisoned is not None)
    disk.operation = ""

    with pytest.raises(AuditError, match="start the daemon again"):
        writer.append_blocking(an_event(3))
    assert writer.poisoned is not None
    assert not writer.room()
    writer.close()
    assert log.verdict().verdict in {VerdictName.OK, VerdictName.TORN_TAIL}


async def test_poison_reaches_everybody_who_waits(log: SmallLog) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    disk.fail("sync")
    answers = await asyncio.gather(*(writer.append(an_event(number)) for number in range(20)), return_exceptions=True)
    writer.close()

    assert all(isinstance(answer, AuditError) for answer in answers)


@pytest.mark.parametrize("operation", ["write", "sync", "replace"])
def test_a_failed_epoch_change_poisons_and_the_log_can_be_taken_up(log: SmallLog, operation: str) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    write_events(writer, 2)
    disk.fail(operation)
    with pytest.raises(AuditError):
        writer.new_epoch_blocking(EpochReason.LOCK)
    writer.close()
    with log.writer() as again:
        write_events(again, 1, first=2)

    assert [0, 1, 2] == numbers(log)
    assert VerdictName.OK == log.verdict().verdict


def test_nothing_is_retried_after_a_failed_sync(log: SmallLog) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    disk.done.clear()
    disk.fail("sync")
    with pytest.raises(AuditError):
        writer.append_blocking(an_event(1))
    writer.close()

    assert 1 == disk.done.count("sync")


def test_a_full_disk_ends_the_log_in_order_with_the_room_of_the_reserve(log: SmallLog) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    write_events(writer, 3)
    disk.fail("write", errno.ENOSPC, times=1)
    with pytest.raises(AuditError, match="start the daemon again"):
        writer.append_blocking(an_event(3))
    writer.close()
    last = [record for record in records_of(log.segments()[-1]) if record.kind == END][-1]

    assert b"\2" == last.payload[:1]
    assert not (log.directory / "reserve").exists()
    assert VerdictName.OK == log.verdict().verdict
    assert [0, 1, 2] == numbers(log)


def test_a_disk_that_stays_full_leaves_a_torn_tail_and_no_lost_record(log: SmallLog) -> None:
    disk = FaultyDisk()
    writer = log.open(disk=disk)
    write_events(writer, 3)
    disk.fail("write", errno.ENOSPC)
    with pytest.raises(AuditError):
        writer.append_blocking(an_event(3))
    writer.close()

    assert log.verdict().verdict in {VerdictName.OK, VerdictName.TORN_TAIL}
    assert [0, 1, 2] == numbers(log)


def deleted(path: Path) -> None:
    path.unlink()


def linked(path: Path) -> None:
    os.link(path, path.parent.parent / "second")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def replaced(path: Path) -> None:
    moved(path)
    path.write_bytes((path.parent.parent / "moved").read_bytes())


def moved(path: Path) -> None:
    path.rename(path.parent.parent / "moved")


def without_its_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("meddle", [deleted, linked, cut, grown, replaced, moved, without_its_directory])
def test_a_file_that_is_meddled_with_is_noticed_at_the_next_commit(
    log: SmallLog, meddle: Callable[[Path], None]
) -> None:
    writer = log.open()
    write_events(writer, 2)
    meddle(log.segments()[-1])

    with pytest.raises(AuditError, match=r"the audit log can't be written .*; see to the disk, then start"):
        writer.append_blocking(an_event(2))
    with pytest.raises(AuditError, match="start the daemon again"):
        writer.post(an_event(3))
    assert writer.poisoned is not None
    assert not writer.room()
    writer.close()


def poll(settled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not settled():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_default_bounds_are_the_documented_ones() -> None:
    bounds = WriterLimits()

    assert (64 << 20, 4096, 3_600_000, 256 << 20) == (
        bounds.segment_bytes,
        bounds.epoch_events,
        bounds.epoch_ms,
        bounds.min_free_bytes,
    )

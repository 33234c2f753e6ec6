"""Audit state advances only after the sync; a failing disk leaves a log that verifies and a writer that refuses."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from broker.audit.writer import AuditWriter
from tests.fakes.logs import FaultyDisk, SmallLog, an_event, new_log, write_events

FAILURES = [
    ("write", errno.EIO),
    ("write", errno.ENOSPC),
    ("write", errno.EROFS),
    ("write", errno.EDQUOT),
    ("sync", errno.EIO),
    ("sync", errno.ENOSPC),
    ("replace", errno.EIO),
    ("replace", errno.ENOSPC),
    ("write_at", errno.EIO),
]


def force_failure(log: SmallLog, disk: FaultyDisk, operation: str, number: int, after: int) -> tuple[list[int], int]:
    """Append, with epoch changes between, until the disk fails; what was acknowledged, and the head then."""
    writer = log.open(disk=disk)
    disk.fail(operation, number, after=after)
    acknowledged: list[int] = []
    try:
        for event in range(120):
            writer.append_blocking(an_event(event))
            acknowledged.append(event)
            if event % 7 == 6:
                writer.new_epoch_blocking(EpochReason.UNLOCK, log.root)
            if event % 9 == 8:
                writer.checkpoint_blocking(log.root)
    except AuditError:
        pass
    head, _ = writer.head
    for refused in refusals(log, writer):
        with pytest.raises(AuditError, match=r"can't be written .*start the daemon again"):
            refused()

    assert (head, False) == (writer.head[0], writer.room())
    writer.close()
    return acknowledged, head


def refusals(log: SmallLog, writer: AuditWriter) -> list[Callable[[], object]]:
    """Everything that would write."""
    return [
        lambda: writer.append_blocking(an_event(99)),
        lambda: writer.post(an_event(99)),
        lambda: writer.new_epoch_blocking(EpochReason.LOCK),
        lambda: writer.checkpoint_blocking(log.root),
        lambda: writer.readopt_blocking(log.root),
    ]


@pytest.mark.parametrize("after", [0, 1, 2, 5, 9, 14])
@pytest.mark.parametrize(("operation", "number"), FAILURES)
def test_a_failing_disk_leaves_a_log_that_verifies_and_a_writer_that_refuses(
    tmp_path: Path, operation: str, number: int, after: int
) -> None:
    log = new_log(tmp_path)
    acknowledged, head = force_failure(log, FaultyDisk(), operation, number, after)
    verdict = log.verdict()

    assert verdict.verdict in {VerdictName.OK, VerdictName.TORN_TAIL}, verdict.to_json()
    assert verdict.proven_to is not None
    assert head <= verdict.proven_to
    with log.writer() as again:
        write_events(again, 1, first=1000)
    kept = [event["fields"]["number"] for _, event in read_events(log.directory, log.secrets.audit_sk)]  # type: ignore[index, call-overload]  # a test reads its own events

    assert acknowledged == kept[: len(acknowledged)]
    assert 1000 == kept[-1]
    assert VerdictName.OK == log.verdict().verdict


def test_the_head_does_not_move_before_the_sync_has_returned(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    disk, seen = FaultyDisk(), list[tuple[int, str]]()
    writer = log.open(disk=disk)
    before = writer.head
    disk.before_sync = lambda: seen.append(writer.head)
    receipt = writer.append_blocking(an_event(1))
    disk.before_sync = lambda: None
    writer.close()

    assert before == seen[0]
    assert before[0] < receipt.seq


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize(("operation", "number"), FAILURES)
def test_a_takeover_that_the_disk_fails_leaves_a_log_that_can_be_taken_over_again(
    tmp_path: Path, operation: str, number: int, after: int
) -> None:
    log, disk = new_log(tmp_path), FaultyDisk()
    with log.writer() as writer:
        write_events(writer, 9)
    path = log.segments()[-1]
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    writer = log.open(disk=disk)
    disk.fail(operation, number, after=after)
    with suppress(AuditError):
        writer.readopt_blocking(log.root)
        write_events(writer, 3, first=100)
    disk.operation = ""
    if writer.suspended is not None:
        writer.readopt_blocking(log.root)
    writer.close()
    with log.writer() as again:
        assert (None, None, True) == (again.suspended, again.poisoned, again.endorsed)
        write_events(again, 1, first=1000)
    kept = [event["fields"]["number"] for _, event in read_events(log.directory, log.secrets.audit_sk, start_seq=30)]  # type: ignore[index, call-overload]  # a test reads its own events

    assert bytes(content[1900:2100]) in b"".join(file.read_bytes() for file in log.directory.iterdir())
    assert 1000 == kept[-1]

"""Audit state advances only after the sync; a failing disk leaves a log that verifies and a writer that refuses."""

import errno
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
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
        for event in range(60):
            writer.append_blocking(an_event(event))
            acknowledged.append(event)
            if event % 7 == 6:
                writer.new_epoch_blocking(EpochReason.LOCK)
    except AuditError:
        pass
    head, _ = writer.head
    with pytest.raises(AuditError, match="start the daemon again"):
        writer.append_blocking(an_event(99))

    assert (head, False) == (writer.head[0], writer.room())
    writer.close()
    return acknowledged, head


@pytest.mark.parametrize("after", [0, 1, 5])
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

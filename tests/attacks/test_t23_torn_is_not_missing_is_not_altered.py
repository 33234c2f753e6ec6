"""T23: a torn tail, a missing segment and an altered record have their own names; recovery appends, never rewrites."""

from pathlib import Path

import pytest

from broker.audit.ladder import in_file
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from broker.audit.verify import verify
from tests.fakes.forger import EVENT, records_of
from tests.fakes.logs import SmallLog, new_log, write_events


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 60)
    return made


def tear(log: SmallLog) -> None:
    path = log.segments()[-1]
    path.write_bytes(path.read_bytes() + bytes([0, 0, 0]))


def lose(log: SmallLog) -> None:
    log.segments()[1].unlink()


def alter(log: SmallLog) -> None:
    path = log.segments()[1]
    record = next(record for record in records_of(path) if record.kind == EVENT)
    content = bytearray(path.read_bytes())
    content[record.offset + 25] ^= 0x20
    path.write_bytes(content)


def shorten(log: SmallLog) -> None:
    path = log.segments()[-1]
    path.write_bytes(path.read_bytes()[:-200])


def test_four_ways_to_suffer_have_four_names(log: SmallLog) -> None:
    content = {path: path.read_bytes() for path in log.segments()}
    verdicts = []
    for suffer in (tear, lose, alter, shorten):
        suffer(log)
        verdicts.append(log.verdict().verdict)
        for path, original in content.items():
            path.write_bytes(original)

    assert [VerdictName.TORN_TAIL, VerdictName.GAP, VerdictName.ALTERED, VerdictName.TRUNCATED] == verdicts


def test_recovery_keeps_every_byte_that_was_there(log: SmallLog) -> None:
    tear(log)
    before = {path: path.read_bytes() for path in log.segments()}
    with log.writer() as writer:
        write_events(writer, 3)
    torn = b"".join(path.read_bytes() for path in log.directory.glob("*.torn"))
    for path, content in before.items():
        kept = content[: -len(torn)] if path == list(before)[-1] else content

        assert path.read_bytes().startswith(kept)
    assert bytes([0, 0, 0]) == torn
    assert VerdictName.OK == log.verdict().verdict


def test_a_write_torn_at_any_byte_is_a_torn_tail_and_nothing_before_it_is_touched(log: SmallLog) -> None:
    """The anchor is that of the group before: the torn one was never acknowledged."""
    with log.writer() as writer:
        write_events(writer, 2)
        acknowledged, path = log.anchor, log.segments()[-1]
        before = path.stat().st_size
        write_events(writer, 1)
        group = path.read_bytes()
    path = next(path for path in log.segments() if path.read_bytes().startswith(group))
    for later in log.segments():
        if later.name > path.name:
            later.unlink()
    ends = {record.end for record in records_of(path)}
    for size in range(before + 1, len(group)):
        path.write_bytes(group[:size])
        verdict = verify(log.directory, pin=log.pin, anchors=in_file(acknowledged))
        expected = VerdictName.TORN_OR_TAMPERED if size in ends else VerdictName.TORN_TAIL  # a whole record, unsigned

        assert (expected, acknowledged.seq) == (verdict.verdict, verdict.proven_to), verdict.to_json()
        assert (before, acknowledged.seq + 1) == (verdict.offset, verdict.seq)
        alone = verify(log.directory, pin=log.pin)
        assert VerdictName.TORN_OR_TAMPERED is alone.verdict, alone.to_json()


def test_a_lost_seed_is_told_from_all_three(log: SmallLog) -> None:
    """What was written while nobody vouched for the key is named, and is whole once the root took it over."""
    for path in log.paths.seeds.iterdir():
        path.unlink()
    with log.writer() as writer:
        write_events(writer, 3)
        began = log.verdict()
        writer.new_epoch_blocking(EpochReason.UNLOCK, log.root)
        taken_over = log.verdict()

    assert (VerdictName.FORGED_SIGNATURE, True) == (began.verdict, "nobody endorses" in began.note)
    assert (VerdictName.OK, True) == (taken_over.verdict, f"records {began.seq} to" in taken_over.note)

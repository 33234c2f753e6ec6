import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit import AuditError
from broker.audit.disk import LocalDisk
from broker.audit.epoch import FileSeeds, new_epoch_key
from broker.audit.payload import MAX_HEAD_BYTES, Endorser, consistent_head
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from tests.fakes.forger import COMMIT, EPOCH, EVENT, RECOVERY, SEGMENT, Forger, Raw, records_of
from tests.fakes.logs import SMALL, SmallLog, new_log, write_events

LARGE = replace(SMALL, segment_bytes=1 << 20)


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    """Three files, the last with some events, cleanly ended."""
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 45)
    assert len(made.segments()) == 3
    return made


def records(log: SmallLog) -> list[Raw]:
    return [record for path in log.segments() for record in records_of(path)]


def of_last(log: SmallLog, kind: int) -> list[Raw]:
    return [record for record in records_of(log.segments()[-1]) if record.kind == kind]


def flip(record: Raw, at: int = 30) -> None:
    content = bytearray(record.file.read_bytes())
    content[record.offset + at] ^= 1
    record.file.write_bytes(content)


def bytes_kept(log: SmallLog) -> dict[str, bytes]:
    """What every file of the log held, with torn bytes put back where they were cut."""
    kept = {path.name: path.read_bytes() for path in log.segments()}
    for path in log.directory.glob("*.torn"):
        number, offset = path.name.split(".")[:2]
        name = f"{number}.seg"
        kept[name] = kept.get(name, b"")[: int(offset)] + path.read_bytes()
    return kept


def take_over(log: SmallLog, verdict: VerdictName) -> list[Raw]:
    """The records that stand after a human took over, from the root's EPOCH on. Nothing of what was there is lost."""
    before = {path.name: path.read_bytes() for path in log.segments()}
    writer = log.open(limits=LARGE)
    suspended = writer.suspended
    writer.readopt_blocking(log.root)
    state = (writer.suspended, writer.endorsed, writer.room(), writer.poisoned)
    write_events(writer, 3, first=1000)
    writer.new_epoch_blocking(EpochReason.LOCK)
    writer.close()
    with log.writer(limits=LARGE) as again:
        assert again.suspended is None
        write_events(again, 1, first=1003)
    kept = bytes_kept(log)

    assert suspended is not None
    assert verdict == suspended.verdict
    assert (None, True, True, None) == state
    assert all(kept[name].startswith(content) for name, content in before.items() if name in kept)
    last = records_of(log.segments()[-1])
    at = max(index for index, record in enumerate(last) if record.kind == EPOCH and record.payload[0] == Endorser.ROOT)
    assert 4 == sum(record.kind == EVENT for record in last[at:])
    return last[max(0, at - 1) :]


def test_an_altered_record_with_whole_ones_behind_it_stays_and_the_log_goes_on_in_the_next_file(log: SmallLog) -> None:
    bad = of_last(log, EVENT)[1]
    highest = records(log)[-1].seq
    flip(bad)
    after = take_over(log, VerdictName.ALTERED)
    head = consistent_head(log.segments()[-1].read_bytes()[:MAX_HEAD_BYTES])
    verdict = log.verdict()

    assert 4 == len(log.segments())
    assert [SEGMENT, EPOCH] == [record.kind for record in after[:2]]
    assert head is not None
    assert highest + 1 == head.seq == after[0].seq
    assert (VerdictName.ALTERED, bad.seq, bad.offset) == (verdict.verdict, verdict.seq, verdict.offset)
    assert [] == list(log.directory.glob("*.torn"))


def test_a_broken_end_goes_into_a_file_beside_and_is_told(log: SmallLog) -> None:
    commit = of_last(log, COMMIT)[-1]
    flip(commit)
    after = take_over(log, VerdictName.ALTERED)

    assert 3 == len(log.segments())
    assert [RECOVERY, EPOCH] == [record.kind for record in after[:2]]
    assert 1 == len(list(log.directory.glob("*.torn")))
    assert VerdictName.OK == log.verdict().verdict


def test_garbage_at_the_end_goes_into_a_file_beside(log: SmallLog) -> None:
    with log.segments()[-1].open("ab") as file:
        file.write(os.urandom(5000))
    take_over(log, VerdictName.ALTERED)

    assert VerdictName.OK == log.verdict().verdict


def test_a_log_behind_its_anchor_goes_on_where_it_ends(log: SmallLog) -> None:
    commit = of_last(log, COMMIT)[1]
    os.truncate(commit.file, commit.end)
    after = take_over(log, VerdictName.TRUNCATED)

    assert commit.seq + 1 == after[1].seq
    assert VerdictName.OK == log.verdict().verdict  # what went before its new anchor, only older anchors know


def test_a_missing_last_file_is_no_hindrance(log: SmallLog) -> None:
    log.segments()[-1].unlink()
    take_over(log, VerdictName.TRUNCATED)

    assert VerdictName.OK == log.verdict().verdict


def test_what_is_wrong_with_an_earlier_file_is_the_verifiers_business(log: SmallLog) -> None:
    log.segments()[0].unlink()
    with log.writer() as writer:
        assert writer.suspended is None
        write_events(writer, 3)

    assert VerdictName.GAP == log.verdict().verdict


def test_a_key_of_another_epoch_is_given_up_for_the_next(log: SmallLog) -> None:
    seeds = FileSeeds(log.paths.seeds, bytes.fromhex(log.pin.log_id), LocalDisk())
    number = seeds.held()[0].number
    seeds.keep(new_epoch_key(number + 7))
    seeds.destroy_all_but(number + 7)
    after = take_over(log, VerdictName.ROLLBACK)

    assert number + 1 == after[1].epoch
    assert 1 == len(seeds.held())
    assert VerdictName.OK == log.verdict().verdict


def test_a_forged_end_is_not_cut(log: SmallLog, tmp_path: Path) -> None:
    forger = Forger(log.directory, tmp_path / "forged", pin=log.pin, anchor=log.anchor)
    victim = of_last(log, EVENT)[-1].seq

    def spoil(record: Raw) -> Raw:
        return replace(record, payload=bytes(len(record.payload))) if record.seq == victim else record

    forger.rechain(spoil)
    shutil.copy(forger.files[-1], log.segments()[-1])
    after = take_over(log, VerdictName.FORGED_SIGNATURE)

    assert SEGMENT == after[0].kind
    assert VerdictName.FORGED_SIGNATURE == log.verdict().verdict


def garbage(log: SmallLog) -> None:
    path = log.segments()[-1]
    path.write_bytes(os.urandom(path.stat().st_size))


def foreign_head(log: SmallLog) -> None:
    content = log.segments()[-1].read_bytes()
    log.segments()[-1].write_bytes(content[:30] + bytes([content[30] ^ 1]) + content[31:])


@pytest.mark.parametrize("spoil", [garbage, foreign_head])
def test_a_file_whose_beginning_is_lost_is_left_and_the_log_goes_on_behind_it(
    log: SmallLog, spoil: Callable[[SmallLog], None]
) -> None:
    highest = log.anchor.seq
    spoil(log)
    after = take_over(log, VerdictName.ALTERED)

    assert 4 == len(log.segments())
    assert highest + 1 == after[0].seq
    assert VerdictName.ALTERED == log.verdict().verdict


def test_where_every_file_is_gone_the_anchor_says_where_to_go_on(log: SmallLog) -> None:
    highest = log.anchor.seq
    for path in log.segments():
        path.unlink()
    after = take_over(log, VerdictName.EMPTY_OR_MISSING)

    assert highest + 1 == after[0].seq
    assert ["00000004.seg"] == [path.name for path in log.segments()]
    assert VerdictName.GAP == log.verdict().verdict


def test_where_the_anchor_is_gone_too_there_is_nothing_to_go_on_from(log: SmallLog) -> None:
    for path in log.segments():
        path.unlink()
    log.paths.anchor.unlink()
    writer = log.open()
    with pytest.raises(AuditError, match="restore it") as caught:
        writer.readopt_blocking(log.root)
    suspended = writer.suspended
    writer.close()

    assert VerdictName.EMPTY_OR_MISSING == caught.value.verdict
    assert suspended is not None


def test_an_anchor_of_another_log_is_written_anew(log: SmallLog) -> None:
    replace(log.anchor, log_id="00" * 8).save(log.paths.anchor)
    take_over(log, VerdictName.WRONG_LOG)

    assert VerdictName.OK == log.verdict().verdict


def test_what_only_a_human_can_move_is_moved_first(log: SmallLog) -> None:
    note = log.directory / "note.txt"
    note.write_text("hello")
    writer = log.open()
    with pytest.raises(AuditError, match="move it away") as caught:
        writer.readopt_blocking(log.root)
    note.unlink()
    writer.readopt_blocking(log.root)
    write_events(writer, 1)
    writer.close()

    assert VerdictName.UNREADABLE == caught.value.verdict
    assert VerdictName.OK == log.verdict().verdict


def test_another_root_takes_nothing_over(log: SmallLog) -> None:
    flip(of_last(log, EVENT)[1])
    writer = log.open()
    with pytest.raises(AuditError, match="root key"):
        writer.readopt_blocking(Ed25519PrivateKey.generate().sign)
    suspended = writer.suspended
    writer.readopt_blocking(log.root)
    writer.close()

    assert suspended is not None
    assert writer.suspended is None


def test_a_takeover_that_died_half_way_can_be_made_again(log: SmallLog) -> None:
    flip(of_last(log, EVENT)[1])
    number = len(log.segments()) + 1
    (log.directory / f"{number:08d}.seg").touch(mode=0o600)
    writer = log.open()
    suspended = writer.suspended
    writer.readopt_blocking(log.root)
    write_events(writer, 1)
    writer.close()

    assert suspended is not None
    assert VerdictName.ALTERED == suspended.verdict == log.verdict().verdict

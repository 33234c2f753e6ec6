import hashlib
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.disk import LocalDisk
from broker.audit.epoch import FileSeeds, new_epoch_key
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from tests.fakes.forger import COMMIT, EVENT, RECOVERY, Raw, records_of
from tests.fakes.logs import SMALL, SmallLog, new_log, paths_in, write_events


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    made = new_log(tmp_path / "first")
    writer = made.open()
    write_events(writer, 5)
    copy = Path(shutil.copytree(made.base, tmp_path / "killed"))  # as a killed writer leaves it: no END
    writer.close()
    return replace(made, base=copy, paths=paths_in(copy))


def records(log: SmallLog) -> list[Raw]:
    return [record for path in log.segments() for record in records_of(path)]


def append(log: SmallLog, content: bytes) -> Path:
    path = log.segments()[-1]
    with path.open("ab") as file:
        file.write(content)
    return path


def next_header(log: SmallLog, kind: int = EVENT, payload_bytes: int = 80) -> bytes:
    last = records(log)[-1]
    return replace(last, kind=kind, seq=last.seq + 1, payload=bytes(payload_bytes)).header()


def count(log: SmallLog) -> int:
    return sum(1 for _ in read_events(log.directory, log.secrets.audit_sk))


def test_a_log_without_an_end_is_taken_up_as_it_is(log: SmallLog) -> None:
    with log.writer() as writer:
        assert writer.recovered is None

    assert VerdictName.OK == log.verdict().verdict


def torn_frame(log: SmallLog) -> bytes:
    return next_header(log) + b"half of what was sealed"


def torn_header(log: SmallLog) -> bytes:
    return next_header(log)[:9]


def zeros(_: SmallLog) -> bytes:
    return bytes(300)


def unsigned_event(log: SmallLog) -> bytes:
    front = next_header(log) + bytes(80)
    return front + hashlib.sha256(records(log)[-1].hash + front).digest()


def unsigned_event_and_half_a_commit(log: SmallLog) -> bytes:
    return unsigned_event(log) + struct.pack(">I", 80)


@pytest.mark.parametrize("leave", [torn_frame, torn_header, zeros, unsigned_event, unsigned_event_and_half_a_commit])
def test_a_torn_tail_is_kept_beside_cut_off_and_told(log: SmallLog, leave: Callable[[SmallLog], bytes]) -> None:
    tail = leave(log)
    before = log.segments()[-1].read_bytes()
    append(log, tail)
    with log.writer() as writer:
        told, cut = writer.recovered, writer.recovery
        write_events(writer, 2)
    kept = list(log.directory.glob("*.torn"))
    recovery = next(record for record in records(log) if record.kind == RECOVERY)
    after = log.segments()[-1].read_bytes()

    assert told is not None
    assert str(len(tail)) in told
    assert cut is not None
    assert (1, len(before), len(tail)) == (cut.segment, cut.offset, cut.cut_bytes)
    assert [tail] == [path.read_bytes() for path in kept]
    assert before == after[: len(before)]
    assert recovery.offset == len(before)
    assert struct.pack(">IIQQ", 1, 0, len(before), len(tail)) == recovery.payload[:24]
    assert hashlib.sha256(tail).digest() == recovery.payload[24:56]
    assert VerdictName.OK == log.verdict().verdict
    assert "1 recovered" in log.verdict().note
    assert 7 == count(log)


def test_a_tail_that_was_cut_before_anybody_could_say_so_is_told_by_the_next_writer(log: SmallLog) -> None:
    size = log.segments()[-1].stat().st_size
    (log.directory / f"00000001.{size}.torn").write_bytes(b"was cut off")
    with log.writer() as writer:
        assert writer.recovered is not None

    assert [RECOVERY] == [record.kind for record in records(log) if record.kind == RECOVERY]
    assert VerdictName.OK == log.verdict().verdict


@pytest.mark.parametrize("number", ["", ".7"])
def test_an_empty_file_of_torn_bytes_tells_of_nothing_that_was_cut(log: SmallLog, number: str) -> None:
    size = log.segments()[-1].stat().st_size
    (log.directory / f"00000001.{size}{number}.torn").touch(0o600)
    with log.writer() as writer:
        told = (writer.recovered, writer.recovery)

    assert (None, None) == told
    assert [] == [record for record in records(log) if record.kind == RECOVERY]
    assert VerdictName.OK == log.verdict().verdict


def test_an_empty_file_hides_no_bytes_that_were_cut(log: SmallLog) -> None:
    size = log.segments()[-1].stat().st_size
    (log.directory / f"00000001.{size}.torn").write_bytes(b"was cut off")
    (log.directory / f"00000001.{size}.7.torn").touch(0o600)
    with log.writer() as writer:
        assert writer.recovery is not None
        assert len(b"was cut off") == writer.recovery.cut_bytes


def test_two_tears_at_the_same_place_are_both_kept(log: SmallLog) -> None:
    size = log.segments()[-1].stat().st_size
    (log.directory / f"00000001.{size}.torn").write_bytes(b"the first")
    append(log, zeros(log))
    with log.writer():
        pass

    assert {b"the first", bytes(300)} == {path.read_bytes() for path in log.directory.glob("*.torn")}
    assert VerdictName.OK == log.verdict().verdict


@pytest.mark.parametrize("content", [b"", b"\0\0\1"])
def test_a_segment_that_never_got_its_first_group_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    log = new_log(tmp_path)
    tiny = replace(SMALL, segment_bytes=3000)
    writer = log.open(limits=tiny)
    while log.segments()[-1].stat().st_size < tiny.segment_bytes:
        write_events(writer, 1)
    copy = replace(log, base=tmp_path / "killed", paths=paths_in(tmp_path / "killed"))
    shutil.copytree(log.base / "data", copy.base / "data")
    shutil.copytree(log.base / "anchor", copy.base / "anchor")
    writer.close()
    number = len(copy.segments()) + 1
    (copy.directory / f"{number:08d}.seg").write_bytes(content)
    (copy.directory / f"{number:08d}.seg").chmod(0o600)

    assert VerdictName.TORN_TAIL == copy.verdict().verdict
    with copy.writer(limits=tiny) as again:
        assert bool(content) == (again.recovered is not None)  # of an empty file nothing was cut
        write_events(again, 3)
    with copy.writer(limits=tiny) as once_more:
        assert once_more.recovered is None
    assert VerdictName.OK == copy.verdict().verdict


def test_a_last_frame_with_a_wrong_hash_beyond_the_anchor_is_cut_too(log: SmallLog) -> None:
    append(log, next_header(log) + bytes(80) + bytes(32))

    assert VerdictName.TORN_OR_TAMPERED == log.verdict().verdict
    with log.writer() as writer:
        assert writer.recovered is not None
    assert VerdictName.OK == log.verdict().verdict


# What is not a torn tail is never repaired


def expect(log: SmallLog, verdict: VerdictName) -> None:
    """A writer that is there and takes nothing, and a log of which no byte has changed."""
    before = {path: path.read_bytes() for path in log.base.rglob("*") if path.is_file()}
    writer = log.open()
    suspended = writer.suspended
    with pytest.raises(AuditError, match="until a human takes it over") as caught:
        write_events(writer, 1)
    with pytest.raises(AuditError, match="until a human takes it over"):
        writer.new_epoch_blocking(EpochReason.LOCK)
    state = (writer.room(), writer.endorsed, writer.poisoned, writer.head)
    writer.close()

    assert suspended is not None
    assert verdict == suspended.verdict == caught.value.verdict
    assert (False, False, None, (-1, "")) == state
    assert before == {path: path.read_bytes() for path in log.base.rglob("*") if path.is_file()}


def test_an_altered_record_keeps_the_writer_out(log: SmallLog) -> None:
    record = next(record for record in records(log) if record.kind == EVENT)
    content = bytearray(record.file.read_bytes())
    content[record.offset + 30] ^= 1
    record.file.write_bytes(content)

    expect(log, VerdictName.ALTERED)


def test_a_log_behind_its_anchor_keeps_the_writer_out(log: SmallLog) -> None:
    commits = [record for record in records(log) if record.kind == COMMIT]
    os.truncate(commits[-2].file, commits[-2].end)

    expect(log, VerdictName.TRUNCATED)


def test_a_torn_tail_behind_the_anchor_is_not_cut(log: SmallLog) -> None:
    last = records(log)[-1]
    os.truncate(last.file, last.end - 10)

    expect(log, VerdictName.TRUNCATED)


def test_another_anchored_hash_keeps_the_writer_out(log: SmallLog) -> None:
    replace(log.anchor, head="00" * 32).save(log.paths.anchor)

    expect(log, VerdictName.ROLLBACK)


def test_an_anchor_of_another_log_keeps_the_writer_out(log: SmallLog) -> None:
    replace(log.anchor, log_id="00" * 8).save(log.paths.anchor)

    expect(log, VerdictName.WRONG_LOG)


def test_a_pin_of_another_log_keeps_the_writer_out(log: SmallLog) -> None:
    replace(log.pin, root_key="00" * 32).save(log.paths.pin)

    expect(log, VerdictName.WRONG_LOG)


def test_a_foreign_file_keeps_the_writer_out(log: SmallLog) -> None:
    (log.directory / "note.txt").write_text("hello")

    expect(log, VerdictName.UNREADABLE)


def test_an_empty_directory_keeps_the_writer_out(log: SmallLog) -> None:
    for path in log.directory.iterdir():
        path.unlink()

    expect(log, VerdictName.EMPTY_OR_MISSING)


def test_a_segment_under_another_number_keeps_the_writer_out(log: SmallLog) -> None:
    log.segments()[0].rename(log.directory / "00000002.seg")

    expect(log, VerdictName.ALTERED)


def test_a_later_segment_that_is_not_ours_keeps_the_writer_out(log: SmallLog) -> None:
    (log.directory / "00000002.seg").write_bytes(os.urandom(20000))
    (log.directory / "00000002.seg").chmod(0o600)

    expect(log, VerdictName.ALTERED)


def test_a_segment_with_a_second_name_keeps_the_writer_out(log: SmallLog) -> None:
    os.link(log.segments()[0], log.base / "second")

    expect(log, VerdictName.UNREADABLE)


@pytest.mark.parametrize("which", ["directory", "segment"])
def test_places_open_to_others_keep_the_writer_out(log: SmallLog, which: str) -> None:
    path = log.directory if which == "directory" else log.segments()[-1]
    path.chmod(path.stat().st_mode | 0o040)

    with pytest.raises(AuditError, match="open to others"):
        log.open()


def test_a_symlink_for_the_directory_keeps_the_writer_out(log: SmallLog) -> None:
    log.directory.rename(log.base / "real")
    log.directory.symlink_to(log.base / "real")

    with pytest.raises(AuditError, match="can't be opened"):
        log.open()


def test_the_end_is_anchored_again_where_the_anchor_was_missing(log: SmallLog) -> None:
    log.paths.anchor.unlink()
    with log.writer() as writer:
        assert "anchor" in (writer.recovered or "")
        write_events(writer, 1)

    assert VerdictName.OK == log.verdict().verdict


def test_a_damaged_anchor_is_made_anew_and_told(log: SmallLog) -> None:
    log.paths.anchor.write_bytes(b"{}")
    with log.writer() as writer:
        assert "made anew" in (writer.recovered or "")

    assert VerdictName.OK == log.verdict().verdict


def test_an_anchor_that_lags_behind_in_an_earlier_segment_is_checked_there(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    writer = log.open()
    write_events(writer, 5)
    lagging = log.anchor
    write_events(writer, 40)
    writer.close()
    lagging.save(log.paths.anchor)
    with log.writer() as again:
        assert again.recovered is None
    replace(lagging, head="11" * 32).save(log.paths.anchor)

    expect(log, VerdictName.ROLLBACK)


# Seeds


def seeds(log: SmallLog) -> FileSeeds:
    return FileSeeds(log.paths.seeds, bytes.fromhex(log.pin.log_id), LocalDisk())


def test_a_key_of_a_later_epoch_than_the_tail_is_a_rollback(log: SmallLog) -> None:
    held = seeds(log).held()[0]
    seeds(log).keep(new_epoch_key(held.number + 1))
    seeds(log).destroy_all_but(held.number + 1)

    expect(log, VerdictName.ROLLBACK)


def test_a_seed_kept_for_an_epoch_that_was_never_written_is_destroyed(log: SmallLog) -> None:
    held = seeds(log).held()[0]
    seeds(log).keep(new_epoch_key(held.number + 1))
    with log.writer():
        assert [held.number + 1] == [key.number for key in seeds(log).held()]

    assert VerdictName.OK == log.verdict().verdict


def test_a_seed_of_another_log_is_refused(log: SmallLog, tmp_path: Path) -> None:
    other = new_log(tmp_path / "other")
    for path in log.paths.seeds.iterdir():
        path.unlink()
    for path in other.paths.seeds.iterdir():
        shutil.copy(path, log.paths.seeds)

    with pytest.raises(AuditError, match="not a seed of this log"):
        log.open()


def test_a_seed_under_another_number_is_refused(log: SmallLog) -> None:
    path = next(log.paths.seeds.iterdir())
    path.rename(log.paths.seeds / "0000000099.seed")

    with pytest.raises(AuditError, match="another epoch"):
        log.open()

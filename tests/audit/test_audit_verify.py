import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.audit.checkpoint import origin_of, parse_note, signature_line
from broker.audit.ladder import in_file
from broker.audit.pin import Pin
from broker.audit.segment import SegmentFile
from broker.audit.verdict import EXIT_CODES, Rung, VerdictName
from broker.audit.verify import verify
from tests.fakes.forger import CHECKPOINT, COMMIT, records_of
from tests.fakes.logs import SMALL, SmallLog, new_log, write_events

KEYS = {"verdict", "rung", "pinned", "live", "segment", "offset", "seq", "proven_to", "records", "note"}


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 30)
    return made


def test_a_whole_log_is_proven_to_its_last_record(log: SmallLog) -> None:
    last = records_of(log.segments()[-1])[-1]
    verdict = log.verdict()

    assert {
        "verdict": "OK",
        "rung": "file",
        "pinned": True,
        "live": False,
        "segment": log.segments()[-1].name,
        "offset": last.end,
        "seq": last.seq,
        "proven_to": last.seq,
        "records": last.seq + 1,
        "note": f"whole to record {last.seq}",
    } == verdict.to_json()
    assert 0 == verdict.exit_code


def test_every_verdict_has_an_exit_code_of_its_own() -> None:
    assert set(VerdictName) == set(EXIT_CODES)
    assert [0, *range(40, 52)] == sorted(EXIT_CODES.values())


def test_an_unanchored_log_is_never_plain_ok(log: SmallLog) -> None:
    verdict = log.verdict(anchored=False)

    assert (VerdictName.OK_UNANCHORED, Rung.NONE, 40) == (verdict.verdict, verdict.rung, verdict.exit_code)


def test_without_a_pin_the_log_speaks_for_itself_and_that_is_said(log: SmallLog) -> None:
    verdict = verify(log.directory, pin=None)

    assert (VerdictName.OK_UNANCHORED, False) == (verdict.verdict, verdict.pinned)


def test_beside_a_running_writer_it_goes_to_the_last_commit(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 3)
        last = log.segments()[-1]
        with last.open("ab") as file:
            file.write(bytes([0, 0, 1]))  # the next write has begun
        verdict = log.verdict()
        os.truncate(last, last.stat().st_size - 3)

    assert (VerdictName.OK, True) == (verdict.verdict, verdict.live)


def test_progress_reaches_the_whole(log: SmallLog) -> None:
    told: list[tuple[int, int]] = []
    verify(log.directory, pin=log.pin, progress=lambda *both: told.append(both))
    total = sum(path.stat().st_size for path in log.segments())

    assert (total, total) == told[-1]
    assert told == sorted(told)


def test_files_may_be_named_one_by_one(log: SmallLog) -> None:
    verdict = verify(log.segments()[::-1], pin=log.pin, anchors=in_file(log.anchor))

    assert VerdictName.OK == verdict.verdict


def test_a_file_that_is_given_twice_is_told(log: SmallLog) -> None:
    files = [log.segments()[0], *log.segments()]

    assert VerdictName.REORDERED == verify(files, pin=log.pin).verdict


def test_a_later_file_alone_is_no_log(log: SmallLog) -> None:
    assert VerdictName.GAP == verify(log.segments()[1], pin=log.pin).verdict


def test_the_log_is_not_changed_by_looking(log: SmallLog) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.base.rglob("*") if path.is_file()}
    log.verdict()

    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in log.base.rglob("*") if path.is_file()
    }


def test_looking_needs_no_right_to_write(log: SmallLog) -> None:
    for path in (*log.segments(), log.directory):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert VerdictName.OK == log.verdict().verdict
    finally:
        log.directory.chmod(0o700)


# Checkpoints kept elsewhere


def checkpoint_of(log: SmallLog) -> bytes:
    return next(record for path in log.segments() for record in records_of(path) if record.kind == CHECKPOINT).payload


def test_a_checkpoint_kept_elsewhere_is_the_highest_rung(log: SmallLog) -> None:
    verdict = log.verdict(checkpoint=checkpoint_of(log))

    assert (VerdictName.OK, Rung.OUTSIDE) == (verdict.verdict, verdict.rung)
    assert VerdictName.OK == log.verdict(anchored=False, checkpoint=checkpoint_of(log)).verdict


def test_a_log_shorter_than_a_checkpoint_is_truncated(log: SmallLog, tmp_path: Path) -> None:
    shutil.copytree(log.directory, tmp_path / "old")
    with log.writer() as writer:
        write_events(writer, 12)
    newest = [record for record in records_of(log.segments()[-1]) if record.kind == CHECKPOINT][-1].payload
    verdict = verify(tmp_path / "old", pin=log.pin, checkpoint=newest)

    assert VerdictName.TRUNCATED == verdict.verdict


def test_a_checkpoint_with_another_root_is_a_rollback(log: SmallLog) -> None:
    lines = checkpoint_of(log).split(b"\n")
    lines[2] = b"A" * 43 + b"="

    assert VerdictName.ROLLBACK == log.verdict(checkpoint=b"\n".join(lines)).verdict


def test_a_checkpoint_that_no_key_of_the_log_signed_proves_nothing(log: SmallLog) -> None:
    body = checkpoint_of(log).split(b"\n\n")[0] + b"\n"
    stranger = body + b"\n" + signature_line("stranger", bytes(32), body, lambda _: bytes(64))

    assert VerdictName.FORGED_SIGNATURE == log.verdict(checkpoint=stranger).verdict


def test_a_line_of_a_key_that_we_do_not_know_is_ignored(log: SmallLog) -> None:
    witnessed = checkpoint_of(log) + signature_line("witness.example/w1", bytes(32), b"", lambda _: bytes(64))

    assert VerdictName.OK == log.verdict(checkpoint=witnessed).verdict


def test_a_false_line_of_the_root_key_outweighs_a_true_one(log: SmallLog) -> None:
    root = bytes.fromhex(log.pin.root_key)
    name = origin_of(bytes.fromhex(log.pin.log_id))
    spoiled = checkpoint_of(log) + signature_line(name, root, b"", lambda _: bytes(64))

    assert VerdictName.FORGED_SIGNATURE == log.verdict(checkpoint=spoiled).verdict


def test_a_checkpoint_of_another_log_is_said_so(log: SmallLog, tmp_path: Path) -> None:
    other = new_log(tmp_path / "other")
    with other.writer() as writer:
        write_events(writer, 12)

    assert VerdictName.WRONG_LOG == log.verdict(checkpoint=checkpoint_of(other)).verdict


def test_a_checkpoint_that_is_none_is_unreadable(log: SmallLog) -> None:
    assert parse_note(b"hello") is None
    assert VerdictName.UNREADABLE == log.verdict(checkpoint=b"hello").verdict


# Places where no log is


def missing(place: Path) -> Path:
    return place / "nowhere"


def empty(place: Path) -> Path:
    (place / "empty").mkdir()
    return place / "empty"


def one_empty_segment(place: Path) -> Path:
    (place / "dir").mkdir()
    (place / "dir" / "00000001.seg").touch()
    return place / "dir"


def fifo(place: Path) -> Path:
    os.mkfifo(place / "fifo")
    return place / "fifo"


def fifo_named_segment(place: Path) -> Path:
    os.mkfifo(place / "00000001.seg")
    return place / "00000001.seg"


def foreign_file(place: Path) -> Path:
    (place / "notes.txt").write_text("hello")
    return place / "notes.txt"


def foreign_directory(place: Path) -> Path:
    (place / "home").mkdir()
    (place / "home" / "notes.txt").write_text("hello")
    return place / "home"


def text_named_segment(place: Path) -> Path:
    (place / "dir").mkdir()
    (place / "dir" / "00000001.seg").write_text("hello")
    return place / "dir"


def symlink_to_segment(place: Path) -> Path:
    (place / "dir").mkdir()
    (place / "dir" / "00000001.seg").symlink_to("/etc/hostname")
    return place / "dir"


def dangling_symlink(place: Path) -> Path:
    (place / "gone").symlink_to(place / "nowhere")
    return place / "gone"


def symlink_loop(place: Path) -> Path:
    (place / "loop").symlink_to(place / "loop")
    return place / "loop"


def device(_: Path) -> Path:
    return Path("/dev/zero")


def name_with_nul(_: Path) -> Path:
    return Path("a\0b")


def part_of_a_record(place: Path) -> Path:
    (place / "dir").mkdir()
    log = new_log(place / "log")
    (place / "dir" / "00000001.seg").write_bytes(log.segments()[0].read_bytes()[:100])
    return place / "dir"


def whole_first_record_cut(place: Path) -> Path:
    (place / "dir").mkdir()
    log = new_log(place / "log")
    content = bytearray(log.segments()[0].read_bytes())
    content[60] ^= 1
    (place / "dir" / "00000001.seg").write_bytes(content)
    return place / "dir"


@pytest.mark.parametrize(
    ("lay", "expected"),
    [
        (missing, VerdictName.EMPTY_OR_MISSING),
        (empty, VerdictName.EMPTY_OR_MISSING),
        (one_empty_segment, VerdictName.EMPTY_OR_MISSING),
        (dangling_symlink, VerdictName.EMPTY_OR_MISSING),
        (fifo, VerdictName.UNREADABLE),
        (fifo_named_segment, VerdictName.UNREADABLE),
        (foreign_file, VerdictName.UNREADABLE),
        (foreign_directory, VerdictName.UNREADABLE),
        (text_named_segment, VerdictName.UNREADABLE),
        (symlink_to_segment, VerdictName.UNREADABLE),
        (symlink_loop, VerdictName.UNREADABLE),
        (device, VerdictName.UNREADABLE),
        (name_with_nul, VerdictName.UNREADABLE),
        (part_of_a_record, VerdictName.TORN_OR_TAMPERED),
        (whole_first_record_cut, VerdictName.ALTERED),
    ],
)
@pytest.mark.parametrize("pinned", [True, False])
def test_hostile_places_get_a_verdict_and_no_traceback(
    tmp_path: Path,
    lay: Callable[[Path], Path],
    expected: VerdictName,
    pinned: bool,  # noqa: FBT001 - a table
) -> None:
    place = lay(tmp_path)
    known = tmp_path / "log" / "data" / "audit.pin"
    pin = Pin.load(known if known.exists() else new_log(tmp_path / "other").paths.pin) if pinned else None
    verdict = verify(place, pin=pin)

    assert expected == verdict.verdict, verdict.to_json()
    assert KEYS == set(verdict.to_json())
    assert (0, None) == (verdict.records, verdict.proven_to)


def test_a_file_that_shrinks_while_it_is_read_ends_there(log: SmallLog) -> None:
    path = log.segments()[0]
    with SegmentFile(path) as file:
        os.truncate(path, 100)

        assert 100 == len(file.read(0, 1 << 20))


# No change of the bytes goes unseen, and none makes it fall over.


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_the_bytes_is_called_whole(log: SmallLog, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(log.segments()))
    before = path.read_bytes()
    at = data.draw(st.integers(0, len(before) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "delete", "insert", "zero"]))
    length = data.draw(st.integers(1, 600))
    match how:
        case "flip":
            changed = before[:at] + bytes([before[at] ^ data.draw(st.integers(1, 255))]) + before[at + 1 :]
        case "cut":
            changed = before[:at]
        case "delete":
            changed = before[:at] + before[at + length :]
        case "insert":
            changed = before[:at] + data.draw(st.binary(min_size=1, max_size=64)) + before[at:]
        case _:
            changed = before[:at] + bytes(len(before[at : at + length])) + before[at + length :]
    if changed == before:
        return
    path.write_bytes(changed)
    try:
        anchored, alone = log.verdict(), log.verdict(anchored=False)
    finally:
        path.write_bytes(before)

    assert VerdictName.OK is not anchored.verdict
    cut_at_a_commit = path == log.segments()[-1] and before.startswith(changed)
    assert VerdictName.OK_UNANCHORED is not alone.verdict or cut_at_a_commit
    assert 40 < anchored.exit_code < 52


def test_verifying_stays_small_and_imports_nothing_heavy(tmp_path: Path) -> None:
    big = new_log(tmp_path)
    with big.writer(limits=SMALL) as writer:
        for number in range(40):
            write_events(writer, 1, first=number)
    script = (
        "import re, sys; from pathlib import Path; from broker.audit.verify import verify;"
        f"v = verify(Path({str(big.directory)!r}), pin=None);"
        "heavy = {'aiohttp', 'asyncio', 'textual', 'msgspec', 'sqlite3', 'jsonschema_rs'} & set(sys.modules);"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1];"
        "print(v.verdict, int(peak) // 1024, sorted(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    verdict, rss_mib, heavy = run.stdout.split(maxsplit=2)

    assert ("OK_UNANCHORED", "[]") == (verdict, heavy.strip())
    assert int(rss_mib) <= 64


def test_commits_are_where_the_prefix_property_says(log: SmallLog) -> None:
    last = log.segments()[-1]
    commits = [record for record in records_of(last) if record.kind == COMMIT]
    os.truncate(last, commits[-2].end)

    assert VerdictName.OK_UNANCHORED == log.verdict(anchored=False).verdict
    assert VerdictName.TRUNCATED == log.verdict().verdict
